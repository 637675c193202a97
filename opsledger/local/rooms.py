"""Where an embedded PostgreSQL keeps its things.

A room holds one cluster, its passwords, its socket and, under root, a copy of the binaries. PostgreSQL
refuses to run as root, and the user it then runs as may be unable to enter the checkout: under root rooms lie
in `/var/lib/opsledger-<digest of the checkout's path>/`, otherwise in the checkout's `var/`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from opsledger.local.children import Account
from opsledger.local.errors import CannotStart

# A socket's path may be 107 bytes long on Linux, 103 on macOS; PostgreSQL appends `/.s.PGSQL.5432.lock`.
SOCKET_FOLDER_BYTES_MAX = 80
ACCOUNT_NAMES = ("postgres", "nobody")


@dataclass
class Room:
    """A folder for one cluster. `account` is the user that PostgreSQL runs as, or None for our own."""

    folder: Path
    account: Account | None
    lock: IO[bytes] | None = field(default=None, repr=False)

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    def make_folder(self, path: Path, mode: int = 0o700) -> Path:
        """A folder that belongs to the user PostgreSQL runs as."""
        path.mkdir(mode=mode, exist_ok=True)
        if self.account:
            os.chown(path, self.account.uid, self.account.gid)
        path.chmod(mode)
        return path

    def socket_folder(self) -> Path:
        """A folder with a path short enough for a socket."""
        path = self.folder / "socket"
        if len(os.fsencode(path)) <= SOCKET_FOLDER_BYTES_MAX:
            return self.make_folder(path, 0o711)
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()
        path = Path(tempfile.gettempdir()) / f"opsledger-{digest[:16]}"
        if os.path.lexists(path) and not self._is_ours(path):  # anybody may write there
            path = Path(tempfile.mkdtemp(prefix="opsledger-"))
        return self.make_folder(path, 0o711)

    def _is_ours(self, path: Path) -> bool:
        found = path.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == (
            self.account.uid if self.account else os.geteuid()
        )

    def remove(self) -> None:
        """Deletes the room with all that is in it: for private rooms only."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # the last one out; refuses while others are in
            self.folder.parent.rmdir()
        if self.lock:
            self.lock.close()


def lasting_room(checkout: Path) -> Room:
    """The room whose data stay, `var/postgres` in the checkout (under root: a link to it)."""
    link = _var(checkout) / "postgres"
    if os.geteuid() != 0:
        link.mkdir(mode=0o700, exist_ok=True)
        return Room(link, None)
    folder = base(checkout) / "postgres"
    if not (link.is_symlink() and link.readlink() == folder):
        _set_aside(folder)
        if link.is_symlink() or link.exists():
            raise CannotStart(
                f"{link} is not the link to {folder} that it should be.",
                todo="It was probably made by another user. Start as that user, or move it away.",
            )
        link.symlink_to(folder)
    _make_shared(folder)
    # for the person who finds the folder when the checkout is gone
    (folder.parent / "checkout").write_text(f"{checkout.resolve()}\n", encoding="utf-8")
    return Room(folder, account_for(folder / "cluster"))


@contextlib.contextmanager
def private_room(checkout: Path) -> Iterator[Room]:
    """A room of one's own, deleted at the end. Rooms left by runs that were killed are deleted first."""
    root = os.geteuid() == 0
    rooms = base(checkout) if root else _var(checkout) / "test"
    _make_shared(rooms)
    with (_var(checkout) / "test.lock").open("ab") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        for old in rooms.glob("private-*"):
            _remove_if_left(old)
        folder = Path(tempfile.mkdtemp(prefix="private-", dir=rooms))
        folder.chmod(0o711)
        lock = (folder / "lock").open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX)
    room = Room(folder, account_for(folder / "cluster") if root else None, lock)
    try:
        yield room
    finally:
        room.remove()


def account_for(cluster: Path) -> Account:
    """The user that owns `cluster`, else the first of the usual unprivileged ones that this machine has."""
    with contextlib.suppress(FileNotFoundError, KeyError):
        entry = pwd.getpwuid(cluster.stat().st_uid)
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    for name in ACCOUNT_NAMES:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise CannotStart(
        f"PostgreSQL does not run as root, and there is no user {' or '.join(ACCOUNT_NAMES)} to run it as.",
        todo="Start as an ordinary user, or set DATABASE_URL and REDIS_URL to servers of your own.",
    )


def _var(checkout: Path) -> Path:
    path = checkout / "var"
    try:
        path.mkdir(exist_ok=True)
    except OSError as why:
        raise CannotStart(
            f"{path} can't be made: {why.strerror}.", todo="Make the checkout writable and start again."
        ) from why
    return path


def base(checkout: Path) -> Path:
    """The folder under /var/lib with this checkout's rooms, when we are root."""
    digest = hashlib.sha256(os.fsencode(checkout.resolve())).hexdigest()
    return Path("/var/lib") / f"opsledger-{digest[:12]}"


def _make_shared(path: Path) -> None:
    """A folder that others may pass through and not list."""
    try:
        path.mkdir(mode=0o711, parents=True, exist_ok=True)
        path.chmod(0o711)
    except OSError as why:
        raise CannotStart(
            f"{path} can't be made: {why.strerror}.", todo="Make its parent writable and start again."
        ) from why


def _set_aside(folder: Path) -> None:
    """A room of an earlier checkout at the same path is kept under another name, never taken over."""
    if folder.exists():
        folder.rename(folder.with_name(f"postgres-set-aside-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"))


def _remove_if_left(folder: Path) -> None:
    try:
        with (folder / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError:
        pass
    shutil.rmtree(folder, ignore_errors=True)
