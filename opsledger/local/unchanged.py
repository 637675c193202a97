"""Whether work that an earlier start did still stands, so that the next start takes seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import psycopg


def files_digest(root: Path, paths: Iterable[Path]) -> str:
    """Over names and bytes, in the order of names."""
    whole = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        name = str(path.relative_to(root)).encode()
        content = hashlib.sha256(path.read_bytes()).digest()
        whole.update(len(name).to_bytes(4, "big") + name + content)
    return whole.hexdigest()


def migrations_digest(checkout: Path) -> str:
    """Our own migrations, and through the pinned requirements those of the libraries."""
    own = checkout.glob("opsledger/*/migrations/*.py")
    return files_digest(
        checkout, [*own, checkout / "requirements.txt", checkout / "opsledger" / "settings.py"]
    )


def static_digest(checkout: Path) -> str:
    own = [*checkout.glob("static/**/*"), *checkout.glob("opsledger/*/static/**/*")]
    return files_digest(
        checkout, [*own, checkout / "requirements.txt", checkout / "opsledger" / "settings.py"]
    )


def database_mark(owner_url: str) -> str:
    """Names this very database and what it has been through; empty when it can't be read.

    Another server, another database, a restored backup or a migration by another hand gives another mark.
    """
    query = """
        SELECT (SELECT system_identifier FROM pg_control_system()), current_database(), session_user,
               (SELECT oid FROM pg_database WHERE datname = current_database()),
               (SELECT count(*) FROM django_migrations), (SELECT max(applied) FROM django_migrations)"""
    try:
        with psycopg.connect(owner_url, connect_timeout=10) as connection:
            if connection.execute("SELECT to_regclass('django_migrations')").fetchone() == (None,):
                return ""
            row = connection.execute(query).fetchone()
    except psycopg.Error:
        return ""
    return json.dumps([str(value) for value in row or ()])


class Stamp:
    """Remembers in a file for what a piece of work was done last."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stands(self, mark: str) -> bool:
        try:
            return bool(mark) and self.path.read_text(encoding="utf-8") == mark
        except OSError:
            return False

    def set(self, mark: str) -> None:
        self.path.write_text(mark, encoding="utf-8")

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
