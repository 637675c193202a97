"""How a program of the measurement talks to the one that started it: ready, go, one line of JSON."""

from __future__ import annotations

import json
import sys


def ready() -> None:
    """Says that all preparation is done, and waits for the start."""
    print("ready", flush=True)
    sys.stdin.readline()


def answer(**values: object) -> None:
    print(json.dumps(values), flush=True)
