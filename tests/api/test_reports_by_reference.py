"""Law 6: a report that names a record of several steps proves the effect of none of them."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World, read
from django.db import transaction
from test_references import MORE, claim, report

from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.evidence import forget_reporting, record_event_report_here
from opsledger.ledger.models import Evidence, Step
from opsledger.lib.ids import new_id


@pytest.fixture
def tickets(world: World) -> World:
    """Tickets that operations update: they may share one (rules.md, table 5)."""
    shared = MORE.replace('effect = "create"\nstatus', 'effect = "update"\nstatus')
    assert shared != MORE
    load(world.cast.launch.pk, read(shared), actor="command:test")
    forget_reporting()
    return world


def tell(world: World, status: str, reference: str, **more: Any) -> int:
    body = {"data": {"status": status, "ticket": reference} | more}
    with transaction.atomic():
        return record_event_report_here(world.cast.launch.pk, "shop", new_id(), body, None)


def states() -> dict[str, str]:
    return dict(Step.objects.filter(number=1).values_list("operation__operation_id", "state"))


def accepted(world: World, own: str, reference: str) -> Step:
    report(world, claim(world, own, "ticketed"), "accepted", reference=reference)
    return Step.objects.get(operation__operation_id=own, number=1)


@pytest.mark.parametrize("status", ["delivered", "bounced"])
def test_a_report_about_a_shared_record_decides_for_no_step(tickets: World, status: str) -> None:
    accepted(tickets, "order:1", "T-1")
    accepted(tickets, "order:2", "T-1")

    assert tell(tickets, status, "T-1") == 0

    assert states() == {"order:1": "accepted", "order:2": "accepted"}
    assert not Evidence.objects.filter(kind="report").exists()


def test_a_report_about_the_record_of_one_step_decides_for_it(tickets: World) -> None:
    accepted(tickets, "order:1", "T-1")
    accepted(tickets, "order:2", "T-2")

    assert tell(tickets, "delivered", "T-1") == 1

    assert states() == {"order:1": "confirmed", "order:2": "accepted"}


def test_a_report_that_names_the_step_decides_also_about_a_shared_record(tickets: World) -> None:
    accepted(tickets, "order:1", "T-1")
    named = accepted(tickets, "order:2", "T-1")

    assert tell(tickets, "delivered", "T-1", step=named.identity) == 1

    assert states() == {"order:1": "accepted", "order:2": "confirmed"}


@pytest.mark.parametrize("odd", ["T\0-1", "T-1\ud83d"], ids=["nul", "half a pair"])
def test_a_name_that_cannot_be_kept_names_nothing(tickets: World, odd: str) -> None:
    named = accepted(tickets, "order:1", "T-1")

    assert tell(tickets, "delivered", odd) == 0
    assert tell(tickets, "delivered", "T-1", step=odd) == 0
    assert states() == {"order:1": "accepted"}
    assert tell(tickets, "delivered", odd, step=named.identity) == 1

    assert states() == {"order:1": "confirmed"}
    assert Step.objects.get(pk=named.pk).reference == "T-1"
