"""Lists of references in the database: what is named by identity is confirmed as it is read, the rest is left alone."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from opsledger.engine import bulk as engine
from opsledger.engine import lists as reading
from opsledger.engine.loading import read_files
from opsledger.engine.reading import Reading
from opsledger.engine.wire import installed_wire
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.bulk import open_items, record_batch
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.lists import ListMoved, begin_happened, happened, keep_list, left_alone
from opsledger.ledger.models import (
    BulkRun,
    Destination,
    Evidence,
    HeldReference,
    Hold,
    ReadReference,
    ReferenceList,
    Selection,
    StepRequest,
)
from opsledger.ledger.queries.bulk import groups_of
from opsledger.ledger.queries.lists import Look, list_of, look
from opsledger.rules.bulk import Verb
from opsledger.rules.list_matching import Match
from opsledger.rules.matching import FieldRow
from tests.bulk import counts, results, selected
from tests.desk import DEFINITIONS, Desk, step_identity
from tests.replaying import by_owner, done, effects, rejected, unknown

SAME, OTHER = FieldRow("subject", "Call", "Call", True), FieldRow("queue", "a", "b", False)
REASON = "Their export of this morning"


@pytest.fixture(autouse=True)
def _reaches_the_sandbox(settings: Any) -> Iterator[None]:
    settings.ALLOWED_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    installed_wire.cache_clear()
    yield
    installed_wire.cache_clear()


def lost(desk: Desk, count: int) -> list[tuple[Hold, str, str]]:
    """Holds whose task exists at the destination, each with its identity and the reference of its task."""
    found = []
    for _ in range(count):
        Destination.objects.update(send_tokens=5.0)  # no waiting for the destination's rate
        opened = unknown(desk)
        identity = step_identity(opened.id, 1)
        (effect,) = desk.sandbox.effects(identity=identity)
        found.append((Hold.objects.get(operation_id=opened.id), identity, str(effect["reference"])))
    return found


def lost_unreadable(desk: Desk, folder: Path) -> list[tuple[Hold, str, str]]:
    """The same at a destination whose records can't be read by their reference."""
    text = (DEFINITIONS / "crm_classic.toml").read_text()
    read = '[destination.crm_classic.actions.create_task.read]\npath = "/crm/tasks/{reference}"\n'
    assert read in text
    (folder / "crm_classic.toml").write_text(text.replace(read, "").replace("by_reference = true\n", ""))
    load(desk.team.pk, read_files([folder / "crm_classic.toml"]), actor="command:test")
    forget_current()
    return lost(desk, 1)


def text_of(*rows: tuple[str, ...], head: str = "reference,identity") -> bytes:
    return "\n".join([head, *(",".join(row) for row in rows)]).encode()


def kept(selection: Selection, by: By, content: bytes) -> Look:
    row = keep_list(selection, content, by)
    return again(selection, row)


def again(selection: Selection, row: ReferenceList) -> Look:
    line = list_of(row.pk, [selection.team_id])
    assert line is not None
    return look(line, [one.chosen for one in groups_of(selection.pk)])


def applied(seen: Look, by: By, **more: Any) -> BulkRun:
    run = begin_happened(seen, seen.shown, REASON, by, once=more.pop("once", None) or uuid4()).run
    engine.carry(run.pk, Verb.HAPPENED, 30.0)
    run.refresh_from_db()
    return run


def test_what_the_list_names_is_read_compared_and_confirmed_and_the_rest_is_left_alone(desk: Desk) -> None:
    by, found = by_owner(desk), lost(desk, 3)
    (first, one, reference), (second, two, other), (third, _, _) = found
    selection = selected([hold for hold, _, _ in found], by)

    seen = kept(selection, by, text_of((reference, one), (other, two), ("T-9", "ol_nobody")))
    run = applied(seen, by)

    assert [row.match for row in seen.matched.rows] == [Match.MATCHES, Match.MATCHES, Match.NO_SUCH_IDENTITY]
    assert counts(run) == {"done": 2, "left": 1}
    assert results(run)[third.pk] == ("left", "The list does not name it.")
    for hold, wanted in ((first, reference), (second, other)):
        hold.refresh_from_db()
        assert (hold.answer, hold.closed_by) == ("happened", by.actor)
        assert (hold.step.state, hold.step.reference) == ("confirmed", wanted)
        kinds = set(Evidence.objects.filter(step=hold.step, attempt=None).values_list("kind", "says"))
        assert {("list", "listed"), ("lookup", "read"), ("statement", "happened")} <= kinds
    third.refresh_from_db()
    assert third.closed_at is None
    assert third.step.state == "unknown"


def test_the_journal_has_digests_and_counts_of_the_list_and_a_line_for_each_hold(desk: Desk) -> None:
    by, ((hold, identity, reference),) = by_owner(desk), lost(desk, 1)
    selection = selected([hold], by)
    content = text_of((reference, identity, "the colour of the door"), head="reference,identity,remark")

    run = applied(kept(selection, by, content), by)

    row = ReferenceList.objects.get()
    (keeping,) = Entry.objects.filter(kind="list_kept")
    body = json.loads(keeping.body)
    assert (body["digest"], body["rows"], body["bytes"]) == (bytes(row.digest).hex(), 1, len(content))
    (answered,) = Entry.objects.filter(kind="answered")
    said = json.loads(answered.body)
    assert (said["bulk"], said["list"], said["line"]) == (str(run.pk), str(row.pk), 2)
    assert said["compared"], "with the digest of what was read"
    for entry in Entry.objects.all():
        assert "door" not in entry.body
    call_command("verify_ledger", verbosity=0)


def test_a_record_that_differs_or_is_not_there_is_left_alone_with_the_fields_named(desk: Desk) -> None:
    by = by_owner(desk)
    (mine, one, _), (gone, two, _) = lost(desk, 2)
    neighbour = done(desk)
    stranger = HeldReference.objects.get().step.reference
    selection = selected([mine, gone], by)

    run = applied(kept(selection, by, text_of(("T-404404", one), ("T-404405", two))), by)

    assert counts(run) == {"left": 2}
    assert results(run)[mine.pk] == ("left", "crm_classic has no record T-404404.")
    seen = kept(selection, by, text_of((stranger, one)))
    assert [row.match for row in seen.matched.rows] == [Match.TAKEN]
    assert seen.matched.rows[0].detail == desk.operation(neighbour).operation_id


def test_the_record_of_another_hold_is_never_taken_whatever_the_list_says(desk: Desk) -> None:
    """Law 6: the list mixes two up; the destination's own records decide."""
    by = by_owner(desk)
    (first, one, reference), (second, two, other) = lost(desk, 2)
    selection = selected([first, second], by)

    run = applied(kept(selection, by, text_of((other, one), (reference, two))), by)

    assert counts(run) == {"left": 2}
    assert all("does not carry this step’s identity" in why for _, why in results(run).values())
    assert HeldReference.objects.count() == 0


def test_a_field_of_the_list_that_differs_leaves_the_hold_alone(desk: Desk) -> None:
    by, ((hold, identity, reference),) = by_owner(desk), lost(desk, 1)
    content = text_of((reference, identity, "another queue"), head="id,external_id,queue")

    seen = kept(selected([hold], by), by, content)

    assert [(row.match, row.detail) for row in seen.matched.rows] == [(Match.DIFFERS, "queue")]
    with pytest.raises(Refused, match="No row of the list matches"):
        applied(seen, by)


def test_the_key_that_the_request_was_sent_under_is_an_identity_too(desk: Desk) -> None:
    by, ((hold, _, reference),) = by_owner(desk), lost(desk, 1)
    key = StepRequest.objects.get(step=hold.step).idempotency_key

    run = applied(kept(selected([hold], by), by, text_of((reference, key))), by)

    assert counts(run) == {"done": 1}


def test_a_hold_that_changed_since_it_was_chosen_is_skipped(desk: Desk) -> None:
    by = by_owner(desk)
    (first, one, reference), (second, two, other) = lost(desk, 2)
    selection = selected([first, second], by)
    settle_assign([second.pk], by.person_id, by)

    seen = kept(selection, by, text_of((reference, one), (other, two)))
    run = applied(seen, by)

    assert [row.match for row in seen.matched.rows] == [Match.MATCHES, Match.CHANGED]
    assert counts(run) == {"done": 1, "skipped": 1}


def test_only_what_was_shown_is_applied(desk: Desk) -> None:
    by = by_owner(desk)
    (first, one, reference), (second, two, other) = lost(desk, 2)
    selection = selected([first, second], by)
    row = keep_list(selection, text_of((reference, one), (other, two)), by)
    shown = again(selection, row).shown
    settle_assign([second.pk], by.person_id, by)

    with pytest.raises(ListMoved):
        begin_happened(again(selection, row), shown, REASON, by, once=uuid4())

    assert BulkRun.objects.count() == 0


def test_the_same_form_twice_is_one_run(desk: Desk) -> None:
    by, ((hold, identity, reference),) = by_owner(desk), lost(desk, 1)
    seen, once = kept(selected([hold], by), by, text_of((reference, identity))), uuid4()

    first = applied(seen, by, once=once)
    second = applied(seen, by, once=once)

    assert first.pk == second.pk
    assert Entry.objects.filter(kind="answered").count() == 1


def test_references_alone_are_read_first_and_are_whose_their_records_say(desk: Desk) -> None:
    by = by_owner(desk)
    (first, one, reference), (second, _, other) = lost(desk, 2)
    done(desk)
    stranger = HeldReference.objects.get().step.reference
    selection = selected([first, second], by)
    seen = kept(selection, by, "\n".join([reference, other, str(stranger), "T-404404"]).encode())
    assert {row.match for row in seen.matched.rows} == {Match.TO_BE_READ}

    assert reading.read_alone(seen) == 4
    row = ReferenceList.objects.get()
    seen = again(selection, row)
    run = applied(seen, by)

    kinds = [row.match for row in seen.matched.rows]
    assert kinds == [Match.MATCHES, Match.MATCHES, Match.NO_SUCH_IDENTITY, Match.NOT_READ]
    assert ReadReference.objects.get(line=1).identity == one
    assert counts(run) == {"done": 2}
    assert reading.read_alone(seen) == 0


def test_where_nothing_can_be_read_the_identity_alone_is_compared_and_said_so(
    desk: Desk, tmp_path: Path
) -> None:
    by, ((hold, identity, reference),) = by_owner(desk), lost_unreadable(desk, tmp_path)
    before = len(desk.sandbox.requests())

    seen = kept(selected([hold], by), by, text_of((reference, identity)))
    run = applied(seen, by)

    assert seen.unread_count == 1
    assert counts(run) == {"done": 1}
    (answered,) = Entry.objects.filter(kind="answered")
    assert "compared" not in json.loads(answered.body)
    assert len(desk.sandbox.requests()) == before


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        (Reading("T-1", True, "Read.", (SAME,), ours=True), ""),
        (Reading("T-1", True, "Read.", (SAME, OTHER), ours=True), "The record T-1 differs in queue."),
        (Reading("T-1", True, "It is not ours.", (SAME,), ours=False), "It is not ours."),
        (Reading("T-1", False, "crm has no record T-1."), "crm has no record T-1."),
        (
            Reading("T-1", True, "Read.", (SAME,), ours=True, taken_by="order:7"),
            "Operation order:7 holds reference T-1 already.",
        ),
        (None, ""),
    ],
    ids=["equal", "a field differs", "not ours", "not there", "taken", "can't be read"],
)
def test_what_was_read_confirms_only_when_it_is_this_very_action(reading: Reading | None, why: str) -> None:
    assert left_alone(reading) == why


def test_a_destination_that_does_not_answer_confirms_nothing(desk: Desk) -> None:
    by, ((hold, identity, reference),) = by_owner(desk), lost(desk, 1)
    seen = kept(selected([hold], by), by, text_of((reference, identity)))
    desk.sandbox.script("error_before_acting", 1, method="GET")

    run = applied(seen, by)

    assert counts(run) == {"left": 1}
    assert "could not be read" in results(run)[hold.pk][1]


def test_a_list_is_refused_for_holds_that_are_asked_something_else(desk: Desk) -> None:
    by = by_owner(desk)
    rejected(desk)

    with pytest.raises(Refused, match="can’t be answered with “It happened”"):
        keep_list(selected(Hold.objects.all(), by), b"T-1\n", by)
    assert ReferenceList.objects.count() == 0


def test_two_carriers_of_one_run_confirm_each_hold_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    by, found = by_owner(desk), lost(desk, 4)
    selection = selected([hold for hold, _, _ in found], by)
    seen = kept(selection, by, text_of(*((reference, identity) for _, identity, reference in found)))
    run = begin_happened(seen, seen.shown, REASON, by, once=uuid4()).run
    barrier, read = threading.Barrier(2), reading.readings_of

    def together(*arguments: Any) -> Any:
        prepared = read(*arguments)
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(2)
        return prepared

    deed = engine.DEEDS[Verb.HAPPENED]
    monkeypatch.setitem(engine.DEEDS, Verb.HAPPENED, type(deed)(deed.do, 2, prepare=together))

    def carry() -> None:
        try:
            engine.carry(run.pk, Verb.HAPPENED, 30.0)
        finally:
            connection.close()

    threads = [threading.Thread(target=carry) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.carry(run.pk, Verb.HAPPENED, 30.0)

    run.refresh_from_db()
    assert counts(run) == {"done": 4}
    assert Entry.objects.filter(kind="answered").count() == 4


def test_a_hold_that_was_not_read_in_time_has_its_turn_later(desk: Desk) -> None:
    by = by_owner(desk)
    (first, one, reference), (second, two, other) = lost(desk, 2)
    seen = kept(selected([first, second], by), by, text_of((reference, one), (other, two)))
    run = begin_happened(seen, seen.shown, REASON, by, once=uuid4()).run
    ready = reading.readings_of(run.pk, open_items(run.pk, 1))

    record_batch(run.pk, happened, 2, ready)

    run.refresh_from_db()
    assert (run.state, counts(run)) == ("running", {"done": 1})
    engine.carry(run.pk, Verb.HAPPENED, 30.0)
    run.refresh_from_db()
    assert (run.state, counts(run)) == ("finished", {"done": 2})


def test_what_was_brought_can_not_be_changed(desk: Desk) -> None:
    by, ((hold, identity, reference),) = by_owner(desk), lost(desk, 1)
    row = keep_list(selected([hold], by), text_of((reference, identity)), by)

    with pytest.raises(DatabaseError), transaction.atomic():
        ReferenceList.objects.filter(pk=row.pk).update(content=b"something else")
    assert keep_list(row.selection, bytes(row.content), by).pk == row.pk, "the same bytes are the same list"


def test_nothing_is_sent_by_a_list(desk: Desk) -> None:
    by = by_owner(desk)
    opened = unknown(desk)
    (effect,) = desk.sandbox.effects(identity=step_identity(opened.id, 1))
    hold = Hold.objects.get(operation_id=opened.id)

    applied(kept(selected([hold], by), by, text_of((effect["reference"], step_identity(opened.id, 1)))), by)

    assert effects(desk, opened) == 1
