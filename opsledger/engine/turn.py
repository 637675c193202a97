"""The loop that sends and lookups share: claim, call the world in threads, record, and again.

A worker is mostly waiting, so one process keeps many calls in flight. It claims no more than it has free threads, because
every claimed step of a dead worker becomes an unknown outcome. The threads touch no database; the loop never waits for
the world with a transaction open. While something is in flight it goes on claiming: one slow destination must not hold up
the others. What came back is kept until the database has taken it, however often that is away meanwhile.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar
from uuid import UUID

import psycopg
from django.db import InterfaceError, OperationalError, connection

from opsledger.engine import shift

log = logging.getLogger(__name__)

# The database is away, or was too busy with this row: nothing is wrong with what was to be written.
DATABASE_AWAY = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
RECORD_BATCH_MAX = 16
GATHER_SECONDS = (
    0.0005  # after the first result, so often: those that come at the same moment are recorded together
)
GATHERINGS_MAX = 4
LOOK_ROUND_SECONDS = 1.0  # the longest wait for what is in flight before what is due is asked for again
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 5.0

Claimed = TypeVar("Claimed")
Result = TypeVar("Result")
Pairs = list[tuple[Claimed, Result]]


@dataclass
class Turn(Generic[Claimed, Result]):
    """One worker process's turn. The functions are called in its own thread, but for `call`."""

    claim: Callable[[int], list[Claimed]]
    call: Callable[[Claimed], Result]
    record: Callable[[Pairs[Claimed, Result]], None]  # at most one of each operation
    operation_of: Callable[[Claimed], UUID]
    given_up: Callable[[Claimed], bool]  # whether a result that could not be recorded is let go
    threads: int
    claim_for_seconds: float = math.inf
    flying: dict[int, Claimed] = field(default_factory=dict)  # calls that are under way, by their numbers
    landed: Pairs[Claimed, Result] = field(default_factory=list)
    count: int = 0
    _waiting: dict[int, Claimed] = field(default_factory=dict)  # of these, those that no thread has begun
    _may_claim: bool = True
    _back: SimpleQueue[tuple[int, Result | None]] = field(default_factory=SimpleQueue)  # None: it broke
    _pause_seconds: float = 0.0  # above 0 while the database is away
    _away_until: float = 0.0

    def run(self) -> int:
        """Until nothing is due, in flight or to be recorded; then how many calls were made."""
        claim_until = time.monotonic() + self.claim_for_seconds
        with ThreadPoolExecutor(self.threads, thread_name_prefix="call") as pool:
            while True:
                if self._may_claim and time.monotonic() < claim_until and not shift.is_over():
                    self._take_off(pool)
                if not self.flying and not self.landed:
                    return self.count
                self._land()
                self._record()

    def _take_off(self, pool: ThreadPoolExecutor) -> None:
        free = self.threads - len(self.flying)
        if self._pause_seconds or free < max(1, self.threads // 4):
            return
        try:
            claimed = self.claim(free)
        except DATABASE_AWAY as why:
            log.warning("claiming failed (%s); the next bell goes on", type(why).__name__)
            connection.close()
            self._pause()
            return
        except Exception:  # a fault of ours: what is in flight is recorded all the same
            log.exception("claiming broke; the next bell tries again")
            self._pause()
            return
        for one in claimed:
            self.count += 1
            self.flying[self.count] = self._waiting[self.count] = one
            self._hand_over(pool, self.count)

    def _hand_over(self, pool: ThreadPoolExecutor, number: int) -> None:
        """A machine that starts no more threads must lose no reply: those that are there go on, and may have it already.
        Nothing more is claimed in this turn; the next bell tries again."""
        try:
            pool.submit(self._fly, number)
        except RuntimeError as why:
            self._may_claim = False
            if self._waiting.pop(number, None) is not None:
                del self.flying[number]
                log.error("a call to the world was not begun (%s); its lease decides", why)

    def _fly(self, number: int) -> None:
        """In a thread of the pool."""
        one = self._waiting.pop(number, None)
        if one is None:
            return
        result = None
        try:
            result = self.call(one)
        except Exception:  # a fault of ours: nobody knows what left, so the lease decides
            log.exception("a call to the world broke; its lease decides")
        finally:
            self._back.put((number, result))

    def _land(self) -> None:
        seconds = LOOK_ROUND_SECONDS
        if self.landed:
            seconds = max(0.0, self._away_until - time.monotonic())
        if not self.flying:
            time.sleep(seconds)  # nothing is left to wait for but the database
            return
        back = self._came_back(seconds)
        for _ in range(GATHERINGS_MAX):
            if not back or len(back) == len(self.flying):
                break
            time.sleep(GATHER_SECONDS)
            back += self._came_back(0.0)
        for number, result in back:
            one = self.flying.pop(number)
            if result is not None:
                self.landed.append((one, result))

    def _came_back(self, seconds: float) -> list[tuple[int, Result | None]]:
        """Calls that have ended, waiting at most so long for the first of them."""
        back: list[tuple[int, Result | None]] = []
        try:
            back.append(self._back.get(timeout=seconds) if seconds > 0 else self._back.get_nowait())
            while True:
                back.append(self._back.get_nowait())
        except Empty:
            return back

    def _record(self) -> None:
        if time.monotonic() < self._away_until:
            return
        size = 1 if self._pause_seconds else RECORD_BATCH_MAX
        batch, self.landed = self._batch(size)
        if not batch:
            self._pause_seconds = 0.0
            return
        try:
            self.record(batch)
            self._pause_seconds = 0.0
        except DATABASE_AWAY as why:
            connection.close()
            self._keep(batch, type(why).__name__)
            self._pause()
        except Exception:
            self._record_singly(batch)

    def _batch(self, size: int) -> tuple[Pairs[Claimed, Result], Pairs[Claimed, Result]]:
        """The first results, at most one of each operation, and the rest."""
        batch: Pairs[Claimed, Result] = []
        rest: Pairs[Claimed, Result] = []
        operations: set[UUID] = set()
        for pair in self.landed:
            operation = self.operation_of(pair[0])
            if len(batch) < size and operation not in operations:
                batch.append(pair)
            else:
                rest.append(pair)
            operations.add(operation)
        return batch, rest

    def _record_singly(self, batch: Pairs[Claimed, Result]) -> None:
        """One result that can't be recorded must not take the others with it."""
        for pair in batch:
            try:
                self.record([pair])
            except DATABASE_AWAY as why:
                connection.close()
                self._keep([pair], type(why).__name__)
                self._pause()
            except Exception:
                log.exception("a result could not be recorded; its lease decides")

    def _keep(self, batch: Pairs[Claimed, Result], why: str) -> None:
        kept = [pair for pair in batch if not self.given_up(pair[0])]
        self.landed += kept
        if len(kept) < len(batch):
            log.error("%d results could not be recorded in time (%s)", len(batch) - len(kept), why)

    def _pause(self) -> None:
        """Twice as long each time, until the database takes something again."""
        self._pause_seconds = min(max(2 * self._pause_seconds, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
        self._away_until = time.monotonic() + self._pause_seconds
