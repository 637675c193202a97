"""`python -m bench [--quick] [--only PART…] [--operations N] [--rounds N]`, on private servers: `make bench ARGS=…`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench import house, parts, selected
from bench.figures import Line, table
from bench.house import ChildFailed, House, NoServers

PARTS: dict[str, Callable[[parts.Run], list[Line]]] = {
    "intake": parts.intake,
    "worker": parts.worker,
    "peers": parts.peers,
    "sandbox": parts.sandbox,
    "costs": parts.costs,
    "replays": parts.replays,
    "selections": selected.selections,
    "pages": parts.pages,
    "history": parts.intake_with_history,
}


@dataclass(frozen=True)
class Asked:
    only: tuple[str, ...]
    size: parts.Size
    operations: int


def main(words: list[str]) -> int:
    asked = _read(words)
    begun = time.monotonic()
    lines: list[Line] = []
    with contextlib.ExitStack() as stack:
        try:
            run = parts.Run(House(stack), asked.size, asked.operations)
            _say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the run; preparing")
            run.house.prepare()
            for name in asked.only:
                _say(name)
                lines += PARTS[name](run)
                _say(f"{name} is done, load {os.getloadavg()[0]:.1f}")
        except (NoServers, ChildFailed) as why:
            if lines:
                print(table(lines))
            sys.stderr.write(f"\n{why}\n")
            return 1
    print(table(lines))
    _say(f"took {time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f} after the run")
    return 0


def _read(words: list[str]) -> Asked:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=house.__doc__)
    parser.add_argument("--quick", action="store_true", help="everything small, in a minute or two")
    parser.add_argument(
        "--tiny", action="store_true", help=argparse.SUPPRESS
    )  # for the test that it runs at all
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--operations", type=int, help="history on file for the pages (1,000,000)")
    parser.add_argument("--rounds", type=int, help="how often everything is measured (5)")
    given = parser.parse_args(words)
    size = parts.TINY if given.tiny else parts.QUICK if given.quick else parts.FULL
    if given.rounds is not None:
        size = size.with_rounds(max(1, given.rounds))
    operations = given.operations or size.history
    if operations < 2 * size.history_small:
        parser.error(f"--operations must be at least {2 * size.history_small}")
    return Asked(tuple(given.only), size, operations)


def _say(line: str) -> None:
    sys.stderr.write(f"-- {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
