"""The two servers of one `make up`: embedded ones, or those that the environment names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg
import redis

from opsledger.local.broker import Broker
from opsledger.local.children import describe, fresh_log
from opsledger.local.errors import CannotStart
from opsledger.local.options import Options
from opsledger.local.postgres import Postgres
from opsledger.local.rooms import lasting_room

POSTGRES_VERSION_LEAST = 140_000  # as the product's own check says
ANSWER_SECONDS_MAX = 5
Answer = TypeVar("Answer")


class Servers:
    """After `start`: `database_url`, `owner_url`, `redis_url`."""

    def __init__(
        self, options: Options, *, say: Callable[[str], None], pause: Callable[[float], None]
    ) -> None:
        self._options, self._say, self._pause = options, say, pause
        self.database_url, self.owner_url, self.redis_url = (
            options.database_url,
            options.owner_url,
            options.redis_url,
        )
        self._postgres: Postgres | None = None
        self._broker: Broker | None = None

    def start(self) -> None:
        """PostgreSQL first, then the broker. Raises CannotStart."""
        if self._options.database_url:
            self._check_database()
        else:
            self._start_postgres()
        if self._options.redis_url:
            self._check_redis()
        else:
            self._start_broker()

    def revive(self) -> None:
        """Starts again what ended by itself, with the same addresses; a server of one's own is left alone."""
        if self._postgres and self._postgres.exit_status() is not None:
            self._say(f"PostgreSQL ended ({describe(self._postgres.exit_status())}); starting it again.")
            self._postgres.start()
        if self._broker and self._broker.exit_status() is not None:
            self._say(f"The broker ended ({describe(self._broker.exit_status())}); starting it again.")
            self._broker.start()

    def stop(self) -> None:
        """The broker first, PostgreSQL last, without interruption."""
        if self._broker:
            self._broker.stop()
        if self._postgres:
            self._postgres.stop()

    def _start_postgres(self) -> None:
        room = lasting_room(self._options.checkout)
        if not room.cluster.exists():
            self._say("Making the database: this happens once.")
        log = fresh_log(self._options.logs / "postgres.log")
        self._postgres = Postgres(room, log=log, say=self._say, pause=self._pause)
        urls = self._postgres.start()
        self.database_url, self.owner_url = urls.app, urls.owner

    def _start_broker(self) -> None:
        log = fresh_log(self._options.logs / "broker.log")
        self._broker = Broker(self._options.var / "broker", log=log, pause=self._pause)
        self.redis_url = self._broker.start()

    def _check_database(self) -> None:
        def version() -> int:
            with psycopg.connect(self._options.database_url, connect_timeout=5) as connection:
                return connection.info.server_version

        found = self._patiently(
            version, psycopg.Error, "The PostgreSQL that DATABASE_URL names does not answer"
        )
        if found < POSTGRES_VERSION_LEAST:
            raise CannotStart(
                f"DATABASE_URL names a PostgreSQL {found // 10_000};"
                f" {POSTGRES_VERSION_LEAST // 10_000} or newer is needed.",
                todo="Point DATABASE_URL at a newer one, or unset it to use the embedded one.",
            )

    def _check_redis(self) -> None:
        def ping() -> bool:
            with contextlib.closing(redis.from_url(self._options.redis_url, socket_timeout=5)) as client:
                return bool(client.ping())

        self._patiently(ping, redis.RedisError, "The Redis that REDIS_URL names does not answer")

    def _patiently(self, ask: Callable[[], Answer], error: type[Exception], what: str) -> Answer:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            try:
                return ask()
            except error as why:
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"{what}: {why}", todo="Mend it or correct the variable, then start again."
                    ) from why
            self._pause(0.5)
