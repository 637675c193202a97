"""`python -m opsledger.destinations.sandbox --port P --host H --state FILE.sqlite3 [--seed N] [--token T]`"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

from .peer import PeerUnavailable, SandboxPeer
from .store import StateUnusable


def main(arguments: list[str] | None = None) -> int:
    """Run the peer until SIGTERM or SIGINT. Exit status 1 when it can't start, with the reason."""
    given = _parser().parse_args(arguments)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    token = given.token or os.environ.get("SANDBOX_TOKEN") or None
    peer = SandboxPeer(given.port, given.host, given.state, given.seed, token)
    try:
        peer.start()
    except (PeerUnavailable, StateUnusable) as wrong:
        sys.stderr.write(f"{wrong}\n")
        return 1
    sys.stdout.write(f"The sandbox peer listens on {peer.url}\n")
    sys.stdout.flush()
    stopped.wait()
    peer.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m opsledger.destinations.sandbox",
        description="A CRM and a mail provider that misbehave on demand. See docs/sandbox.md.",
    )
    parser.add_argument(
        "--port", type=_port, default=0, help="0, the default, takes a free one and prints it"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument(
        "--state", default=":memory:", help="SQLite file; without it, nothing survives the process"
    )
    parser.add_argument("--seed", type=int, help="random behaviour from the start, by this seed")
    parser.add_argument(
        "--token",
        help="require this bearer token; better given as SANDBOX_TOKEN, which process lists don't show",
    )
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
