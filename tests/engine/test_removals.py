"""What nothing was done with goes away after its days, and what was told and read; what the journal rests on stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from people import client_of

from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine import removals, tasks
from opsledger.journal.models import Entry
from opsledger.ledger.actions import removals as removing
from opsledger.ledger.actions.bulk import begin
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.lists import keep_list, record_read
from opsledger.ledger.actions.statements import Said, keep_statement
from opsledger.ledger.models import (
    BulkItem,
    Channel,
    EarlyReport,
    Event,
    Mailing,
    Notice,
    ProviderStatement,
    ReadReference,
    ReferenceList,
    Selection,
    SelectionItem,
)
from opsledger.lib.ids import public
from opsledger.rules.bulk import Verb
from opsledger.rules.list_matching import Read
from tests.bulk import ran, selected
from tests.console.scenes import Scenes, desk, sandbox, scenes
from tests.ledger.test_attacks_on_triage import listed, unreadable

__all__ = ["desk", "sandbox", "scenes", "unreadable"]


@pytest.fixture
def now_old(settings: Any) -> None:
    """Everything is as old as what goes away."""
    settings.KEEP_UNUSED_SELECTIONS_DAYS = settings.KEEP_READ_NOTICES_DAYS = 0


@pytest.fixture
def olga(scenes: Scenes) -> By:
    return by_person(scenes.owner)


def left() -> dict[str, int]:
    kinds = (Selection, SelectionItem, ReferenceList, ReadReference, ProviderStatement)
    return {kind.__name__: count for kind in kinds if (count := kind.objects.count())}


def selection(scenes: Scenes, by: By) -> Selection:
    return selected([scenes.hold(scenes.unknown())], by)


def with_a_list(scenes: Scenes, by: By) -> None:
    made = selection(scenes, by)
    kept = keep_list(made, b"reference\nT-1", by)
    record_read(kept.pk, 1, Read(None, "There is no such record."))


def with_a_run(scenes: Scenes, by: By) -> None:
    ran(selection(scenes, by), Verb.TAKE, by)


def with_a_statement(scenes: Scenes, by: By) -> None:
    said = Said("By telephone", "We have nothing of it.")
    keep_statement(selection(scenes, by), said, by)


def with_an_applied_list(scenes: Scenes, by: By) -> None:
    listed(scenes, {scenes.hold(scenes.unknown()): "T-1"}, by)


def with_an_applied_list_and_another(scenes: Scenes, by: By) -> None:
    run = listed(scenes, {scenes.hold(scenes.unknown()): "T-1"}, by)
    keep_list(run.selection, b"reference\nT-2", by)


ONE = {"Selection": 1, "SelectionItem": 1}
# What was done with a selection, and what stays of it when it is old.
USES: dict[str, tuple[Callable[[Scenes, By], object], dict[str, int]]] = {
    "nothing": (selection, {}),
    "a list was kept": (with_a_list, {}),
    "a run": (with_a_run, ONE),
    "a provider's statement": (with_a_statement, ONE | {"ProviderStatement": 1}),
    "a list was applied": (with_an_applied_list, ONE | {"ReferenceList": 1}),
    "one list of two was applied": (with_an_applied_list_and_another, ONE | {"ReferenceList": 1}),
}


@pytest.mark.usefixtures("unreadable")
@pytest.mark.parametrize(("use", "stays"), USES.values(), ids=USES.keys())
def test_a_selection_goes_unless_something_rests_on_it(
    scenes: Scenes,
    olga: By,
    settings: Any,
    use: Callable[[Scenes, By], object],
    stays: dict[str, int],
) -> None:
    use(scenes, olga)
    before, lines = left(), Entry.objects.count()

    tasks.removals()
    assert left() == before  # it is not old yet

    settings.KEEP_UNUSED_SELECTIONS_DAYS = 0
    tasks.removals()

    assert left() == stays
    assert Entry.objects.count() == lines
    call_command("verify_ledger")


@pytest.mark.usefixtures("unreadable")
def test_the_database_keeps_what_was_used_whoever_asks(scenes: Scenes, olga: By) -> None:
    with_an_applied_list(scenes, olga)
    kept = ReferenceList.objects.get()
    record_read(kept.pk, 1, Read(None, "There is no such record."))
    for table in ("readreference", "referencelist", "selectionitem", "selection"):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM ledger_{table}")
    for table in ("selection", "selectionitem", "referencelist", "readreference"):
        column = {"selectionitem": "position", "readreference": "line"}.get(table, "made_at")
        value = "line + 1" if column == "line" else "position + 1" if column == "position" else "now()"
        with connection.cursor() as cursor:
            refused = pytest.raises(DatabaseError)
            with refused, transaction.atomic():
                cursor.execute(f"UPDATE ledger_{table} SET {column} = {value}")
    assert BulkItem.objects.count() == 1


@pytest.mark.usefixtures("now_old")
def test_whoever_is_about_to_use_it_is_waited_for_or_told(scenes: Scenes, olga: By) -> None:
    made, other = selection(scenes, olga), selection(scenes, olga)
    with transaction.atomic():
        Selection.objects.select_for_update(no_key=True).get(pk=made.pk)  # a run is being begun
        outcome: list[int] = []
        in_a_thread(lambda: outcome.append(removals.run_once().selections))
        assert outcome == [1]
    assert [one.pk for one in Selection.objects.all()] == [made.pk]
    with pytest.raises(Refused, match="was removed, because nothing was done with it"):
        begin(other, Verb.TAKE, olga, once=uuid4())
    page = client_of(scenes.owner).get(f"/selections/{public('sel', other.pk)}/")
    assert (page.status_code, b"One with which nothing is done goes after" in page.content) == (404, True)


def in_a_thread(call: Callable[[], object]) -> None:
    from threading import Thread

    def run() -> None:
        try:
            call()
        finally:
            connection.close()

    thread = Thread(target=run)
    thread.start()
    thread.join()


# Notices


@pytest.fixture
def maria(scenes: Scenes) -> Person:
    return scenes.member("Maria", Role.OWNER)


def notice(scenes: Scenes, maria: Person, *, days: int = 100, read: int | None = None, **more: Any) -> Notice:
    now = timezone.now()
    at = None if read is None else now - timedelta(days=read)
    values = {"person": maria, "kind": "assigned", "made_at": now - timedelta(days=days), "read_at": at}
    return Notice.objects.create(team=scenes.desk.team, **(values | more))


def message(scenes: Scenes, days: int = 100, **more: Any) -> Mailing:
    at = timezone.now() - timedelta(days=days)
    values = {"state": "sent", "made_at": at, "ended_at": at, "tries": 1}
    return Mailing.objects.create(team=scenes.desk.team, **(values | more))


def channel(scenes: Scenes) -> Channel:
    return Channel.objects.create(
        team=scenes.desk.team, name="Alerts", scheme="json", host="hook.example", sealed=b"x", kinds=["assigned"],
        made_by=scenes.owner,
    )  # fmt: skip


# A notice, and whether it goes after 90 days.
NOTICES: dict[str, tuple[Callable[[Scenes, Person], Notice], bool]] = {
    "read long ago": (lambda scenes, maria: notice(scenes, maria, read=91), True),
    "old, and read lately": (lambda scenes, maria: notice(scenes, maria, read=89), False),
    "old, and unread": (lambda scenes, maria: notice(scenes, maria), False),
    "read, and sent": (
        lambda scenes, maria: notice(scenes, maria, read=91, mailing=message(scenes, person=maria)),
        True,
    ),
    "read, and still to be sent": (
        lambda scenes, maria: notice(scenes, maria, read=91, send_at=timezone.now()),
        False,
    ),
    "a channel's": (lambda scenes, maria: notice(scenes, maria, person=None, channel=channel(scenes)), True),
    "a channel's of late": (
        lambda scenes, maria: notice(scenes, maria, days=89, person=None, channel=channel(scenes)),
        False,
    ),
    "a channel's, being sent": (
        lambda scenes, maria: notice(
            scenes, maria, person=None, channel=(row := channel(scenes)),
            mailing=message(scenes, channel=row, state="sending", ended_at=None, lease_ends_at=timezone.now()),
        ),
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "goes"), NOTICES.values(), ids=NOTICES.keys())
def test_a_notice_goes_when_it_was_read_long_ago(
    scenes: Scenes, maria: Person, make: Callable[[Scenes, Person], Notice], goes: bool
) -> None:
    row, neighbour = make(scenes, maria), notice(scenes, maria, days=1, read=0)
    assert removals.run_once().notices == int(goes)
    assert set(Notice.objects.values_list("pk", flat=True)) == {neighbour.pk} | (set() if goes else {row.pk})


def test_the_last_messages_to_each_stay_and_older_ones_go(scenes: Scenes, maria: Person) -> None:
    to_maria = [message(scenes, person=maria) for _ in range(7)]
    to_channel = [message(scenes, channel=row) for row in [channel(scenes)] * 5]
    named = notice(scenes, maria, mailing=to_maria[0])  # unread, so it stays and its message with it
    assert removals.run_once().messages == 1
    gone = set(Mailing.objects.values_list("pk", flat=True)) ^ {one.pk for one in to_maria + to_channel}
    assert gone == {to_maria[1].pk}
    named.refresh_from_db()
    assert named.mailing_id == to_maria[0].pk


def test_what_is_left_of_a_large_batch_goes_with_the_next_turn(
    scenes: Scenes, maria: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        notice(scenes, maria, read=91)
    assert removing.remove_old_notices(90, most=2) == 2
    assert [removals.run_once().notices, removals.run_once().notices] == [3, 0]


def test_a_report_of_nobodys_record_goes_and_its_event_stays(scenes: Scenes, settings: Any) -> None:
    event = scenes.event_conflict().event
    assert event is not None
    destination = scenes.desk.step(scenes.accepted(), 2).destination
    EarlyReport.objects.create(
        team=event.team, event=event, destination=destination, action="send", reference="M-7", reference_key=b"7" * 32,
        says="delivered", told_at=timezone.now(),
    )  # fmt: skip

    tasks.removals()
    assert EarlyReport.objects.count() == 1  # it is not old yet

    settings.KEEP_EARLY_REPORTS_DAYS = 0
    tasks.removals()

    assert not EarlyReport.objects.exists()
    assert Event.objects.filter(pk=event.pk).exists()
