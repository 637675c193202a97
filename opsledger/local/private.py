"""Private servers that live as long as one command: for tests and measurements, beside whatever else runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from opsledger.local.broker import Broker
from opsledger.local.postgres import Postgres
from opsledger.local.rooms import private_room


@contextlib.contextmanager
def private_servers(checkout: Path, *, durable: bool = False) -> Iterator[dict[str, str]]:
    """Starts PostgreSQL and a broker, gives the environment that leads to them, deletes both at the end."""
    with private_room(checkout) as room, contextlib.ExitStack() as stack:
        postgres = Postgres(room, log=room.folder / "postgres.log", durable=durable)
        stack.callback(postgres.stop)
        urls = postgres.start()
        broker = Broker(room.folder / "broker", log=room.folder / "broker.log")
        stack.callback(broker.stop)
        yield {
            "DATABASE_URL": urls.app,
            "DATABASE_OWNER_URL": urls.owner,
            "REDIS_URL": broker.start(),
            "TEST_SUPERUSER_URL": urls.superuser,
            "TEST_ROOM": str(room.folder),
        }


def with_servers(environment: dict[str, str]) -> dict[str, str]:
    """The present environment led to these servers and to no other."""
    hidden = {f"{name}_FILE" for name in environment}
    return {name: value for name, value in os.environ.items() if name not in hidden} | environment
