"""Row 10 of table 4: what nobody may claim is not held as claimed by nobody."""

from __future__ import annotations

from datetime import timedelta

import pytest
from api_world import World
from django.utils import timezone

from opsledger.ledger.actions.record import record_time_passed
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import Destination, Hold, Step

STOPS = ("paused_at", "access_refused_at", "circuit_opened_at")


def unclaimed(world: World) -> Step:
    """One offered step whose time has come."""
    assert world.record("order:1", "by_hand").status_code == 201
    past = timezone.now() - timedelta(days=1)
    Step.objects.filter(act="offer").update(ready_at=past, act_at=past)
    return Step.objects.get(operation__operation_id="order:1", number=1)


def stop(destination: str, how: str) -> None:
    trial = {"circuit_trial_at": timezone.now()} if how == "circuit_opened_at" else {}
    Destination.objects.filter(slug=destination).update(**{how: timezone.now()}, **trial)


@pytest.mark.parametrize("how", STOPS)
def test_an_offer_at_a_stopped_destination_waits_without_a_hold_of_its_own(world: World, how: str) -> None:
    step = unclaimed(world)
    stop(step.destination_slug, how)

    assert record_time_passed(10) == 1

    assert not Hold.objects.filter(step__isnull=False).exists()
    step.refresh_from_db()
    assert (step.state, step.act) == ("ready", "offer")
    assert step.act_at is not None
    assert step.act_at > timezone.now()
    assert record_time_passed(10) == 0


def test_an_offer_waits_also_while_all_sending_is_off(world: World) -> None:
    step = unclaimed(world)
    switch_sending(False, reason="the test says so", by="test")

    record_time_passed(10)

    assert not Hold.objects.filter(step=step).exists()


def test_it_can_be_claimed_when_the_destination_goes_on(world: World) -> None:
    step = unclaimed(world)
    stop(step.destination_slug, "paused_at")
    record_time_passed(10)
    Destination.objects.filter(slug=step.destination_slug).update(paused_at=None)

    assert world.auto.post("/operations/order:1/steps/create_task/claim").status_code == 201


def test_an_offer_at_a_destination_that_goes_on_is_held_when_nobody_claims_it(world: World) -> None:
    step = unclaimed(world)
    stop("mail", "paused_at")
    assert step.destination_slug != "mail"

    record_time_passed(10)

    assert Hold.objects.get(step=step).reason == "nobody_claimed"
