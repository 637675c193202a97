"""Many holds at once, beside plain SQL in turn: `python -m bench.selections HOLDS ROUNDS PAGE_ROUNDS` prints a line of JSON.

The holds are open questions of one team (`bench.history`). Ours: a whole view frozen, a run begun, every hold given to a
person, with its journal. Plain SQL updates a table like it, and inserts a line for each.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import django

django.setup()

from django.db import connection, transaction  # noqa: E402

from bench.signals import answer  # noqa: E402
from opsledger.accounts.models import Team  # noqa: E402
from opsledger.engine import bulk as engine  # noqa: E402
from opsledger.ledger.actions.bulk import begin, freeze_view  # noqa: E402
from opsledger.ledger.actions.incidents import record_incidents  # noqa: E402
from opsledger.ledger.actions.settle import By  # noqa: E402
from opsledger.ledger.queries import inbox, incidents  # noqa: E402
from opsledger.rules.bulk import Verb  # noqa: E402

BATCH = 500


def main(count: int, rounds: int, page_rounds: int) -> None:
    team = Team.objects.get(slug="bench")
    owner = team.fallback_owner
    by = By(f"person:{owner.pk}", owner.display_name, owner.pk)
    wanted = inbox.Wanted(team.pk, owner.pk)
    ours, plain, frozen = [], [], []
    for number in range(rounds):
        to = owner.pk if number % 2 == 0 else None  # each round moves every hold
        plain.append(count / _seconds(partial(_plain_assign, to)))
        begun = time.perf_counter()
        selection = freeze_view(wanted, words="all")
        facts = {"owner": str(to) if to else None}
        run = begin(selection, Verb.ASSIGN, by, once=uuid.uuid4(), facts=facts).run
        frozen.append(time.perf_counter() - begun)
        done = engine.carry(run.pk, Verb.ASSIGN, 600.0)
        ours.append(count / (time.perf_counter() - begun))
        run.refresh_from_db()
        assert done == run.done_count == count, (done, run.done_count, count)
    page, plain_page = [], []
    for _ in range(page_rounds):
        plain_page.append(_seconds(lambda: _plain_page(team)))
        page.append(_seconds(lambda: inbox.page_of(wanted)))
    grouping = _seconds(lambda: record_incidents(rounds=100))
    cards, plain_cards = [], []
    for _ in range(page_rounds):
        plain_cards.append(_seconds(lambda: _plain_groups(team)))
        cards.append(_seconds(lambda: incidents.cards(team.pk, owner.pk)))
    answer(
        ours=ours,
        plain=plain,
        frozen_seconds=median(frozen),
        page_ms=1000 * median(page),
        plain_page_ms=1000 * median(plain_page),
        cards_ms=1000 * median(cards),
        plain_cards_ms=1000 * median(plain_cards),
        grouped_seconds=grouping,
    )


def _plain_assign(owner_id: Any) -> None:
    """An update and a line for each, a batch in a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM plain.hold WHERE closed_at IS NULL ORDER BY due_at, id")
        ids = [row[0] for row in cursor.fetchall()]
        for start in range(0, len(ids), BATCH):
            with transaction.atomic():
                batch = ids[start : start + BATCH]
                cursor.execute(
                    "UPDATE plain.hold SET owner_id = %s, version = version + 1 WHERE id = ANY(%s)",
                    [owner_id, batch],
                )
                cursor.execute(
                    "INSERT INTO plain.line (hold_id, said) SELECT id, 'assigned' FROM unnest(%s::uuid[]) AS x(id)",
                    [batch],
                )


def _plain_page(team: Team) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT * FROM ledger_hold WHERE team_id = %s AND closed_at IS NULL ORDER BY due_at, id LIMIT 50",
            [team.pk],
        )
        assert cursor.fetchall()


def _plain_groups(team: Team) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT incident_id, count(*), min(due_at), max(opened_at) FROM ledger_hold"
            " WHERE team_id = %s AND closed_at IS NULL GROUP BY incident_id",
            [team.pk],
        )
        assert cursor.fetchall()


def _seconds(what: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    what()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
