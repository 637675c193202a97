"""Law 7: somebody who is neither author nor requester approves exactly what is sent, once, and for a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from content_cast import AUTOMATION, Cast, email, hold_of, make_cast, member
from django.core.management import CommandError, call_command
from django.db import connection, connections

from opsledger.accounts.actions import set_roles
from opsledger.accounts.models import Person
from opsledger.accounts.permissions import Role
from opsledger.journal.models import Entry
from opsledger.ledger.actions.approve import ContentStale, NotEligible, settle_revision_approval
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.deciding import By, Refused, Stale
from opsledger.ledger.actions.intake import Wanted, open_intended
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import (
    Approval,
    ApprovedRequest,
    ContentVersion,
    Hold,
    Revision,
    Step,
    StepRequest,
)
from opsledger.ledger.queries.content import (
    approvals_waiting,
    covered,
    covered_revision,
    left_out,
    may_not_approve,
    may_not_approve_revision,
)
from opsledger.ledger.queries.timeline import story_of
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind, VersionState
from tests.desk import LETTER, LETTER_PARAMS, Desk, turn_recovery


@pytest.fixture
def cast(desk: Desk) -> Cast:
    return make_cast(desk)


def verified() -> None:
    call_command("verify_ledger")


# One approval for everything that waits


def test_one_approval_covers_every_operation_that_waits_and_no_other(cast: Cast) -> None:
    opened = [cast.desk.letter() for _ in range(3)]
    other = cast.desk.letter(content_id="another/letter")
    version = cast.version(ContentVersion.objects.get(content_id="spring-launch:letter").pk)

    made = cast.approve(version, cast.anna, reason="Read it.")

    assert (made.approved_count, made.left_out) == (3, ())
    for one in opened:
        step = cast.desk.step(one)
        assert (step.state, step.act, step.send_until) == ("ready", "send", step.approved_until)
        frozen = StepRequest.objects.get(step=step)
        assert step.approved_digest == frozen.content_digest
        assert ApprovedRequest.objects.get(step=step).request_digest == frozen.content_digest
    assert cast.desk.step(other).state == "waiting"
    row = Approval.objects.get()
    assert (row.covered_count, row.approved_by_id, row.covered_digest) == (
        3,
        cast.anna.person_id,
        covered_before(cast),
    )
    assert (row.expires_at - row.approved_at).days == 3
    after = cast.version(version.id)
    assert (after.state, after.decided_by, after.reason) == (
        VersionState.APPROVED,
        cast.anna.actor,
        "Read it.",
    )
    kinds = [told.kind for told in story_of(version.of_id).told]
    assert kinds == ["content_approved", "content_proposed"]
    assert Entry.objects.filter(kind="approved").count() == 3
    verified()


def covered_before(cast: Cast) -> str:
    """What the journal says was covered."""
    told = story_of(ContentVersion.objects.get(content_id="spring-launch:letter").of_id).told[0]
    return str(told.body["covered_digest"])


def test_what_comes_later_needs_an_approval_of_its_own(cast: Cast) -> None:
    cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)

    later = cast.desk.letter(fields=None, version=1)

    assert cast.desk.step(later).state == "waiting"
    assert [one.operation_count for one in approvals_waiting([cast.desk.team.pk]).versions] == [1]
    assert cast.approve(cast.newest(), cast.bert).approved_count == 1
    assert cast.desk.step(later).state == "ready"
    assert Approval.objects.count() == 2


def test_a_text_may_be_approved_before_anything_waits_for_it(cast: Cast) -> None:
    cast.propose("One.")

    made = cast.approve(cast.newest(), cast.bert)

    assert (made.approved_count, cast.newest().state) == (0, VersionState.APPROVED)
    verified()


def test_a_newer_approved_version_takes_the_place_of_the_older(cast: Cast) -> None:
    cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    cast.propose("Two.")
    cast.approve(cast.newest(), cast.bert)

    assert dict(ContentVersion.objects.values_list("number", "state")) == {1: "superseded", 2: "approved"}
    verified()


# Nobody on a stale page


def later_operation(cast: Cast) -> None:
    cast.desk.letter(fields=None, version=1)


def other_version(cast: Cast) -> None:
    cast.propose("Two.", cast.carl)


def approved_by_bert(cast: Cast) -> None:
    cast.approve(cast.newest(), cast.bert)


def rejected_by_bert(cast: Cast) -> None:
    cast.reject(cast.newest(), cast.bert)


STALE: dict[str, tuple[Callable[[Cast], None], str]] = {
    "another operation waits": (later_operation, "What this version covers changed"),
    "another version was proposed": (other_version, "was superseded"),
    "approved by another": (approved_by_bert, "was approved by Bert meanwhile"),
    "rejected by another": (rejected_by_bert, "was rejected by Bert meanwhile"),
}


@pytest.mark.parametrize(("meanwhile", "told"), STALE.values(), ids=STALE.keys())
def test_a_decision_on_something_older_changes_nothing_and_says_what_happened(
    cast: Cast, meanwhile: Callable[[Cast], None], told: str
) -> None:
    cast.desk.letter()
    version = cast.newest()
    digest = covered(version).digest
    meanwhile(cast)
    before = [*Step.objects.order_by("pk").values(), Approval.objects.count(), Entry.objects.count()]

    with pytest.raises(ContentStale, match=told):
        cast.approve(version, cast.anna, covered_digest=digest)
    with pytest.raises(ContentStale, match=r"changed|meanwhile"):
        cast.reject(version, cast.anna, covered_digest=digest)

    assert [*Step.objects.order_by("pk").values(), Approval.objects.count(), Entry.objects.count()] == before


@pytest.mark.parametrize("other", ["approve", "reject"])
def test_of_two_decisions_at_once_one_counts_and_the_other_is_told(cast: Cast, other: str) -> None:
    """A3: two requests at the same moment."""
    opened = cast.desk.letter()
    version = cast.newest()
    digest, barrier = covered(version).digest, Barrier(2)
    told: list[str] = []

    def decide(decision: Callable[..., Any], by: By) -> None:
        barrier.wait()
        try:
            decision(version, by, covered_digest=digest)
            told.append("done")
        except ContentStale as why:
            told.append(str(why))
        finally:
            connections.close_all()

    threads = [
        Thread(target=decide, args=(cast.approve, cast.anna)),
        Thread(target=decide, args=(getattr(cast, other), cast.bert)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len([one for one in told if one == "done"]) == 1
    assert any("meanwhile" in one for one in told)
    assert Approval.objects.count() == (cast.desk.step(opened).state == "ready")
    assert (
        Entry.objects.filter(
            kind__in=["content_approved", "content_rejected"], subject_kind="content"
        ).count()
        == 1
    )
    verified()


# Who may


def test_neither_author_nor_requester_approves(cast: Cast) -> None:
    cast.desk.letter()
    cast.desk.propose(cast.anna, author=email(cast.bert), text="Bert's, brought by Anna.")
    version = cast.newest()

    for by, why in ((cast.anna, "You asked for it"), (cast.bert, "You wrote it")):
        assert may_not_approve(version, by.person_id).startswith(why)
        with pytest.raises(NotEligible, match=why):
            cast.approve(version, by)

    assert may_not_approve(version, cast.carl.person_id) == ""
    assert cast.approve(version, cast.carl).approved_count == 1


def test_who_asked_a_model_to_write_it_does_not_approve_it(cast: Cast) -> None:
    cast.desk.propose(cast.anna, kind=AuthorKind.MODEL, author="draft-writer-2", text="Regenerated.")

    with pytest.raises(NotEligible, match="You asked for it"):
        cast.approve(cast.newest(), cast.anna)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN, None], ids=str)
def test_only_owners_of_the_team_approve_or_reject(cast: Cast, role: Role | None) -> None:
    cast.desk.letter()
    who = member(cast.desk, "Otto", role or Role.OWNER)
    if role is None:
        set_roles(Person.objects.get(pk=who.person_id), cast.desk.team, [])
    version = cast.newest()

    for decide in (cast.approve, cast.reject):
        with pytest.raises(NotEligible, match="the role owner"):
            decide(version, who)


def test_an_automation_never_approves(cast: Cast) -> None:
    cast.desk.letter()

    with pytest.raises(NotEligible, match="Only a person approves"):
        cast.approve(cast.newest(), AUTOMATION)


def test_what_somebody_recorded_is_left_out_of_their_approval_and_named(cast: Cast) -> None:
    mine = cast.desk.letter(by=cast.anna, author_kind=AuthorKind.AUTOMATION, author="importer")
    cast.desk.letter(fields=None, version=1)
    version = cast.newest()
    assert version.requested_by_person_id == cast.anna.person_id
    cast.propose("Bert's.", cast.bert)
    version = cast.newest()
    assert left_out(version, covered(version).steps, cast.anna.person_id) == {  # type: ignore[arg-type]
        cast.desk.step(mine).pk: "recorded it"
    }

    made = cast.approve(version, cast.anna)

    assert (made.approved_count, [one.operation_id for one in made.left_out]) == (1, [mine.id])
    assert cast.desk.step(mine).state == "waiting"
    assert cast.approve(cast.newest(), cast.carl).approved_count == 1
    assert cast.desk.step(mine).state == "ready"
    verified()


def test_where_everything_is_left_out_nothing_is_approved(cast: Cast) -> None:
    cast.desk.letter(by=cast.anna, author_kind=AuthorKind.AUTOMATION, author="importer")
    cast.propose("Bert's.", cast.bert)

    with pytest.raises(NotEligible, match="needs somebody else"):
        cast.approve(cast.newest(), cast.anna)

    assert (cast.newest().state, Approval.objects.count()) == (VersionState.PROPOSED, 0)


# Good for a time, and for one request


def test_an_approval_that_came_to_its_end_is_asked_for_again(cast: Cast) -> None:
    opened = cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    digest = cast.desk.step(opened).request_digest
    with connection.cursor() as cursor:  # three days later
        cursor.execute("UPDATE ledger_step SET approved_until = now(), send_until = now(), act_at = now()")

    assert claim_sends(9, worker="test") == []
    cast.desk.sweep()

    assert (cast.desk.step(opened).state, hold_of(opened).reason) == ("waiting", "approval_needed")
    cast.approve(cast.newest(), cast.bert)
    step = cast.desk.step(opened)
    assert (step.state, step.request_digest, step.revision) == ("ready", digest, 1)
    assert [one.void_reason for one in ApprovedRequest.objects.order_by("pk")] == ["it was approved anew", ""]
    assert len(claim_sends(9, worker="test")) == 1


def test_changing_back_needs_another_approval(cast: Cast) -> None:
    opened = cast.desk.letter(author_kind=AuthorKind.PERSON, author=email(cast.carl))
    cast.approve(cast.newest(), cast.anna)
    approved = cast.desk.step(opened).approved_digest
    cast.propose("Two.", cast.bert)
    cast.propose(LETTER["text"], cast.bert)

    step = cast.desk.step(opened)
    assert (step.revision, step.state, step.approved_digest) == (3, "waiting", None)
    assert covered(cast.newest()).steps[0].content_digest == approved  # the very same request
    assert ApprovedRequest.objects.filter(voided_at=None).count() == 0


# Rejecting


def test_what_is_rejected_returns_to_the_approved_version_or_is_cancelled(cast: Cast) -> None:
    back, away = cast.desk.letter(), cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    cast.propose("Two.", cast.anna)

    made = cast.reject(cast.newest(), cast.bert, back, reason="Too short.")

    assert (made.returned_count, made.approved_again_count, made.cancelled_count) == (1, 1, 1)
    step = cast.desk.step(back)
    assert (step.revision, step.content_number, step.state) == (3, 1, "ready")
    live = ApprovedRequest.objects.get(step=step, voided_at=None)
    assert (live.revision, live.approval.approved_by_id) == (3, cast.bert.person_id)
    assert cast.desk.operation(away).state == "cancelled"
    rejected = cast.newest()
    assert (rejected.state, rejected.reason) == (VersionState.REJECTED, "Too short.")
    verified()


def test_who_may_not_approve_the_old_text_returns_it_to_be_approved_again(cast: Cast) -> None:
    opened = cast.desk.letter(author_kind=AuthorKind.PERSON, author=email(cast.bert))
    cast.approve(cast.newest(), cast.anna)
    cast.propose("Two.", cast.anna)

    made = cast.reject(cast.newest(), cast.bert, opened)

    assert (made.returned_count, made.approved_again_count) == (1, 0)
    assert (cast.desk.step(opened).content_number, hold_of(opened).reason) == (1, "approval_needed")
    verified()


def test_a_first_version_that_is_rejected_waits_for_the_next_or_is_cancelled(cast: Cast) -> None:
    opened = cast.desk.letter()
    version = cast.newest()
    with pytest.raises(Refused, match="No other version is approved"):
        cast.reject(version, cast.anna, opened)
    with pytest.raises(Refused, match="Write the reason"):
        cast.reject(version, cast.anna, reason=" ")

    cast.reject(version, cast.anna)

    assert cast.desk.operation(opened).state == "cancelled"
    later = cast.desk.letter(fields=None, version=1)
    with pytest.raises(ContentStale, match="was rejected"):
        cast.approve(cast.newest(), cast.bert)
    cast.propose("Two.", cast.bert)
    assert cast.desk.step(later).content_number == 2
    verified()


def test_what_does_not_wait_for_a_version_is_not_returned(cast: Cast) -> None:
    cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    cast.propose("Two.")
    other = cast.desk.open()

    with pytest.raises(Refused, match="don’t wait"):
        cast.reject(cast.newest(), cast.bert, other)


def test_an_approved_version_stays_when_what_came_later_is_rejected(cast: Cast) -> None:
    cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    later = cast.desk.letter(fields=None, version=1)

    made = cast.reject(cast.newest(), cast.bert)

    assert (made.cancelled_count, cast.newest().state) == (1, VersionState.APPROVED)
    assert cast.desk.operation(later).state == "cancelled"
    verified()


# Revisions


def refused_by_crm(desk: Desk) -> Opened:
    opened = desk.open()
    desk.sandbox.script("invalid", 1, method="POST")
    desk.send()
    return opened


def answer(opened: Opened, by: By, answer: Answer = Answer.REVISE, **more: Any) -> None:
    hold = hold_of(opened)
    settle_hold(hold.pk, Decision(answer, "They want another queue.", hold.version, **more), by)


def test_a_revision_is_approved_by_a_second_person(cast: Cast) -> None:
    opened = refused_by_crm(cast.desk)

    answer(opened, cast.anna, params={"queue": "launch-phone"})

    step = cast.desk.step(opened)
    assert (step.revision, step.state, hold_of(opened).reason) == (2, "waiting", "approval_needed")
    (waiting,) = approvals_waiting([cast.desk.team.pk]).revisions
    assert (waiting.step_id, waiting.revision, waiting.author) == (step.pk, 2, cast.anna.actor)
    assert may_not_approve_revision(step.pk, cast.anna.person_id).startswith("You changed its request")
    with pytest.raises(NotEligible, match="You changed its request"):
        cast.approve_revision(opened, cast.anna)
    cast.approve_revision(opened, cast.bert)
    cast.desk.hurry()
    cast.desk.send()

    keys = (
        StepRequest.objects.filter(step=step).order_by("revision").values_list("idempotency_key", flat=True)
    )
    assert len(set(keys)) == 2
    assert b"launch-phone" in bytes(StepRequest.objects.get(step=step, revision=2).body)
    assert Revision.objects.get().params == '{"queue":"launch-phone"}'
    assert cast.desk.step(opened).state == "confirmed"
    verified()


def test_of_two_approvals_of_a_revision_the_second_is_told_who_was_first(cast: Cast) -> None:
    opened = refused_by_crm(cast.desk)
    answer(opened, cast.anna)
    step = cast.desk.step(opened)
    shown = covered_revision(step.pk)
    assert shown is not None
    cast.approve_revision(opened, cast.bert)

    with pytest.raises(ContentStale, match="approved by Bert"):
        settle_revision_approval(step.pk, 2, covered_digest=shown.digest, by=cast.carl)


def test_a_revision_that_changed_meanwhile_is_not_approved(cast: Cast) -> None:
    opened = refused_by_crm(cast.desk)
    answer(opened, cast.anna)
    step = cast.desk.step(opened)

    for digest, revision in (("0" * 64, 2), (covered_revision(step.pk).digest, 1)):  # type: ignore[union-attr]
        with pytest.raises(ContentStale, match="changed"):
            settle_revision_approval(step.pk, revision, covered_digest=digest, by=cast.bert)

    assert Approval.objects.count() == 0


BAD_REVISIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no such field": ({"params": {"colour": "red"}}, "params.colour"),
    "a required field taken away": ({"params": {"queue": None}}, "params.queue"),
    "not a date": ({"params": {"due_date": "soon"}}, "params.due_date"),
    "content that does not exist": ({"content": ("letter", 1)}, "content.content_id"),
}


@pytest.mark.parametrize(("given", "field"), BAD_REVISIONS.values(), ids=BAD_REVISIONS.keys())
def test_what_cant_be_sent_is_no_revision(cast: Cast, given: dict[str, Any], field: str) -> None:
    opened = refused_by_crm(cast.desk)

    with pytest.raises(Refused) as why:
        answer(opened, cast.anna, **given)

    assert why.value.field == field
    assert (cast.desk.step(opened).revision, Revision.objects.count()) == (1, 0)


def test_what_revises_belongs_to_that_answer(cast: Cast) -> None:
    opened = refused_by_crm(cast.desk)

    with pytest.raises(Refused, match="make a revision"):
        answer(opened, cast.anna, Answer.SAME_AGAIN, params={"queue": "x"})


def test_content_of_another_kind_is_not_shown(cast: Cast) -> None:
    opened = refused_by_crm(cast.desk)
    cast.propose("One.")

    with pytest.raises(Refused, match="belongs to workflow campaign_letter"):
        answer(opened, cast.anna, content=("spring-launch:letter", 1))


def test_missing_content_is_supplied_by_a_revision(cast: Cast) -> None:
    taken = open_intended(
        cast.desk.team.pk, [Wanted(f"w:{uuid4()}", "campaign_letter", dict(LETTER_PARAMS))], AUTOMATION
    )[0]
    assert taken.opened is not None
    opened = taken.opened
    assert hold_of(opened).reason == "data_missing"
    with pytest.raises(Refused, match="still lacks content"):
        answer(opened, cast.anna)
    cast.propose("One.", cast.bert)

    answer(opened, cast.anna, content=("spring-launch:letter", 1))

    step = cast.desk.step(opened)
    assert (step.revision, step.content_number, hold_of(opened).reason) == (2, 1, "approval_needed")
    for by, why in ((cast.anna, "changed its request"), (cast.bert, "wrote it")):
        with pytest.raises(NotEligible, match=why):
            cast.approve_revision(opened, by)
    assert cast.approve_revision(opened, cast.carl).approved_count == 1
    verified()


def test_a_revision_of_what_may_have_happened_is_refused(cast: Cast) -> None:
    opened = cast.desk.open()
    cast.desk.sandbox.script("error_after_acting", 1, method="POST")
    turn_recovery(on=False)
    cast.desk.send()
    assert hold_of(opened).reason == "outcome_unknown"

    with pytest.raises(Refused, match="not an answer"):
        answer(opened, cast.anna)
    answer(opened, cast.anna, Answer.ABSENT_REVISE, checked_how="Asked them.")

    assert (cast.desk.step(opened).revision, hold_of(opened).reason) == (2, "approval_needed")
    verified()


def test_a_stale_answer_revises_nothing(cast: Cast) -> None:
    opened = refused_by_crm(cast.desk)
    hold = hold_of(opened)

    with pytest.raises(Stale):
        settle_hold(hold.pk, Decision(Answer.REVISE, "why", hold.version + 1), cast.anna)


# What verify_ledger finds


@pytest.mark.parametrize(
    ("tampering", "why"),
    [
        ("UPDATE ledger_contentversion SET body = replace(body, 'We', 'You')", "version 1 differs"),
        ("UPDATE ledger_contentversion SET state = 'superseded'", "version 1 differs"),
        ("DELETE FROM ledger_contentversion", "version 1 differs"),
        ("UPDATE ledger_step SET approved_digest = 'x'", "rows differ|the approval of step 1"),
        ("UPDATE ledger_approvedrequest SET request_digest = 'x'", "the approval of step 1, revision 1"),
        ("UPDATE ledger_approvedrequest SET voided_at = now(), void_reason = 'x'", "the approval of step 1"),
        ("UPDATE ledger_steprequest SET content_digest = 'x'", "the approval of step 1"),
    ],
)
def test_a_tampered_approval_is_found(
    cast: Cast, database_urls: Any, capsys: pytest.CaptureFixture[str], tampering: str, why: str
) -> None:
    cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    verified()
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(tampering)

    with pytest.raises(CommandError):
        verified()

    assert re.search(why, capsys.readouterr().err)


def test_a_hold_that_leads_to_an_approval_can_still_be_ended(cast: Cast) -> None:
    opened = cast.desk.letter()

    answer(opened, cast.anna, Answer.END_FAILED)

    assert (cast.desk.operation(opened).state, Hold.objects.filter(closed_at=None).count()) == (
        "cancelled",
        0,
    )
    assert covered(cast.newest()).steps == []
