"""Ways around an approval that have been tried: each is refused, and what is approved stays what is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from uuid import UUID, uuid4

import pytest
from content_cast import AUTOMATION, Cast, email, hold_of, make_cast
from django.core.management import call_command
from django.db import connection, transaction

from opsledger.accounts.actions import change_team, deactivate_person, set_roles
from opsledger.accounts.models import Person
from opsledger.engine.loading import read_files
from opsledger.engine.sending import not_sent
from opsledger.ledger.actions.approve import ContentStale, NotEligible
from opsledger.ledger.actions.change import Change, change_here
from opsledger.ledger.actions.claim import ClaimedSend, claim_sends
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.definitions import current_workflow, forget_current, load
from opsledger.ledger.actions.intake import Wanted, WantedContent, open_intended
from opsledger.ledger.actions.interventions import settle_withdraw
from opsledger.ledger.actions.open import Opened, open_operations
from opsledger.ledger.actions.record import record_sends
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import ApprovedRequest, Destination, Hold, Revision, StepRequest
from opsledger.ledger.queries.content import approvals_waiting, covered, version_shown
from opsledger.ledger.records import lock
from opsledger.rules import transitions
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind, VersionState
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import NoChange, Outcome
from tests.desk import DEFINITIONS, LETTER, LETTER_PARAMS, Desk, turn_recovery
from tests.lock_waits import until_waiting


@pytest.fixture
def cast(desk: Desk) -> Cast:
    return make_cast(desk)


def verified() -> None:
    call_command("verify_ledger")


# Of an operation and the one that replaces it, one is sent


def replacing(cast: Cast, earlier: Opened) -> Opened:
    content = WantedContent("replacement/letter", fields=LETTER, author_kind=AuthorKind.MODEL, author="m-1")
    name = cast.desk.operation(earlier).operation_id
    wanted = Wanted(f"new:{uuid4()}", "campaign_letter", dict(LETTER_PARAMS), replaces=name, content=content)
    taken = open_intended(cast.desk.team.pk, [wanted], AUTOMATION)[0]
    assert taken.opened is not None, taken
    return taken.opened


def covered_version(cast: Cast, opened: Opened) -> UUID:
    found = version_shown(cast.desk.step(opened).pk)
    assert found is not None
    return found


def test_an_operation_that_waits_for_approval_is_not_approved_once_another_replaces_it(cast: Cast) -> None:
    earlier, neighbour = cast.desk.letter(), cast.desk.letter()
    later = replacing(cast, earlier)

    made = cast.approve(cast.version(covered_version(cast, earlier)), cast.anna)
    cast.approve(cast.version(covered_version(cast, later)), cast.anna)
    cast.desk.send()

    assert [(one.operation_id, one.replaced) for one in made.left_out] == [(earlier.id, True)]
    assert cast.desk.operation(later).operation_id in made.left_out[0].why
    assert (made.approved_count, cast.desk.step(neighbour).attempt_count) == (1, 1)
    assert (cast.desk.step(earlier).state, cast.desk.step(earlier).attempt_count) == ("waiting", 0)
    assert cast.desk.step(later).attempt_count == 1
    verified()


def test_nothing_is_approved_where_all_that_waits_is_replaced(cast: Cast) -> None:
    earlier = cast.desk.letter()
    replacing(cast, earlier)
    version = cast.version(covered_version(cast, earlier))

    with pytest.raises(NotEligible, match="replaces it, and both would take effect"):
        cast.approve(version, cast.anna)

    assert cast.version(version.id).state is VersionState.PROPOSED


def test_a_replaced_operation_returns_to_the_approved_text_without_being_approved(cast: Cast) -> None:
    earlier, neighbour = cast.desk.letter(), cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    cast.propose("Two.", cast.anna)
    replacing(cast, earlier)

    made = cast.reject(cast.version(covered_version(cast, earlier)), cast.bert, earlier, neighbour)

    assert (made.returned_count, made.approved_again_count) == (2, 1)
    assert (cast.desk.step(earlier).state, hold_of(earlier).reason) == ("waiting", "approval_needed")
    assert cast.desk.step(neighbour).state == "ready"
    verified()


def test_a_changed_request_of_a_replaced_operation_is_not_approved(cast: Cast) -> None:
    earlier = without_content(cast)
    cast.propose("One.", cast.bert)
    shows(cast, earlier, 1)
    replacing(cast, earlier)

    with pytest.raises(Refused, match="replaces this one"):
        cast.approve_revision(earlier, cast.carl)

    assert cast.desk.step(earlier).state == "waiting"


# What was rejected is not approved by another door


def without_content(cast: Cast) -> Opened:
    wanted = Wanted(f"w:{uuid4()}", "campaign_letter", dict(LETTER_PARAMS))
    taken = open_intended(cast.desk.team.pk, [wanted], AUTOMATION)[0]
    assert taken.opened is not None
    return taken.opened


def shows(cast: Cast, opened: Opened, number: int) -> None:
    hold = hold_of(opened)
    content = ("spring-launch:letter", number)
    settle_hold(hold.pk, Decision(Answer.REVISE, "Use it.", hold.version, content=content), cast.anna)


def test_a_changed_request_does_not_bring_back_rejected_content(cast: Cast) -> None:
    opened = without_content(cast)
    cast.propose("One.", cast.bert)
    shows(cast, opened, 1)
    cast.reject(cast.newest(), cast.carl)

    with pytest.raises(Refused, match="version 1 of its content, which was rejected by Carl"):
        cast.approve_revision(opened, cast.carl)

    assert cast.desk.step(opened).state == "waiting"
    cast.propose("Two.", cast.bert)
    assert cast.desk.step(opened).content_number == 2
    cast.approve(cast.newest(), cast.carl)
    assert cast.desk.step(opened).state == "ready"
    verified()


# Who asked for it does not approve it


def test_the_same_text_asked_for_by_another_person_is_another_version(cast: Cast) -> None:
    first = cast.desk.propose(cast.anna, author=email(cast.anna), text="Shorter.")
    again = cast.desk.propose(cast.anna, author=email(cast.anna), text="Shorter.")
    other = cast.desk.propose(cast.bert, author=email(cast.anna), text="Shorter.")

    assert (again.id, again.new, other.new) == (first.id, False, True)
    with pytest.raises(NotEligible, match="You asked for it"):
        cast.approve(cast.newest(), cast.bert)


# Crossing decisions


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_over_what_is_cancelled_at_that_moment_is_told_so(cast: Cast, decision: str) -> None:
    opened = cast.desk.letter()
    version = cast.newest()
    digest = covered(version).digest
    locked, go, told = Event(), Event(), []

    def cancel() -> None:
        with transaction.atomic():
            lock([opened.id])
            locked.set()
            go.wait(20)
            change_here(
                {
                    opened.id: Change(
                        "cancel_requested",
                        "command:test",
                        lambda loaded, moment: transitions.cancel_requested(loaded.record, moment),
                    )
                }
            )
        connection.close()

    def decide() -> None:
        try:
            getattr(cast, decision)(version, cast.bert, covered_digest=digest)
        except Exception as why:
            told.append(why)
        connection.close()

    threads = [Thread(target=cancel), Thread(target=decide)]
    threads[0].start()
    assert locked.wait(20)
    threads[1].start()
    until_waiting(1, threads)
    go.set()
    for thread in threads:
        thread.join()

    assert [type(one) for one in told] == [ContentStale]
    assert cast.version(version.id).state is VersionState.PROPOSED


def test_an_operation_that_is_named_twice_returns_once(cast: Cast) -> None:
    back = cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    cast.propose("Two.", cast.anna)

    made = cast.reject(cast.newest(), cast.bert, back, back)

    assert (made.returned_count, made.cancelled_count) == (1, 0)


# A request that rests on an earlier step's answer changes with it

TWO_STEPS = """
[workflow.task_and_note]
title = "Note for {params.subject}"
owner = "owner"
if_nobody = "The note is not written."
due_seconds = { default = 3_600 }
[[workflow.task_and_note.params]]
name = "subject"
label = "Subject"
APPROVAL
[[workflow.task_and_note.steps]]
name = "create_task"
title = "Create the task"
destination = "plain"
action = "create_task"
[[workflow.task_and_note.steps]]
name = "write_note"
title = "Write the note"
destination = "plain"
action = "write_note"
NEEDS

[destination.plain]
name = "Plain"
base_url = "http://127.0.0.1:9"
[destination.plain.actions.create_task]
title = "Create a task"
effect = "create"
[destination.plain.actions.create_task.request]
method = "POST"
path = "/tasks"
[destination.plain.actions.create_task.request.body]
subject = "{params.subject}"
[destination.plain.actions.create_task.reply]
reference = "id"
[destination.plain.actions.write_note]
title = "Write a note"
effect = "create"
[destination.plain.actions.write_note.request]
method = "POST"
path = "/notes"
[destination.plain.actions.write_note.request.body]
task = "{steps.create_task.reference}"
[destination.plain.actions.write_note.reply]
reference = "id"
"""
CONTENT = """
[[workflow.task_and_note.content]]
name = "text"
label = "Text"
kind = "free"
"""


def task_and_note(cast: Cast, folder: Path, *, approved: bool) -> Opened:
    """Its first step is said to have made the task T-1."""
    text = TWO_STEPS.replace("APPROVAL", CONTENT if approved else "")
    file = folder / "task_and_note.toml"
    file.write_text(text.replace("NEEDS", "needs_approval = true" if approved else ""))
    load(cast.desk.team.pk, read_files([DEFINITIONS, file]), actor="command:test")
    forget_current()
    current = current_workflow(cast.desk.team.pk, "task_and_note")
    wanted = cast.desk.wanted()._replace(
        workflow_version_id=current.version_id,
        destinations=current.destinations,
        params={"subject": "a call"},
    )
    opened = open_operations([wanted])[0]
    (claimed,) = claim_sends(1, worker="test")
    unknown = Finding(Outcome.UNKNOWN, KnownBy.REPLY)
    record_sends([replace(not_sent(claimed, "no_reply", "No reply came."), finding=unknown)])
    happened(cast, opened, "T-1")
    return opened


def happened(cast: Cast, opened: Opened, reference: str) -> None:
    hold = Hold.objects.get(operation_id=opened.id, step__number=1, closed_at=None)
    settle_hold(hold.pk, Decision(Answer.HAPPENED, "Seen.", hold.version, reference=reference), cast.anna)


def taken_back(cast: Cast, opened: Opened) -> None:
    version = cast.desk.operation(opened).version
    settle_withdraw(opened.id, 1, "Another’s record.", cast.anna, version=version)


@pytest.mark.parametrize("approved", [False, True], ids=["no approval needed", "approved"])
def test_what_rests_on_an_answer_that_was_taken_back_is_another_request(
    cast: Cast, tmp_path: Path, approved: bool
) -> None:
    opened = task_and_note(cast, tmp_path, approved=approved)
    if approved:
        cast.approve_revision(opened, cast.bert, 2)
    step = cast.desk.step(opened, 2)
    assert (step.state, step.revision) == ("ready", 1)
    assert bytes(StepRequest.objects.get(step=step).body) == b'{"task":"T-1"}'

    taken_back(cast, opened)
    happened(cast, opened, "T-2")

    step = cast.desk.step(opened, 2)
    assert (step.state, step.revision, step.approved_digest) == ("waiting", 2, None)
    assert Hold.objects.get(step=step, closed_at=None).reason == "approval_needed"
    assert not ApprovedRequest.objects.filter(step=step, voided_at=None).exists()
    Destination.objects.update(send_tokens=5.0)
    assert claim_sends(9, worker="test") == []
    with pytest.raises(NotEligible, match="You changed its request"):
        cast.approve_revision(opened, cast.anna, 2)
    cast.approve_revision(opened, cast.carl, 2)
    (claimed,) = claim_sends(9, worker="test")
    assert bytes(claimed.body) == b'{"task":"T-2"}'
    verified()


def test_the_same_answer_given_again_leaves_the_request_as_it_was(cast: Cast, tmp_path: Path) -> None:
    opened = task_and_note(cast, tmp_path, approved=True)
    cast.approve_revision(opened, cast.bert, 2)
    before = cast.desk.step(opened, 2)

    taken_back(cast, opened)
    assert cast.desk.step(opened, 2).state == "waiting"
    happened(cast, opened, "T-1")

    step = cast.desk.step(opened, 2)
    assert (step.state, step.revision, step.request_digest) == ("ready", 1, before.request_digest)
    assert not Revision.objects.filter(step=step).exists()
    verified()


def test_changed_and_changed_back_needs_another_approval(cast: Cast, tmp_path: Path) -> None:
    opened = task_and_note(cast, tmp_path, approved=True)
    cast.approve_revision(opened, cast.bert, 2)

    for reference in ("T-2", "T-1"):
        taken_back(cast, opened)
        happened(cast, opened, reference)

    step = cast.desk.step(opened, 2)
    assert (step.state, step.approved_digest) == ("waiting", None)
    verified()


# The text that was corrected while the old one was under way


def not_sent_after_all(cast: Cast, opened: Opened, claimed: ClaimedSend) -> None:
    record_sends([not_sent(claimed, "held_up", "The worker was held up.")])


def put_off(cast: Cast, opened: Opened, claimed: ClaimedSend) -> None:
    deferred = Finding(Outcome.NO_CHANGE, KnownBy.REPLY, NoChange.DEFERRED)
    record_sends([replace(not_sent(claimed, "busy", "Not now."), finding=deferred)])


def refused_there(cast: Cast, opened: Opened, claimed: ClaimedSend) -> None:
    rejected = Finding(Outcome.NO_CHANGE, KnownBy.REPLY, NoChange.REJECTED)
    record_sends([replace(not_sent(claimed, "refused", "No such field."), finding=rejected)])


NO_EFFECT = [not_sent_after_all, put_off, refused_there]


@pytest.mark.parametrize("ended", NO_EFFECT)
def test_what_was_under_way_in_vain_shows_the_text_that_took_its_place(
    cast: Cast, ended: Callable[[Cast, Opened, ClaimedSend], None]
) -> None:
    opened = cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    (claimed,) = claim_sends(1, worker="test")
    cast.propose("Corrected.", cast.bert)
    cast.approve(cast.newest(), cast.anna)
    assert (cast.desk.step(opened).state, cast.desk.step(opened).content_number) == ("in_flight", 1)

    ended(cast, opened, claimed)

    step = cast.desk.step(opened)
    assert (step.state, step.revision, step.content_number) == ("waiting", 2, 2)
    assert hold_of(opened).reason == "approval_needed"
    assert not ApprovedRequest.objects.filter(step=step, voided_at=None).exists()
    cast.approve(cast.newest(), cast.carl)
    assert cast.desk.step(opened).state == "ready"
    verified()


def test_what_did_happen_keeps_the_text_that_was_sent(cast: Cast) -> None:
    opened = cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    (claimed,) = claim_sends(1, worker="test")
    cast.propose("Corrected.", cast.bert)

    confirmed = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="M-1")
    record_sends([replace(not_sent(claimed, "ok", "Taken."), finding=confirmed)])

    step = cast.desk.step(opened)
    assert (step.revision, step.content_number, step.reference) == (1, 1, "M-1")
    verified()


def test_a_person_who_sends_the_same_again_sends_what_they_read(cast: Cast) -> None:
    turn_recovery(on=False)
    opened = cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    (claimed,) = claim_sends(1, worker="test")
    unknown = Finding(Outcome.UNKNOWN, KnownBy.REPLY)
    record_sends([replace(not_sent(claimed, "no_reply", "No reply came."), finding=unknown)])
    cast.propose("Corrected.", cast.bert)
    hold = hold_of(opened)

    again = Decision(Answer.ABSENT_SEND_AGAIN, "Asked them.", hold.version, checked_how="By telephone.")
    settle_hold(hold.pk, again, cast.anna)

    step = cast.desk.step(opened)
    assert (step.state, step.revision, step.content_number) == ("ready", 1, 1)
    verified()


# Where nobody may approve, it is seen


def test_where_those_who_may_approve_recorded_all_that_waits_the_list_says_that_nobody_may(
    cast: Cast,
) -> None:
    cast.desk.letter(by=cast.anna, author_kind=AuthorKind.AUTOMATION, author="importer")
    deactivate_person(Person.objects.get(pk=cast.carl.person_id))
    change_team(cast.desk.team, name="Desk", fallback_owner=Person.objects.get(pk=cast.bert.person_id))
    set_roles(Person.objects.get(email="owner@test.example"), cast.desk.team, [])

    cast.propose("Bert’s own.", cast.bert)

    (waiting,) = approvals_waiting([cast.desk.team.pk]).versions
    assert waiting.nobody_may_approve
    opened = Hold.objects.get(closed_at=None)
    assert (opened.reason, opened.owner_id) == ("approval_needed", cast.bert.person_id)
    cast.desk.letter(fields=None, version=1)  # of nobody: Anna may
    (waiting,) = approvals_waiting([cast.desk.team.pk]).versions
    assert not waiting.nobody_may_approve
