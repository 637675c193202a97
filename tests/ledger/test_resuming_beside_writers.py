"""“Go on” at a destination waits for nobody who writes its steps, in whatever order they do that."""

from __future__ import annotations

import threading
from uuid import UUID

import psycopg
from django.db import connections

from opsledger.ledger.actions.destinations import settle_pause, settle_resume
from opsledger.ledger.models import Destination, Hold, Step
from opsledger.local.postgres import Urls
from tests.desk import Desk
from tests.replaying import by_owner

CLASSIC = "crm_classic"


def paused(desk: Desk) -> Hold:
    row = Destination.objects.get(slug=CLASSIC)
    settle_pause(row.pk, row.version, "they are migrating", by_owner(desk))
    return Hold.objects.get(destination_id=row.pk, closed_at=None)


def turns(steps: list[UUID]) -> list[object]:
    known = dict(Step.objects.filter(pk__in=steps).values_list("pk", "act_at"))
    return [known[one] for one in steps]


def test_a_writer_of_its_steps_and_resuming_do_not_wait_for_each_other_in_a_ring(
    desk: Desk, database_urls: Urls
) -> None:
    opened = [desk.open("classic_follow_up") for _ in range(4)]
    wanted = Step.objects.filter(operation_id__in=[one.id for one in opened], number=1)
    steps = list(wanted.order_by("act_at", "id").values_list("pk", flat=True))
    hold = paused(desk)
    before = turns(steps)
    said: list[object] = []

    def resume() -> None:
        try:
            said.append(settle_resume(hold.pk, hold.version, 0.5, "they are done", by_owner(desk)))
        except Exception as why:
            said.append(why)
        finally:
            connections.close_all()

    with psycopg.connect(database_urls.app) as writer:
        writer.execute("SELECT id FROM ledger_operation ORDER BY id FOR UPDATE")
        write = "UPDATE ledger_step SET looks = looks WHERE id = %s"
        writer.execute(write, [steps[-1]])  # in another order than their turns
        rival = threading.Thread(target=resume)
        rival.start()
        rival.join(timeout=20)
        assert not rival.is_alive(), "it waits for a writer"
        writer.execute(write, [steps[0]])

    assert said == [3]  # the one that somebody has keeps its place
    after = turns(steps)
    assert after[-1] == before[-1]
    assert len({*after}) == len(after)
    assert Destination.objects.get(slug=CLASSIC).paused_at is None
