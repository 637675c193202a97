"""Row 10 of table 4: what opens an attempt asks, in the transaction that opens it, whether anything may be sent there."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction

from opsledger.engine.loading import read_files
from opsledger.ledger.actions import claim, report, sending
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.destinations import (
    CIRCUIT_FAILURES_MAX,
    record_access_refused,
    record_reachability,
    settle_pause,
)
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.report import NotClaimable, claim_for_automation
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.actions.stops import CLAIM
from opsledger.ledger.models import Attempt, Destination
from opsledger.ledger.sql import statement
from opsledger.local.postgres import Urls
from tests.api.blocked import behind, behind_ours
from tests.desk import AUTOMATION, DEFINITIONS, Desk
from tests.lock_waits import until_waiting
from tests.replaying import by_owner, unknown

CLASSIC, NEIGHBOUR = "crm_classic", "crm"


def switched_off(desk: Desk) -> None:
    switch_sending(False, reason="the CRM is being migrated", by="command:olga")


def paused(desk: Desk) -> None:
    row = Destination.objects.get(slug=CLASSIC)
    settle_pause(row.pk, row.version, "they are migrating", by_owner(desk))


def refused(desk: Desk) -> None:
    record_access_refused(Destination.objects.get(slug=CLASSIC).pk)


def circuit_opened(desk: Desk) -> None:
    record_reachability(set(), {Destination.objects.get(slug=CLASSIC).pk: CIRCUIT_FAILURES_MAX})


Stop = Callable[[Desk], None]
STOPS: dict[str, Stop] = {
    "sending is off": switched_off,
    "the destination is paused": paused,
    "its access is refused": refused,
    "its circuit is open": circuit_opened,
}
stops = pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS.keys())


# The places that open an attempt


def by_the_engine(desk: Desk, stop: Stop, opened: Opened) -> None:
    stop(desk)
    assert not [one for one in claim_sends(5, worker="test") if one.operation_id == opened.id]


def by_an_engine_that_is_held_up(desk: Desk, stop: Stop, opened: Opened) -> None:
    """Its room was taken before the stop, and it goes on after that, however much later."""
    room = claim._take_room(5, 30.0)
    stop(desk)
    assert not [one for one in claim._open_attempts(room, 5, "test") if one.operation_id == opened.id]


def by_an_automation(desk: Desk, stop: Stop, opened: Opened) -> None:
    stop(desk)
    with pytest.raises(NotClaimable) as why:
        claim_for_automation(desk.team.pk, opened.id, "create_task", AUTOMATION)
    assert why.value.reason == "stopped"


PLACES = {
    "the engine": by_the_engine,
    "an engine that is held up": by_an_engine_that_is_held_up,
    "an automation": by_an_automation,
}


@stops
@pytest.mark.parametrize("place", PLACES.keys())
def test_nothing_is_claimed_once_it_is_stopped(desk: Desk, tmp_path: Path, stop: Stop, place: str) -> None:
    if place == "an automation":
        done_by_automations(desk, tmp_path)
    opened, neighbour = desk.open("classic_follow_up"), desk.open("campaign_follow_up")

    PLACES[place](desk, stop, opened)

    assert not Attempt.objects.filter(operation_id=opened.id).exists()
    if place != "an engine that is held up":
        desk.send()
    assert Attempt.objects.filter(operation_id=neighbour.id).exists() == (stop is not switched_off)


def done_by_automations(desk: Desk, folder: Path) -> None:
    """The same definitions, with a first step of `classic_follow_up` that automations do."""
    copied = folder / "definitions"
    shutil.copytree(DEFINITIONS, copied)
    file = copied / "classic_follow_up.toml"
    own = 'action = "create_task"\nperformer = "automation"\n'
    file.write_text(file.read_text().replace('action = "create_task"\n', own))
    load(desk.team.pk, read_files([copied]), actor="command:test")
    forget_current()


# What crosses


def claiming(room: dict[UUID, claim._Room], most: int = 5) -> Callable[[psycopg.Connection], object]:
    """The engine's claim in a transaction that is not committed yet."""

    def begin(holder: psycopg.Connection) -> None:
        holder.execute(CLAIM)
        holder.execute(statement("claim_sends"), claim._asked(room, most, "test"))  # type: ignore[arg-type]

    return begin


def attempts(opened: Opened) -> int:
    return Attempt.objects.filter(operation_id=opened.id).count()


@stops
def test_a_stop_returns_when_no_claim_of_the_engine_is_under_way_that_has_not_seen_it(
    desk: Desk, database_urls: Urls, stop: Stop
) -> None:
    opened = desk.open("classic_follow_up")
    room = claim._take_room(5, 30.0)
    seen: list[int] = []

    def stopped() -> None:
        stop(desk)
        seen.append(attempts(opened))

    behind(database_urls, claiming(room), stopped)

    assert seen == [1], "it was claimed before the stop, and the stop waited for it"


@stops
def test_nor_one_of_an_automation(desk: Desk, stop: Stop) -> None:
    place = Destination.objects.get(slug=CLASSIC).pk
    answers: list[bool] = []

    behind_ours(lambda: answers.append(report._is_stopped(place)), lambda: stop(desk))

    assert (answers, report_now(place)) == ([False], True)


def report_now(destination_id: UUID) -> bool:
    with transaction.atomic():
        return report._is_stopped(destination_id)


@stops
@pytest.mark.parametrize("place", ["the engine", "an automation"])
def test_a_claim_that_reads_when_the_stop_is_written_sees_it(
    desk: Desk, database_urls: Urls, place: str, stop: Stop
) -> None:
    """It has the claims' lock already, so the stop waits for it; what it reads is what stands."""
    opened = desk.open("classic_follow_up")
    room = claim._take_room(5, 30.0)
    rival = threading.Thread(target=lambda: (stop(desk), connections.close_all()))

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(CLAIM)
        rival.start()
        until_waiting(1, [rival])
        if place == "the engine":
            cursor.execute(statement("claim_sends"), claim._asked(room, 5, "test"))
            assert cursor.fetchall() == []
        else:
            assert report._is_stopped(desk.step(opened).destination_id)
    rival.join(timeout=20)

    assert not rival.is_alive()
    assert attempts(opened) == 0


def test_claims_do_not_wait_for_each_other(desk: Desk, database_urls: Urls) -> None:
    first, second = desk.open("classic_follow_up"), desk.open("classic_follow_up")
    room = claim._take_room(5, 30.0)
    Destination.objects.update(send_tokens=5.0)

    with psycopg.connect(database_urls.superuser) as holder, connection.cursor() as cursor:
        claiming(room, most=1)(holder)
        cursor.execute("SET lock_timeout = '1s'")
        claimed = claim_sends(5, worker="another")
        holder.commit()
        cursor.execute("RESET lock_timeout")

    assert [attempts(one) for one in (first, second)] == [1, 1]
    assert len(claimed) == 1


@stops
def test_a_stop_is_not_kept_waiting_by_claims_that_come_after_it(
    desk: Desk, database_urls: Urls, stop: Stop
) -> None:
    """They wait behind it for as long as it waits, and see it."""
    first, second = desk.open("classic_follow_up"), desk.open("classic_follow_up")
    room = claim._take_room(5, 30.0)
    left: list[object] = []
    stopping = threading.Thread(target=lambda: (stop(desk), connections.close_all()))
    later = threading.Thread(
        target=lambda: (left.append(claim._open_attempts(room, 5, "later")), connections.close_all())
    )

    with psycopg.connect(database_urls.superuser) as before:
        claiming(room, most=1)(before)
        stopping.start()
        until_waiting(1, [stopping])
        later.start()
        until_waiting(2, [stopping, later])
        before.commit()
        for thread in (stopping, later):
            thread.join(timeout=20)
            assert not thread.is_alive()

    assert left == [[]]
    assert sorted(attempts(one) for one in (first, second)) == [0, 1]


@pytest.mark.parametrize("stop", [switched_off, paused], ids=["sending is off", "the destination is paused"])
def test_a_stop_stands_although_a_claim_is_held_up_for_longer_than_it_may_wait(
    desk: Desk, database_urls: Urls, stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asked for it is not told that it failed."""
    opened = desk.open("classic_follow_up")
    with psycopg.connect(database_urls.app) as worker:
        worker.execute(CLAIM)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '200ms'")
        try:
            stop(desk)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")

    assert "a claim from before the stop is still under way" in caplog.text
    assert not claim_sends(5, worker="test")
    assert attempts(opened) == 0


def test_the_command_says_that_a_claim_is_still_under_way(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "wait_for_claims", lambda: False)
    out = StringIO()

    call_command("sending", "off", reason="they are migrating", stdout=out)

    assert "A worker is still at a claim that it began before" in out.getvalue()
    assert "Sending is off" in out.getvalue()


# Circuits: one trial now and then


def trying(desk: Desk) -> tuple[Opened, dict[UUID, claim._Room]]:
    """A step that is due at a destination with an open circuit, and the room that its next trial has."""
    opened = desk.open("classic_follow_up")
    circuit_opened(desk)
    Destination.objects.filter(slug=CLASSIC).update(circuit_trial_at="2026-01-01T00:00:00Z")
    return opened, claim._take_room(5, 30.0)


MEANWHILE = {
    "nothing": ("SELECT", 1),
    "the circuit has closed": ("UPDATE ledger_destination SET circuit_opened_at = NULL, circuit_trial_at = NULL", 1),
    "another trial has begun": ("UPDATE ledger_destination SET circuit_trial_at = now() WHERE slug = 'crm_classic'", 0),
    "a person has paused it": ("UPDATE ledger_destination SET paused_at = now()", 0),
}  # fmt: skip


@pytest.mark.parametrize(("meanwhile", "count"), MEANWHILE.values(), ids=MEANWHILE.keys())
def test_the_trial_of_an_open_circuit_is_claimed_while_it_is_the_one(
    desk: Desk, meanwhile: str, count: int
) -> None:
    opened, room = trying(desk)
    with connection.cursor() as cursor:
        cursor.execute(meanwhile)

    assert len(claim._open_attempts(room, 5, "test")) == count
    assert attempts(opened) == count


# What goes on


@stops
def test_lookups_go_on_while_nothing_is_sent(desk: Desk, stop: Stop) -> None:
    """They change nothing at the destination, and what they find ends questions."""
    opened = unknown(desk)
    stop(desk)
    desk.hurry()

    assert desk.look() == 1
    assert attempts(opened) == 1


def test_room_that_was_taken_before_a_stop_is_given_back(desk: Desk) -> None:
    desk.open("classic_follow_up")
    room = claim._take_room(5, 30.0)
    left = Destination.objects.get(slug=CLASSIC).send_tokens
    paused(desk)

    claim._give_back(room, claim._open_attempts(room, 5, "test"))

    assert (
        Destination.objects.get(slug=CLASSIC).send_tokens
        == left + room[Destination.objects.get(slug=CLASSIC).pk].count
    )
