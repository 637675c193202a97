"""Ties a command to the life of its parent, then becomes it.

Run as a script, never imported by what it starts: `python -I -S tether.py SIGNAL PARENT UID GID COMMAND…`.

1. Give up root for UID and GID (when UID is not -1). A change of user clears the tie, so it comes first.
2. Ask the kernel for SIGNAL when the parent ends (Linux only; elsewhere the supervisor's own stop must do).
3. If the parent ended meanwhile, end too.
4. Become COMMAND.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(signal_number: int, parent: int, uid: int, gid: int, command: list[str]) -> None:
    if uid != -1:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        raise SystemExit("The supervisor ended; not starting.")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:5]]
    main(numbers[0], numbers[1], numbers[2], numbers[3], sys.argv[5:])
