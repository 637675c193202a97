"""A PostgreSQL URL as Django's connection settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from opsledger.lib.env import BadSetting

# Plans follow keys (docs/decisions/0023-plans.md). Before PostgreSQL 18 what is discouraged counts as dear: no JIT for that.
FOLLOW_KEYS = {"enable_seqscan": "off", "jit": "off"}
# A worker's statements are about a few rows each, found by their ids: tables are never joined from end to end.
ROW_BY_ROW = {**FOLLOW_KEYS, "enable_mergejoin": "off", "enable_hashjoin": "off"}


def database(
    url: str, *, limits_ms: dict[str, int], keep: bool, planner: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Settings for one connection.

    `limits_ms` are PostgreSQL settings in milliseconds, set for the session, as are those for its `planner`; `keep` holds
    the connection between requests (web) and checks it before use. Statements are prepared on the server after two uses.
    """
    try:
        parts = conninfo_to_dict(url)
    except Exception as why:
        raise BadSetting(f"The database URL can't be read: {why}") from why
    options = " ".join(f"-c {name}={value}" for name, value in {**limits_ms, **(planner or {})}.items())
    known = {"dbname", "user", "password", "host", "port"}
    extra = {name: value for name, value in parts.items() if name not in known}
    extra["options"] = f"{extra.get('options', '')} {options} -c timezone=UTC".strip()
    return {
        "ENGINE": "opsledger.lib.postgres",
        "NAME": parts.get("dbname") or parts.get("user") or "opsledger",
        "USER": parts.get("user") or "",
        "PASSWORD": parts.get("password") or "",
        "HOST": parts.get("host") or "",
        "PORT": str(parts.get("port") or ""),
        "CONN_MAX_AGE": 600 if keep else None,
        "CONN_HEALTH_CHECKS": True,
        "ATOMIC_REQUESTS": False,
        "OPTIONS": {"connect_timeout": 10, "prepare_threshold": 2, "server_side_binding": True, **extra},
    }


class OneSchema:
    """Both connections show the same schema; migrations run on the owner's only."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return None

    def allow_relation(self, first: object, second: object, **hints: Any) -> bool:
        return True
