"""Row 10 of table 4: what nobody may claim is not held as claimed by nobody."""

from __future__ import annotations

from datetime import timedelta

import pytest
from api_world import World
from django.utils import timezone

from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.destinations import record_reachability, settle_pause, settle_resume
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
    switch_sending(False, reason="the test says so", by="command:test")

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


@pytest.mark.parametrize("how", ["a person resumes", "the circuit closes", "all sending is turned on"])
def test_an_offer_has_its_whole_time_again_when_sending_goes_on(world: World, how: str) -> None:
    """Also one whose time had not come while nobody could claim it."""
    step = unclaimed(world)
    neighbour = other_offer(world)
    before = neighbour.act_at
    {"a person resumes": resume, "the circuit closes": close_circuit, "all sending is turned on": turn_on}[
        how
    ](step)

    step.refresh_from_db()
    neighbour.refresh_from_db()

    assert step.act_at is not None
    assert step.act_at > timezone.now() + timedelta(minutes=1)
    assert record_time_passed(10) == 0
    assert not Hold.objects.filter(step=step).exists()
    if how != "all sending is turned on":
        assert neighbour.act_at == before


def other_offer(world: World) -> Step:
    """One at another destination, whose time runs on."""
    assert world.record("order:2", "told").status_code == 201
    soon = timezone.now() + timedelta(seconds=40)
    Step.objects.filter(operation__operation_id="order:2", number=1).update(act_at=soon)
    return Step.objects.get(operation__operation_id="order:2", number=1)


def resume(step: Step) -> None:
    by = By("person:00000000-0000-0000-0000-000000000001", "Test")
    settle_pause(step.destination_id, Destination.objects.get(pk=step.destination_id).version, "Works.", by)
    hold = Hold.objects.get(destination_id=step.destination_id, closed_at=None)
    settle_resume(hold.pk, hold.version, 10.0, "They are done.", by)


def close_circuit(step: Step) -> None:
    record_reachability(set(), {step.destination_id: 1})
    Destination.objects.filter(pk=step.destination_id).update(failures_in_a_row=9)
    record_reachability(set(), {step.destination_id: 1})
    assert Hold.objects.get(closed_at=None).reason == "circuit_open"
    record_reachability({step.destination_id}, {})


def turn_on(step: Step) -> None:
    switch_sending(False, reason="the test says so", by="command:test")
    switch_sending(True, reason="the test says so", by="command:test")
