"""Who is reading the same page. Kept in Redis for forty seconds, by team and page; never in the database.

Nothing depends on it: without Redis nobody is shown, and after a failure Redis is left alone for a while, so that a dead
one costs a page nothing. Times are those of the web machines; they may differ by seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from uuid import UUID

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

log = logging.getLogger(__name__)

TTL_SECONDS = 40  # a tab in sight tells every 15 s
TIMEOUT_SECONDS = 0.15
QUIET_SECONDS = 15.0  # after a failure
READERS_MAX = 50


class Presence:
    """Readers of pages, at one Redis. Its methods never raise."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self._url, self._clock = url, clock
        self._client: redis.Redis | None = None
        self._quiet_until = 0.0
        self._lock = threading.Lock()

    def beat(self, team_id: UUID, page: str, person_id: UUID) -> list[UUID]:
        """Notes that this person reads the page now. Returns who else does, in the order of ids."""
        if self._clock() < self._quiet_until:
            return []
        try:
            members = self._told(f"presence:{team_id}:{page}", str(person_id))
        except (redis.RedisError, OSError) as why:
            self._quiet_until = self._clock() + QUIET_SECONDS
            log.warning("presence is off for %.0f s: %s", QUIET_SECONDS, type(why).__name__)
            return []
        return [UUID(one) for one in sorted(members) if one != str(person_id)]

    def _told(self, key: str, person: str) -> list[str]:
        now = self._clock()
        with self._connected().pipeline(transaction=False) as pipe:  # one round trip
            pipe.zadd(key, {person: now})
            pipe.expire(key, TTL_SECONDS)
            pipe.zremrangebyscore(key, "-inf", now - TTL_SECONDS)
            pipe.zrange(key, 0, READERS_MAX - 1)
            return [one.decode() for one in pipe.execute()[-1]]

    def _connected(self) -> redis.Redis:
        with self._lock:
            if self._client is None:
                self._client = redis.Redis.from_url(
                    self._url,
                    socket_timeout=TIMEOUT_SECONDS,
                    socket_connect_timeout=TIMEOUT_SECONDS,
                    retry=Retry(NoBackoff(), 0),
                )
            return self._client

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


_installed: Presence | None = None


def installed_presence() -> Presence:
    """At the Redis that the settings name; one per process."""
    global _installed
    if _installed is None:
        _installed = Presence(settings.REDIS_URL)
    return _installed
