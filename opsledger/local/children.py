"""Child processes: each in its own session, tied to the life of the one that started it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from opsledger.local.errors import CannotStart

TETHER = Path(__file__).with_name("tether.py")
LOG_BYTES_MAX = 5_000_000


@dataclass(frozen=True)
class Account:
    """An unprivileged user that a child runs as, when we are root and the child must not be."""

    name: str
    uid: int
    gid: int


def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    folder: Path,
    account: Account | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
    stdin: bytes | None = None,
    answer: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts `command` in its own session with output appended to `log` (standard output to `answer`).

    When the calling thread ends, the kernel sends `death_signal` (for it the parent is the thread): call this
    from a thread that lives as long as the child should.
    """
    executable = shutil.which(command[0], path=env.get("PATH")) or command[0]
    who = account or Account("", -1, -1)
    tether = [
        sys.executable,
        "-I",
        "-S",
        str(TETHER),
        str(int(death_signal)),
        str(os.getpid()),
        str(who.uid),
        str(who.gid),
    ]
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                [*tether, executable, *command[1:]],
                env=dict(env),
                cwd=folder,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=answer or output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as why:
        raise CannotStart(
            f"{Path(executable).name} could not be started: {why}.", todo="Mend that and start again."
        ) from why
    if child.stdin is not None:
        with child.stdin as pipe:
            pipe.write(stdin or b"")
    return child


def stop(child: subprocess.Popen[bytes], how: signal.Signals, seconds_max: float) -> bool:
    """Asks the child with `how`, waits, then ends its whole session. True when it ended by itself in time."""
    if child.poll() is None:
        child.send_signal(how)
    try:
        child.wait(seconds_max)
    except subprocess.TimeoutExpired:
        end_session(child)
        return False
    end_session(child)
    return True


def end_session(child: subprocess.Popen[bytes]) -> None:
    """SIGKILL for whatever of the child's process group is still there; the child is reaped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody left (macOS says so with EPERM)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def describe(status: int | None) -> str:
    """An exit status in words."""
    return f"ended by {signal.Signals(-status).name}" if status and status < 0 else f"exit status {status}"


def fresh_log(path: Path) -> Path:
    """`path`, ready to append to; what had grown beyond 5 MB is kept once as `.1`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        path.replace(path.with_name(f"{path.name}.1"))
    return path
