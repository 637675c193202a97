"""Selections and bulk runs in the database: what was seen is acted on, once, and every item says what became of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from opsledger.engine import bulk as engine
from opsledger.journal.models import Entry
from opsledger.ledger.actions import bulk, bulk_verbs
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.bulk import (
    CHANGED,
    Press,
    RunMoved,
    abort,
    begin,
    begun_before,
    freeze,
    freeze_view,
    record_batch,
)
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.destinations import settle_pause
from opsledger.ledger.models import (
    BulkItem,
    BulkRun,
    Destination,
    Hold,
    Selection,
    SelectionItem,
)
from opsledger.ledger.queries import inbox
from opsledger.ledger.queries.bulk import groups_of, items_of, run_of, selection_of
from opsledger.ledger.queries.bulk import lines_of as chosen_lines
from opsledger.rules.bulk import Verb
from opsledger.rules.states import HoldReason, StepState
from tests.bulk import begun, counts, lines_of, ran, results, selected
from tests.desk import Desk
from tests.replaying import by_owner, rejected, unknown

OTHER = By("person:00000000-0000-0000-0000-000000000002", "Other")


def holds_of(desk: Desk, count: int, make: Callable[[Desk], object] = unknown) -> list[Hold]:
    """That many open holds, oldest first."""
    for _ in range(count):
        Destination.objects.update(send_tokens=5.0)  # no waiting for the destination's rate
        make(desk)
    return list(Hold.objects.filter(closed_at__isnull=True).order_by("pk"))[-count:]


def wanted(desk: Desk, **more: object) -> inbox.Wanted:
    return inbox.Wanted(desk.team.pk, by_owner(desk).person_id, **more)  # type: ignore[arg-type]


# What is frozen


def test_a_selection_keeps_what_was_seen_and_nothing_joins_it_later(desk: Desk) -> None:
    first = holds_of(desk, 2)
    made = freeze_view(wanted(desk), words="all", query="")
    late = holds_of(desk, 1)
    kept = list(
        SelectionItem.objects.filter(selection=made).order_by("position").values_list("hold_id", "version")
    )
    assert kept == [(hold.pk, hold.version) for hold in first]
    assert made.item_count == 2
    assert late[0].pk not in dict(kept)


def test_all_that_match_are_those_that_were_there_when_the_page_was_made(desk: Desk) -> None:
    old = holds_of(desk, 1)
    seen_up_to = inbox.floor_id(timezone.now())
    holds_of(desk, 1)
    made = freeze_view(wanted(desk), words="all", up_to=seen_up_to)
    assert [one.hold_id for one in made.items.all()] == [old[0].pk]


def test_a_view_of_several_reasons_is_frozen_in_the_order_of_the_page(desk: Desk) -> None:
    some = holds_of(desk, 3)
    Hold.objects.filter(pk=some[2].pk).update(due_at=timezone.now() - timedelta(days=1))
    Hold.objects.update(opened_at=timezone.now() - timedelta(hours=3))
    holds_of(desk, 1, rejected)
    for view in (wanted(desk), wanted(desk, reason=HoldReason.OUTCOME_UNKNOWN)):
        shown = [line.id for line in inbox.page_of(view).lines]
        made = freeze_view(view, words="some")
        assert [one.hold_id for one in made.items.order_by("position")] == shown


def test_an_empty_selection_is_refused_and_leaves_nothing(desk: Desk) -> None:
    with pytest.raises(Refused, match="never means “all”"):
        freeze_view(wanted(desk), words="all")
    with pytest.raises(Refused, match="never means “all”"):
        freeze(desk.team.pk, by_owner(desk).person_id, {}, words="none")
    assert not Selection.objects.exists() and not SelectionItem.objects.exists()


def test_more_than_one_selection_takes_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "HOLDS_MAX", 2)
    some = holds_of(desk, 3)
    with pytest.raises(Refused, match="More than 2 holds match"):
        freeze_view(wanted(desk), words="all")
    with pytest.raises(Refused, match="More than 2 holds match"):
        selected(some, by_owner(desk))
    assert not SelectionItem.objects.exists()
    assert selected(some[:2], by_owner(desk)).item_count == 2


def test_another_teams_holds_do_not_exist(desk: Desk) -> None:
    some = holds_of(desk, 2)
    versions = {one.pk: one.version for one in some}
    with pytest.raises(Refused):
        freeze(uuid4(), by_owner(desk).person_id, versions, words="theirs")
    made = selected(some, by_owner(desk))
    assert selection_of(made.pk, [uuid4()]) is None
    assert selection_of(made.pk, [desk.team.pk]) is not None
    run = begun(made, Verb.TAKE, by_owner(desk))
    assert run_of(run.pk, [uuid4()]) is None


def test_the_database_keeps_a_selection_as_it_was_chosen(desk: Desk) -> None:
    made = selected(holds_of(desk, 1), by_owner(desk))
    run = ran(made, Verb.TAKE, by_owner(desk))
    for change in (
        lambda: Selection.objects.update(words="others"),
        lambda: SelectionItem.objects.update(position=9),
        lambda: SelectionItem.objects.all().delete(),
        lambda: BulkItem.objects.update(version=9),
        lambda: BulkItem.objects.filter(run=run).update(result="refused", why="Not so."),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()


# What is done


def test_a_run_is_one_line_for_the_team_and_one_for_each_item(desk: Desk) -> None:
    some, neighbour = holds_of(desk, 3), holds_of(desk, 1)[0]
    run = ran(selected(some, by_owner(desk)), Verb.TAKE, by_owner(desk), reason="They are mine.")
    assert (run.state, counts(run)) == ("finished", {"done": 3})
    assert lines_of(run) == [("operation", "assigned")] * 3 + [("team", "bulk_begun")]
    assert set(Hold.objects.filter(pk__in=[one.pk for one in some]).values_list("owner_id", flat=True)) == {
        by_owner(desk).person_id
    }
    neighbour.refresh_from_db()
    assert (neighbour.owner_id, neighbour.version) == (None, 1)
    assert "They are mine." not in "".join(Entry.objects.values_list("body", flat=True))
    call_command("verify_ledger")


def test_what_changed_since_it_was_selected_is_skipped(desk: Desk) -> None:
    some = holds_of(desk, 3)
    made = selected(some, by_owner(desk))
    settle_assign([some[1].pk], by_owner(desk).person_id, OTHER)
    Hold.objects.filter(pk=some[2].pk).update(closed_at=timezone.now(), closed_by="evidence")
    run = ran(made, Verb.ASSIGN, by_owner(desk), facts={"owner": None})
    assert results(run) == {
        some[0].pk: ("left", "It was unowned already."),
        some[1].pk: ("skipped", CHANGED),
        some[2].pk: ("skipped", CHANGED),
    }
    assert Hold.objects.get(pk=some[1].pk).owner_id == by_owner(desk).person_id


def test_ones_own_run_does_not_make_ones_own_selection_stale(desk: Desk) -> None:
    some = holds_of(desk, 2)
    made, elsewhere = selected(some, by_owner(desk)), selected(some, by_owner(desk))
    assert counts(ran(made, Verb.TAKE, by_owner(desk))) == {"done": 2}
    assert counts(ran(made, Verb.NOTE, by_owner(desk), reason="Asked them.")) == {"done": 2}
    assert counts(ran(elsewhere, Verb.NOTE, by_owner(desk), reason="Asked too.")) == {"skipped": 2}


def test_the_same_press_twice_is_one_run(desk: Desk) -> None:
    made, once = selected(holds_of(desk, 1), by_owner(desk)), uuid4()
    first = begin(made, Verb.TAKE, by_owner(desk), once=once)
    again = begin(made, Verb.TAKE, by_owner(desk), once=once)
    assert (first.created, again.created, again.run.pk) == (True, False, first.run.pk)
    assert BulkRun.objects.count() == 1 and BulkItem.objects.count() == 1
    assert Entry.objects.filter(kind="bulk_begun").count() == 1


# What a form asks for now, whose run it began before was a note on these holds.
OTHER_PRESSES: dict[str, Callable[[Selection, Selection, By, UUID], object]] = {
    "another verb": lambda made, _, by, once: begin(made, Verb.TAKE, by, once=once),
    "another note": lambda made, _, by, once: begin(made, Verb.NOTE, by, once=once, reason="Call them."),
    "other holds, as the page asks": lambda _, more, by, once: begun_before(
        by.person_id, once, Press(Verb.NOTE, more.pk, "Asked them.")
    ),
}


@pytest.mark.parametrize("press", OTHER_PRESSES.values(), ids=OTHER_PRESSES.keys())
def test_a_form_that_asks_for_something_else_is_refused_and_not_taken_for_the_first_press(
    desk: Desk, press: Callable[[Selection, Selection, By, UUID], object]
) -> None:
    some, by, once = holds_of(desk, 2), by_owner(desk), uuid4()
    made, more = selected(some[:1], by), selected(some[1:], by)
    first = begin(made, Verb.NOTE, by, once=once, reason="Asked them.")
    with pytest.raises(Refused, match="began another run before"):
        press(made, more, by, once)
    assert [run.pk for run in BulkRun.objects.all()] == [first.run.pk]
    assert begun_before(by.person_id, once, Press(Verb.NOTE, made.pk, "Asked them.")) == first.run


def test_two_presses_at_the_same_moment_are_one_run(desk: Desk) -> None:
    made, once, by = selected(holds_of(desk, 1), by_owner(desk)), uuid4(), by_owner(desk)
    found = at_once(lambda: begin(made, Verb.TAKE, by, once=once))
    assert sorted(one.created for one in found) == [False, True]
    assert len({one.run.pk for one in found}) == 1


def test_while_a_run_is_under_way_its_selection_begins_no_other(desk: Desk) -> None:
    made = selected(holds_of(desk, 1), by_owner(desk))
    run = begun(made, Verb.TAKE, by_owner(desk))
    with pytest.raises(Refused, match="under way"):
        begun(made, Verb.NOTE, by_owner(desk), reason="Meanwhile.")
    engine.run_once()
    run.refresh_from_db()
    assert run.state == "finished"
    assert begun(made, Verb.NOTE, by_owner(desk), reason="Afterwards.").pk != run.pk


def test_two_carriers_of_one_run_do_each_item_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.DEEDS, Verb.TAKE, engine.Deed(bulk_verbs.take, 2))
    run = begun(selected(holds_of(desk, 9), by_owner(desk)), Verb.TAKE, by_owner(desk))

    def carry() -> int:
        total = 0
        while BulkRun.objects.get(pk=run.pk).state == "running":
            total += engine.carry(run.pk, Verb.TAKE, 5.0)
        return total

    assert sum(at_once(carry)) == 9
    run.refresh_from_db()
    assert (run.state, counts(run)) == ("finished", {"done": 9})
    assert lines_of(run) == [("operation", "assigned")] * 9 + [("team", "bulk_begun")]


def test_two_runs_over_the_same_holds_never_block_each_other(desk: Desk) -> None:
    some, by = holds_of(desk, 6), by_owner(desk)
    runs = iter(
        [
            begun(selected(some, by), Verb.NOTE, by, reason="One."),
            begun(selected(some[::-1], by), Verb.TAKE, by),
        ]
    )
    mine = threading.Lock()

    def carry() -> int:
        with mine:
            run = next(runs)
        return engine.carry(run.pk, Verb(run.verb), 10.0)

    assert at_once(carry) == [6, 6]


def test_a_carrier_that_dies_in_a_batch_leaves_it_to_the_next(desk: Desk) -> None:
    some = holds_of(desk, 3)
    run = begun(selected(some, by_owner(desk)), Verb.TAKE, by_owner(desk))
    assert record_batch(run.pk, bulk_verbs.take, 1) == 1

    def dies(batch: bulk.Batch) -> dict[object, bulk.Said]:
        bulk_verbs.take(batch)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_batch(run.pk, dies, 2)  # type: ignore[arg-type]
    assert Hold.objects.filter(owner__isnull=False).count() == 1
    assert engine.run_once() == 2
    run.refresh_from_db()
    assert (run.state, counts(run)) == ("finished", {"done": 3})
    assert len(lines_of(run)) == 4
    call_command("verify_ledger")


def test_what_was_prepared_for_an_item_is_used_for_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else does a prepared item meanwhile: the next one is not done with what was found out for that one."""
    some, seen = holds_of(desk, 2), []
    run = begun(selected(some, by_owner(desk)), Verb.TAKE, by_owner(desk))

    def prepare(run_id: UUID, items: Sequence[BulkItem]) -> dict[UUID, str]:
        if len(items) and items[0].hold_id == some[0].pk:  # the other carrier, just before the batch
            record_batch(run_id, bulk_verbs.take, 1)
        return {item.hold_id: str(item.hold_id) for item in items}

    def do(batch: bulk.Batch) -> dict[UUID, bulk.Said]:
        seen.extend((one.hold.pk, batch.prepared[one.hold.pk]) for one in batch.items)
        return bulk_verbs.take(batch)

    monkeypatch.setitem(engine.DEEDS, Verb.TAKE, engine.Deed(do, 1, prepare))
    assert engine.carry(run.pk, Verb.TAKE, 10.0) == 1
    assert seen == [(some[1].pk, str(some[1].pk))]


def test_an_item_that_breaks_does_not_stop_the_others(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    some = holds_of(desk, 3)

    def breaks(batch: bulk.Batch) -> dict[object, bulk.Said]:
        if some[1].pk in {one.hold.pk for one in batch.items}:
            raise RuntimeError("a fault of our own")
        return bulk_verbs.take(batch)  # type: ignore[return-value]

    monkeypatch.setitem(engine.DEEDS, Verb.TAKE, engine.Deed(breaks, 500))  # type: ignore[arg-type]
    run = ran(selected(some, by_owner(desk)), Verb.TAKE, by_owner(desk))
    assert (run.state, counts(run)) == ("finished", {"done": 2, "refused": 1})
    assert results(run)[some[1].pk] == ("refused", bulk.BROKEN)
    assert "a fault of our own" in caplog.text


# Each verb


def test_check_now_asks_for_a_lookup_and_says_where_there_is_none(desk: Desk) -> None:
    asked, ready = holds_of(desk, 1)[0], holds_of(desk, 1, rejected)[0]
    run = ran(selected([asked, ready], by_owner(desk)), Verb.CHECK_NOW, by_owner(desk))
    assert results(run) == {
        asked.pk: ("done", ""),
        ready.pk: ("refused", "This step is ready; there is nothing to look up."),
    }
    assert asked.step is not None
    asked.step.refresh_from_db()
    assert asked.step.act == "look"
    assert lines_of(run) == [("team", "bulk_begun"), ("operation", "check_requested")]
    call_command("verify_ledger")


def test_next_check_keeps_holds_open_until_then(desk: Desk) -> None:
    some, at = holds_of(desk, 2), timezone.now() + timedelta(hours=5)
    made = selected(some, by_owner(desk))
    run = ran(
        made,
        Verb.NEXT_CHECK,
        by_owner(desk),
        reason="They look tomorrow.",
        facts={"next_check_at": at.isoformat()},
    )
    assert counts(run) == {"done": 2}
    for hold in Hold.objects.filter(pk__in=[one.pk for one in some]):
        assert (hold.closed_at, hold.due_at, hold.version) == (None, at, 2)
    assert lines_of(run)[:2] == [("operation", "answered")] * 2
    assert counts(ran(made, Verb.TAKE, by_owner(desk))) == {"done": 2}
    call_command("verify_ledger")


def test_ending_as_failed_settles_each_with_the_reason(desk: Desk) -> None:
    ended, kept = holds_of(desk, 2, rejected), holds_of(desk, 1)[0]
    run = ran(
        selected([*ended, kept], by_owner(desk)), Verb.END_FAILED, by_owner(desk), reason="Ordered elsewhere."
    )
    assert counts(run) == {"done": 2, "refused": 1}
    assert "is not an answer" in results(run)[kept.pk][1]
    for hold in ended:
        hold.refresh_from_db()
        assert hold.answer == "end_failed" and hold.closed_at is not None
        assert hold.step is not None
        hold.step.refresh_from_db()
        assert hold.step.state == "failed"
    with (
        connection.cursor() as cursor
    ):  # the run's own, one for each that was settled, and none for the one that was not
        cursor.execute("SELECT count(*) FROM journal_text WHERE text = 'Ordered elsewhere.'")
        assert cursor.fetchone() == (3,)
    call_command("verify_ledger")


def test_a_note_is_kept_on_holds_of_every_kind(desk: Desk) -> None:
    step = holds_of(desk, 1)[0]
    destination = Destination.objects.get(definition__slug="mail", definition__team=desk.team)
    settle_pause(destination.pk, destination.version, "Their upgrade.", by_owner(desk))
    stopped = Hold.objects.get(destination=destination)
    run = ran(
        selected([step, stopped], by_owner(desk)), Verb.NOTE, by_owner(desk), reason="Asked the provider."
    )
    assert counts(run) == {"done": 2}
    assert sorted(kind for _, kind in lines_of(run)) == ["bulk_begun", "noted", "noted"]
    call_command("verify_ledger")


def test_a_verb_for_steps_refuses_what_is_not_about_one(desk: Desk) -> None:
    destination = Destination.objects.get(definition__slug="mail", definition__team=desk.team)
    settle_pause(destination.pk, destination.version, "Their upgrade.", by_owner(desk))
    stopped = Hold.objects.get(destination=destination)
    run = ran(selected([stopped], by_owner(desk)), Verb.CHECK_NOW, by_owner(desk))
    assert results(run) == {stopped.pk: ("refused", bulk_verbs.NOT_ABOUT_A_STEP)}


# Left alone, aborted


def test_what_is_left_alone_is_said_when_the_run_begins(desk: Desk) -> None:
    some = holds_of(desk, 2)
    made, nowhere = selected(some, by_owner(desk)), uuid4()
    left = {some[1].pk: "No such identity here.", nowhere: "Not of this selection."}
    run = ran(made, Verb.TAKE, by_owner(desk), left=left, given={some[0].pk: {"reference": "T-1"}})
    assert results(run) == {some[0].pk: ("done", ""), some[1].pk: ("left", "No such identity here.")}
    assert counts(run) == {"done": 1, "left": 1}
    assert BulkItem.objects.get(run=run, hold=some[0]).given == '{"reference": "T-1"}'


def test_a_run_whose_items_are_all_left_alone_has_ended(desk: Desk) -> None:
    some = holds_of(desk, 1)
    run = begun(
        selected(some, by_owner(desk)), Verb.TAKE, by_owner(desk), left={some[0].pk: "Not in the list."}
    )
    assert (run.state, counts(run)) == ("finished", {"left": 1})


def test_an_aborted_run_leaves_the_rest_alone_and_says_so(desk: Desk) -> None:
    some = holds_of(desk, 3)
    run = begun(selected(some, by_owner(desk)), Verb.TAKE, by_owner(desk))
    record_batch(run.pk, bulk_verbs.take, 1)
    with pytest.raises(Refused, match="Write the reason"):
        abort(run.pk, 1, " ", by_owner(desk))
    ended = abort(run.pk, 1, "Wrong view.", by_owner(desk))
    assert (ended.state, counts(ended)) == ("aborted", {"done": 1, "left": 2})
    assert engine.run_once() == 0
    assert Hold.objects.filter(owner__isnull=False).count() == 1
    assert Entry.objects.filter(kind="bulk_aborted", subject_id=desk.team.pk).count() == 1
    with pytest.raises(RunMoved):
        abort(run.pk, 1, "Again.", by_owner(desk))


# What pages read


def test_groups_count_what_is_alike_and_what_moved(desk: Desk) -> None:
    some, other = holds_of(desk, 2), holds_of(desk, 1, rejected)
    made = selected([*some, *other], by_owner(desk))
    settle_assign([some[0].pk], by_owner(desk).person_id, OTHER)
    groups = {
        (one.chosen.reason, one.chosen.state): (one.chosen.count, one.moved) for one in groups_of(made.pk)
    }
    assert groups == {
        (HoldReason.OUTCOME_UNKNOWN, StepState.UNKNOWN): (2, 1),
        (HoldReason.REJECTED, StepState.READY): (1, 0),
    }
    assert [line.moved for line in chosen_lines(made.pk)] == [True, False, False]


def test_items_are_read_in_pages_and_by_result(desk: Desk) -> None:
    some = holds_of(desk, 5)
    made = selected(some, by_owner(desk))
    settle_assign([some[2].pk], by_owner(desk).person_id, OTHER)
    run = ran(made, Verb.TAKE, by_owner(desk))
    first = items_of(run.pk, size=2)
    assert [one.position for one in first] == [1, 2, 3]
    assert [one.position for one in items_of(run.pk, after=4, size=2)] == [5]
    assert [one.hold_id for one in items_of(run.pk, result="skipped")] == [some[2].pk]
    assert items_of(run.pk, result="open") == []


def at_once(act: Callable[[], object], count: int = 2) -> list[object]:
    """The same act by several, begun at the same moment, each with a connection of its own."""
    barrier, found, wrong = threading.Barrier(count), [], []

    def one() -> None:
        try:
            barrier.wait(timeout=30)
            found.append(act())
        except Exception as why:
            wrong.append(why)
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    return found
