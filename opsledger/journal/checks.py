"""Start-up checks of the journal's protection and of the database."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections

POSTGRES_VERSION_MIN = 140_000


@register(Tags.database)
def server_is_new_enough(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """PostgreSQL 14 or newer; nothing newer is used. Whichever role is named looks: migrations name the owner."""
    for alias in databases or ():
        with connections[alias].cursor() as cursor:
            version = cursor.connection.info.server_version
        if version < POSTGRES_VERSION_MIN:
            return [
                Error(
                    f"PostgreSQL {version // 10_000} is too old.",
                    hint="Use PostgreSQL 14 or newer.",
                    id="journal.E001",
                )
            ]
    return []


@register(Tags.database)
def journal_is_out_of_reach(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """The application's role should not own the journal; with one role only, the triggers alone refuse."""
    if not databases or not (_owns_the_journal() if "default" in databases else _is_one_role()):
        return []
    return [
        checks.Warning(
            "The application's database role owns the journal; only triggers protect it.",
            hint="Give a second role: DATABASE_OWNER_URL for migrations, DATABASE_URL for the application.",
            id="journal.W001",
        )
    ]


def _owns_the_journal() -> bool:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('journal_entry')"
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def _is_one_role() -> bool:
    """By the settings: where migrations run, the application's own connection need not be within reach."""
    app, owner = (connections[alias].settings_dict for alias in ("default", "owner"))
    return all(app[name] == owner[name] for name in ("HOST", "PORT", "NAME", "USER"))


@register()
def requests_are_not_transactions(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """ATOMIC_REQUESTS would hold a transaction open over calls to the world."""
    return [
        Error(
            f"ATOMIC_REQUESTS is on for {alias}.",
            hint="Turn it off: intents commit before a call.",
            id="journal.E002",
        )
        for alias in connections
        if connections[alias].settings_dict.get("ATOMIC_REQUESTS")
    ]
