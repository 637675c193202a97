"""`python -m opsledger.local up | test | run | manage`: what the Makefile calls.

up                  everything on this machine until Ctrl-C
test [WORDS…]       the tests on private servers; WORDS go to pytest
run -- COMMAND…     a command on private servers, as careful with data as real ones, deleted afterwards
manage WORDS…       manage.py on the data of this checkout, beside a running `up` or alone
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from opsledger.local.commands import manage, run, test
from opsledger.local.supervisor import up

CHECKOUT = Path(__file__).resolve().parent.parent.parent
COMMANDS: dict[str, Callable[[Path, list[str]], int]] = {"test": test, "run": run, "manage": manage}


def main(words: list[str]) -> int:
    os.chdir(CHECKOUT)
    if words == ["up"]:
        return up(CHECKOUT)
    if words and words[0] in COMMANDS:
        return COMMANDS[words[0]](CHECKOUT, words[1:])
    sys.stderr.write(__doc__ or "")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
