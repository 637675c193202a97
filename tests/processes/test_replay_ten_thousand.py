"""A replay over operations of every kind, with workers that are killed while it runs: what was planned is done, once.

REPLAY_OPERATIONS=10000 in the environment runs the whole size, which takes minutes; the suite runs fewer, of the same kinds,
with the same two deaths.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.test import Client

from bench import mixed
from bench.mixed import Kind
from opsledger.accounts.models import Person
from opsledger.engine import dispatch
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.replays import Start, open_replay
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries.replay_plans import plan, scope_of_ids
from opsledger.ledger.replay_plan import freeze, thaw
from opsledger.lib.ids import public
from tests.desk import WIRE, params, step_identity
from tests.processes.house import House, Running, definitions, until

COUNT = int(os.environ.get("REPLAY_OPERATIONS", "400"))
RUN_SECONDS_MAX = 60.0 + COUNT / 50
# How an item ends when nobody dies in the middle of it, and how often it is sent.
EXPECTED: dict[str, tuple[str, int]] = {
    "done": ("kept", 0),
    "rejected": ("recovered", 1),
    "tries used up": ("recovered", 1),
    "unknown, protected, not there": ("recovered", 1),
    "unknown, protected, there": ("recovered", 1),
    "unknown, absence can be proven": ("recovered", 1),
    "unknown, can be found": ("recovered", 0),
    "unknown, neither": ("refused", 0),
    "integrity alarm": ("refused", 0),
    "disputed": ("refused", 0),
}
ITEMS = """
SELECT i.operation_id, coalesce(nullif(i.result, ''), i.state) AS word, i.said, i.state,
       (SELECT count(*) FROM ledger_attempt a WHERE a.step_id = i.step_id AND a.opened_at >= i.started_at) AS attempts,
       (SELECT count(*) FROM ledger_attempt a WHERE a.step_id = i.step_id AND a.known_by = 'lease') AS untold
  FROM ledger_replayitem i WHERE i.replay_id = %s ORDER BY i.position
"""


@pytest.mark.timeout(600)
def test_a_replay_of_every_kind_of_operation_does_what_was_planned_although_its_workers_die(
    house: House,
) -> None:
    kinds = _history(house)
    before = Counter(one["identity"] for one in _writes(house))
    by = _owner()
    began = time.monotonic()
    made = plan(house.team.pk, scope_of_ids(house.team.pk, list(kinds)), database_now())
    planned_seconds = time.monotonic() - began
    verdicts = Counter((kinds[item.operation_id].name, item.verdict.kind.value) for item in made.items)
    assert verdicts == Counter((kind.name, kind.verdict) for kind in kinds.values())
    frozen = thaw(freeze(made, by.person_id), house.team.pk, by.person_id)
    touches = {one.slug: 1_000.0 for one in made.destinations}
    start = Start("all of it", "after the incident", made.digest(), frozenset(touches), touches, mended=True)

    house.sandbox.script("silence_after_acting", None, method="POST", seconds=0.3, answer=True)
    doomed = [house.worker(f"doomed-{number}") for number in (1, 2)]
    replay = open_replay(frozen, start, by).replay
    house.beat()
    page, over = _page(by, replay.pk), []
    for one, least in zip(doomed, (COUNT // 20, COUNT // 5), strict=True):
        until(lambda least=least: _ended(house) >= least, f"{least} items to end", RUN_SECONDS_MAX)
        until(
            lambda one=one: _in_flight(house, one) or _over(house),
            f"{one.name} to send",
            RUN_SECONDS_MAX,
            0.02,
        )
        one.kill()
        over += [_steps_over(page()), _steps_over(page())]  # somebody reads it meanwhile, and reloads
    house.worker("next")
    until(lambda: _over(house), "the replay to end", RUN_SECONDS_MAX, every=0.5)

    over.append(_steps_over(page()))
    assert over == sorted(over)

    sends = Counter(one["identity"] for one in _writes(house))
    sends.subtract(before)
    sent_count = sends.total()
    items = house.rows(ITEMS, replay.pk)
    untold = _check_items(kinds, items, sends)
    row = house.rows("SELECT * FROM ledger_replay")[0]
    states = _check_effects(house, kinds)
    call_command("verify_ledger", verbosity=0, stdout=io.StringIO())
    sys.stdout.write(
        f"{COUNT} operations planned in {planned_seconds:.1f} s, replayed in {time.monotonic() - began:.0f} s;"
        f" {sent_count} sends, {untold} whose worker died; {dict(states)}\n"
    )

    words = Counter(item["word"] for item in items)
    assert {name: row[f"{name}_count"] for name in words} == words
    assert (row["state"], row["item_count"], sum(words.values())) == ("finished", COUNT, COUNT)


def _page(by: By, replay_id: UUID) -> Callable[[], str]:
    """Loads the replay’s page anew each time."""
    client = Client()
    client.force_login(Person.objects.get(pk=by.person_id))
    return lambda: client.get(f"/replays/{public('rpl', replay_id)}/").content.decode()


def _steps_over(page: str) -> int:
    found = re.search(r"([\d,]+) of ([\d,]+) steps are over", page)
    assert found is not None, page[:2000]
    over, of = (int(one.replace(",", "")) for one in found.groups())
    assert over <= of
    return over


def _history(house: House) -> dict[UUID, Kind]:
    """Those with a record at the destination are really sent there and lose their replies; the others are written."""
    found = {one.slug: one for one in definitions(house.sandbox.url)}
    house.load(mixed.definitions(found["crm"], found["classic_follow_up"]))  # type: ignore[arg-type]
    wanted = [mixed.of(number) for number in range(COUNT)]
    acted = [kind for kind in wanted if kind.acted]
    kinds = mixed.open_kinds(house.team.pk, acted, params("classic_follow_up"))
    house.sandbox.script("lose_reply_after_acting", len(acted), method="POST")
    while dispatch.run_once(wire=WIRE, threads=16, claim_for_seconds=5.0).claimed:
        pass
    others = mixed.open_kinds(
        house.team.pk, [kind for kind in wanted if not kind.acted], params("classic_follow_up")
    )
    assert mixed.answer_all(others) == len(others)
    assert house.sandbox.rules() == []
    with house.connection() as connection:
        connection.execute("ANALYZE")
    return kinds | others


def _check_effects(house: House, kinds: dict[UUID, Kind]) -> Counter[str]:
    """No step has two effects, and each that counts as done has one: but for those that were written past the network."""
    effects = Counter(one["identity"] for one in house.sandbox.effects())
    assert max(effects.values()) == 1
    rows = house.rows("SELECT operation_id, state FROM ledger_step")
    sent = [row for row in rows if kinds[row["operation_id"]].name != "done"]
    confirmed = {step_identity(row["operation_id"], 1) for row in sent if row["state"] == "confirmed"}
    assert confirmed <= effects.keys()
    return Counter(row["state"] for row in rows)


def _writes(house: House) -> list[dict[str, Any]]:
    return [one for one in house.sandbox.requests(method="POST") if one["complete"]]


def _owner() -> By:
    person = Person.objects.get(email="owner@test.example")
    return By(f"person:{person.pk}", person.display_name, person.pk)


def _ended(house: House) -> int:
    return int(house.value("SELECT recovered_count + held_count FROM ledger_replay"))


def _in_flight(house: House, worker: Running) -> bool:
    """Whether a child of this worker is waiting for a reply."""
    pid = worker.child.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    names = house.rows("SELECT worker FROM ledger_attempt WHERE outcome IS NULL")
    return any(row["worker"].split(":")[1] in children for row in names)


def _over(house: House) -> bool:
    return bool(house.value("SELECT ended_at IS NOT NULL FROM ledger_replay"))


def _check_items(kinds: dict[UUID, Kind], items: list[dict[str, Any]], sends: Counter[str]) -> int:
    """Each item as planned; but for those whose attempt's worker died, which are held, and sent at most once."""
    wrong, untold = [], 0
    for item in items:
        kind = kinds[item["operation_id"]]
        word, count = EXPECTED[kind.name]
        sent = sends.pop(step_identity(item["operation_id"], 1), 0)
        if item["untold"]:
            untold += 1
            fine = item["word"] in {"held", "recovered"} and sent <= item["attempts"] <= 1
        else:
            fine = (item["word"], sent, item["attempts"]) == (word, count, count)
        if not fine:
            wrong.append(f"{kind.name}: {item} sent {sent} times")
    assert not wrong, f"{len(wrong)} items: " + "\n".join(wrong[:10])
    assert +sends == Counter(), "what was not planned was not sent"
    assert untold <= 2 * 64, "no more than two workers had in flight"
    return untold


def test_every_kind_has_its_expectation() -> None:
    assert EXPECTED.keys() == {kind.name for kind in (*mixed.KINDS, mixed.DISPUTED)}
    assert {mixed.of(number).name for number in range(200)} == EXPECTED.keys()
