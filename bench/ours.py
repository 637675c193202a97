"""Our programs of the measurement, each in a process of its own: `python -m bench.ours NAME WORDS…`.

Everything is the product's own code. Only one thing may be exchanged: the wire, for one that answers at once.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402

from bench import mixed  # noqa: E402
from bench.payload import params  # noqa: E402
from bench.signals import answer, ready  # noqa: E402
from opsledger.accounts.actions import add_person, add_team, create_token  # noqa: E402
from opsledger.accounts.models import Team  # noqa: E402
from opsledger.accounts.permissions import Scope  # noqa: E402
from opsledger.destinations.http import Wire  # noqa: E402
from opsledger.destinations.transport import AddressGuard, SendLimits, WireRequest  # noqa: E402
from opsledger.engine import dispatch  # noqa: E402
from opsledger.engine.loading import read_files  # noqa: E402
from opsledger.engine.wire import installed_wire  # noqa: E402
from opsledger.ledger.actions.definitions import load  # noqa: E402
from opsledger.ledger.actions.intake import Verdict, Wanted, open_intended  # noqa: E402
from opsledger.ledger.actions.replay_items import record_items_started  # noqa: E402
from opsledger.ledger.actions.replays import Start, open_replay  # noqa: E402
from opsledger.ledger.actions.settle import By  # noqa: E402
from opsledger.ledger.clock import database_now  # noqa: E402
from opsledger.ledger.queries.replay_plans import plan, scope_of_ids  # noqa: E402
from opsledger.ledger.replay_plan import Plan, freeze, thaw  # noqa: E402
from opsledger.lib.database_url import FOLLOW_KEYS, ROW_BY_ROW  # noqa: E402
from opsledger.rules.facts import Phase, SendFact  # noqa: E402

DEFINITIONS = Path(__file__).resolve().parent / "definitions"
PLAIN = Path(__file__).resolve().parent / "plain"
DEMO = Path(__file__).resolve().parents[1] / "demo" / "definitions"
MIXED_PARAMS = {
    "campaign": "spring launch", "company": "Alder Works", "account": "ACC-4417", "subject": "Call Alder Works",
    "queue": "launch-care", "due_date": "2026-12-16",
}  # fmt: skip
WORKFLOW = "two_steps"
BY = By("command:bench", "bench")
THREADS = 16  # what a worker process has in flight at most, as installed
IDLE_ROUNDS = 3


class NoWire(Wire):
    """Answers every send at once as a good destination would, without a socket."""

    _numbers = count(1)
    _run = uuid.uuid4().hex

    def send(self, request: WireRequest, limits: SendLimits) -> SendFact:
        body = b'{"id":"T-%s-%d"}' % (self._run.encode(), next(self._numbers))
        headers = (("content-type", "application/json"),)
        return SendFact(True, Phase.DONE, status=201, headers=headers, body=body, elapsed_seconds=0.001)


def prepare() -> None:
    """A team, the workflow, a token."""
    owner = add_person(email="owner@bench.example", display_name="Bench owner", password=uuid.uuid4().hex)
    team = add_team(slug="bench", name="Bench", fallback_owner=owner)
    load(team.pk, read_files([DEFINITIONS]), actor="command:bench")
    token = create_token(team=team, name="bench", scopes=[Scope.RECORD])
    answer(token=token.text, team=str(team.pk))


def _wanted(number: int, run: str) -> Wanted:
    return Wanted(operation_id=f"bench:{run}:{number}", workflow=WORKFLOW, params=params(number))


def record(operations_count: str, batch: str) -> None:
    """Records so many operations, `batch` in a transaction: what a worker has to do afterwards."""
    team, run = Team.objects.get(slug="bench"), uuid.uuid4().hex[:8]
    begun = time.perf_counter()
    for first in range(0, int(operations_count), int(batch)):
        last = min(first + int(batch), int(operations_count))
        taken = open_intended(team.pk, [_wanted(number, run) for number in range(first, last)], BY)
        assert all(one.verdict is Verdict.RECORDED for one in taken)
    answer(seconds=time.perf_counter() - begun)


def work(wire: str) -> None:
    """One worker process: until nothing is due. Tells when it began and when it recorded last."""
    chosen = NoWire(AddressGuard.of([])) if wire == "none" else installed_wire()
    dispatch.run_once(wire=chosen, threads=THREADS, claim_for_seconds=0)  # imports and connects
    ready()
    begun = ended = time.time()
    recorded = idle = 0
    outcomes: dict[str, int] = {}
    while idle < IDLE_ROUNDS:
        counts = dispatch.run_once(wire=chosen, threads=THREADS)
        recorded += counts.recorded
        for word, number in counts.outcomes.items():
            outcomes[word] = outcomes.get(word, 0) + number
        idle = 0 if counts.recorded else idle + 1
        ended = time.time() if counts.recorded else ended
        if not counts.recorded:
            time.sleep(0.01)
    answer(begun=begun, ended=ended, steps=recorded, outcomes=outcomes)


def whole(operations_count: str, batch: str, threads: str) -> None:
    """One process does everything: it records operations, `batch` in a call, by so many threads, and sends their steps."""
    team, run, wire = Team.objects.get(slug="bench"), uuid.uuid4().hex[:8], NoWire(AddressGuard.of([]))
    dispatch.run_once(wire=wire, threads=THREADS, claim_for_seconds=0)

    def take(first: int) -> None:
        last = min(first + int(batch), int(operations_count))
        open_intended(team.pk, [_wanted(number, run) for number in range(first, last)], BY)

    ready()
    begun, steps = time.time(), 0
    with ThreadPoolExecutor(int(threads), initializer=_as_the_web_does) as pool:
        list(pool.map(take, range(0, int(operations_count), int(batch))))
    recorded_after = time.time() - begun
    while True:
        counts = dispatch.run_once(wire=wire, threads=THREADS)
        steps += counts.recorded
        if not counts.recorded:
            break
    answer(seconds=time.time() - begun, intake_seconds=recorded_after, steps=steps)


def _as_the_web_does() -> None:
    """A thread that records plans its statements as the web does, where the product records; a worker's plan row by row."""
    with connection.cursor() as cursor:
        for name in sorted(ROW_BY_ROW.keys() - FOLLOW_KEYS.keys()):
            cursor.execute(f"SET {name} = on")


class LosingWire(Wire):
    """Everything leaves and no answer comes."""

    def send(self, request: WireRequest, limits: SendLimits) -> SendFact:
        return SendFact(True, Phase.READ, error="timeout", elapsed_seconds=limits.total_seconds)


def lose(number: str) -> None:
    """One operation whose first reply is lost: its page has something to tell. Gives its id."""
    team = Team.objects.get(slug="bench")
    opened = open_intended(team.pk, [_wanted(int(number), "lost")], BY)[0].opened
    assert opened is not None
    counts = dispatch.run_once(wire=LosingWire(AddressGuard.of([])), threads=1)
    assert counts.outcomes == {"unknown": 1}, counts
    answer(id=str(opened.id))


def replays(operations_count: str, rounds: str) -> None:
    """Plans a replay over operations of every kind, then starts it and begins its items; beside plain SQL, in turn."""
    team = Team.objects.get(slug="bench")
    known = {one.slug: one for one in read_files([DEMO])}
    load(team.pk, mixed.definitions(known["crm"], known["classic_follow_up"]), actor="command:bench")  # type: ignore[arg-type]
    kinds = [mixed.of(number) for number in range(int(operations_count))]
    ids = list(made := mixed.open_kinds(team.pk, kinds, MIXED_PARAMS))
    mixed.answer_all(made)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    planned: list[float] = []
    plain: list[float] = []
    for _ in range(int(rounds)):
        plain.append(len(ids) / _seconds(lambda: _plain_plan(ids)))
        planned.append(len(ids) / _seconds(lambda: _frozen_plan(team, ids)))
    found, frozen = _frozen_plan(team, ids)
    owner = team.fallback_owner
    by = By(f"person:{owner.pk}", owner.display_name, owner.pk)
    rates = {one.slug: 1_000.0 for one in found.destinations}
    start = Start("bench", "measured", found.digest(), frozenset(rates), rates, mended=True)
    starting = _seconds(lambda: open_replay(thaw(frozen, team.pk, owner.pk), start, by))
    begun = 0

    def begin() -> None:
        nonlocal begun
        while count := record_items_started():
            begun += count

    beginning = _seconds(begin)
    answer(
        planned=planned,
        plain=plain,
        start_seconds=starting,
        bytes=len(frozen),
        begun_per_second=begun / beginning,
    )


def _frozen_plan(team: Team, ids: list[uuid.UUID]) -> tuple[Plan, str]:
    made = plan(team.pk, scope_of_ids(team.pk, ids), database_now())
    return made, freeze(made, team.fallback_owner.pk)


def _plain_plan(ids: list[uuid.UUID]) -> None:
    with connection.cursor() as cursor:
        cursor.execute((PLAIN / "plan.sql").read_text(encoding="utf-8"), [ids])
        assert len(cursor.fetchall()) == len(ids)


def _seconds(what: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    what()
    return time.perf_counter() - begun


PROGRAMS: dict[str, Callable[..., Any]] = {
    "prepare": prepare, "record": record, "work": work, "whole": whole, "lose": lose, "replays": replays,
}  # fmt: skip

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
