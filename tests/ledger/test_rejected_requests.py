"""A changed request that is rejected: back at an approved one by a tick, else its step is ended; nothing on a stale page."""

from __future__ import annotations

from dataclasses import replace
from threading import Barrier, Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from content_cast import AUTOMATION, Cast, hold_of, make_cast, member
from django.core.management import call_command
from django.db import connections

from opsledger.accounts.permissions import Role
from opsledger.engine.loading import read_files
from opsledger.journal.models import Entry, ErasableText
from opsledger.ledger.actions.approve import ContentStale, NotEligible, settle_revision_approval
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.interventions import settle_cancel
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.reject_request import RejectedRequest, settle_revision_rejection
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import (
    Approval,
    ApprovedRequest,
    Hold,
    Operation,
    Step,
    StepRequest,
)
from opsledger.ledger.queries import nav
from opsledger.ledger.queries.approvals import approvals_of, decided_lately, rejected_last
from opsledger.ledger.queries.content import approvals_waiting, covered_revision
from opsledger.local.postgres import Urls
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind
from opsledger.rules.definition_types import WorkflowDefinition
from tests.by_hand import replaced_by_hand
from tests.desk import DEFINITIONS, Desk

QUAY = "Alder Works, Quay Street"


@pytest.fixture
def cast(desk: Desk) -> Cast:
    return make_cast(desk)


def revise(opened: Opened, by: By, **params: Any) -> None:
    hold = hold_of(opened)
    settle_hold(hold.pk, Decision(Answer.REVISE, "They moved.", hold.version, params=params), by)


def refused(cast: Cast, opened: Opened) -> Opened:
    cast.desk.sandbox.script("invalid", 1, method="POST")
    cast.desk.send()
    assert hold_of(opened).reason == "rejected_by_destination"
    return opened


def changed_letter(cast: Cast) -> Opened:
    """Approved by Anna, sent, refused, changed by Carl."""
    opened = cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    refused(cast, opened)
    revise(opened, cast.carl, company=QUAY)
    return opened


def changed_task(cast: Cast) -> Opened:
    """Sent without an approval, refused, changed by Carl."""
    opened = refused(cast, cast.desk.open())
    revise(opened, cast.carl, queue="launch-phone")
    return opened


def reject(cast: Cast, opened: Opened, by: By, **changed: Any) -> RejectedRequest:
    step = cast.desk.step(opened)
    shown = covered_revision(step.pk)
    wanted: dict[str, Any] = {
        "covered_digest": shown.digest if shown else "0" * 64,
        "version": Operation.objects.get(pk=opened.id).version,
        "by": by,
        "reason": "The old address is right.",
    }
    revision = changed.pop("revision", step.revision)
    return settle_revision_rejection(step.pk, revision, **(wanted | changed))


def state(opened: Opened) -> list[Any]:
    return [
        *Step.objects.filter(operation_id=opened.id).values(),
        *Operation.objects.filter(pk=opened.id).values(),
        *Hold.objects.order_by("pk").values(),
        Approval.objects.count(),
        Entry.objects.count(),
        ErasableText.objects.count(),
    ]


def test_with_the_tick_it_goes_back_to_what_was_approved_under_a_new_key(cast: Cast) -> None:
    opened = changed_letter(cast)
    neighbour = cast.desk.letter(content_id="another/letter")
    before = state(neighbour)[:2]

    made = reject(cast, opened, cast.bert, returns=True)

    assert made == RejectedRequest(revision=2, returned_to=1, approved_again=True)
    step = cast.desk.step(opened)
    assert (step.revision, step.content_number, step.state) == (3, 1, "ready")
    first, third = StepRequest.objects.filter(step=step).order_by("revision")
    assert first.content_digest == third.content_digest == step.approved_digest
    assert first.idempotency_key != third.idempotency_key
    live = ApprovedRequest.objects.get(step=step, voided_at=None)
    assert (live.revision, live.approval.approved_by_id) == (3, cast.bert.person_id)
    cast.desk.send()
    assert cast.desk.step(opened).state == "accepted"
    assert state(neighbour)[:2] == before
    line = Entry.objects.get(kind="request_rejected", subject_id=opened.id)
    assert (line.actor, "The old address" in line.body) == (cast.bert.actor, False)
    told = rejected_last(opened.id, 1)
    assert told is not None
    assert (told.revision, told.returned_to, told.name, told.reason) == (
        2,
        1,
        "Bert",
        "The old address is right.",
    )
    call_command("verify_ledger")


def test_who_may_not_approve_what_it_returns_to_leaves_that_to_somebody_else(cast: Cast) -> None:
    """Carl changed the request, so he approves none of this step."""
    opened = changed_letter(cast)

    made = reject(cast, opened, cast.carl, returns=True)

    assert (made.returned_to, made.approved_again) == (1, False)
    assert (cast.desk.step(opened).revision, hold_of(opened).reason) == (3, "approval_needed")
    (waiting,) = approvals_waiting([cast.desk.team.pk]).versions
    assert waiting.operation_count == 1  # it is the approved version's again
    assert cast.approve(cast.newest(), cast.bert).approved_count == 1
    assert cast.desk.step(opened).state == "ready"
    call_command("verify_ledger")


def test_without_the_tick_the_step_is_ended_and_nothing_of_it_is_sent(cast: Cast) -> None:
    opened = changed_letter(cast)

    made = reject(cast, opened, cast.bert)

    assert (made.returned_to, made.approved_again) == (None, False)
    step = cast.desk.step(opened)
    assert (step.state, step.revision, cast.desk.operation(opened).state) == ("cancelled", 2, "cancelled")
    hold = Hold.objects.filter(operation_id=opened.id).latest("closed_at")
    assert (hold.closed_by, hold.answer) == (cast.bert.actor, "reject")
    cast.desk.hurry()
    cast.desk.send()
    assert StepRequest.objects.filter(step=step).count() == 1
    call_command("verify_ledger")


def test_what_was_never_approved_is_nothing_to_return_to(cast: Cast) -> None:
    opened = changed_task(cast)
    before = state(opened)

    with pytest.raises(Refused, match="No earlier request of this step is approved") as why:
        reject(cast, opened, cast.bert, returns=True)

    assert (why.value.field, state(opened)) == ("return", before)
    assert reject(cast, opened, cast.bert).returned_to is None
    assert cast.desk.step(opened).state == "cancelled"


def test_a_version_that_is_not_approved_any_more_is_nothing_to_return_to(
    cast: Cast, database_urls: Any
) -> None:
    opened = changed_letter(cast)
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute("UPDATE ledger_contentversion SET state = 'superseded'")

    with pytest.raises(Refused, match="No earlier request of this step is approved"):
        reject(cast, opened, cast.bert, returns=True)


def test_what_shows_another_text_by_now_is_decided_with_that(cast: Cast) -> None:
    opened = changed_letter(cast)
    cast.desk.propose(AUTOMATION, kind=AuthorKind.MODEL, author="draft-writer-2", text="Two.")

    with pytest.raises(ContentStale, match="does not wait for an approval of its own"):
        reject(cast, opened, cast.bert, returns=True)

    assert cast.reject(cast.newest(), cast.bert).cancelled_count == 1


def test_a_request_that_shows_no_content_returns_to_the_revision_that_was_approved(cast: Cast) -> None:
    opened = changed_task(cast)
    cast.approve_revision(opened, cast.bert)
    refused(cast, opened)
    revise(opened, cast.anna, queue="launch-mail")

    made = reject(cast, opened, cast.bert, returns=True)

    assert (made.returned_to, made.approved_again) == (2, True)
    step = cast.desk.step(opened)
    assert b"launch-phone" in bytes(StepRequest.objects.get(step=step, revision=4).body)
    row = Approval.objects.latest("approved_at")
    assert (row.step_id, row.revision, row.covered_count) == (step.pk, 4, 1)
    assert approvals_of(opened.id)[1].alone is True
    call_command("verify_ledger")


def test_what_returned_and_shows_no_content_is_approved_by_itself_and_counted(cast: Cast) -> None:
    opened = changed_task(cast)
    cast.approve_revision(opened, cast.bert)
    refused(cast, opened)
    revise(opened, cast.anna, queue="launch-mail")

    assert reject(cast, opened, cast.carl, returns=True).approved_again is False

    assert [one.revision for one in approvals_waiting([cast.desk.team.pk]).revisions] == [4]
    assert nav.counts([cast.desk.team.pk], cast.bert.person_id, approver=True)["approvals"] == 1
    with pytest.raises(Refused, match="is the approved request already"):
        reject(cast, opened, cast.bert, returns=True)
    assert cast.approve_revision(opened, cast.bert).approved_count == 1


# Decided lately


def one_request(cast: Cast) -> None:
    reject(cast, changed_letter(cast), cast.bert)


def one_request_that_returns(cast: Cast) -> None:
    reject(cast, changed_task_approved_before(cast), cast.bert, returns=True)


def changed_task_approved_before(cast: Cast) -> Opened:
    opened = changed_task(cast)
    cast.approve_revision(opened, cast.anna)
    refused(cast, opened)
    revise(opened, cast.carl, queue="launch-mail")
    return opened


def a_version(cast: Cast) -> None:
    cast.desk.letter()
    cast.reject(cast.newest(), cast.bert)


def what_came_to_wait_for_an_approved_version(cast: Cast) -> None:
    cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    cast.desk.letter()
    cast.reject(cast.newest(), cast.bert)


# Kind of rejection: what it is of, and how many requests it was made over.
REJECTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one request": (one_request, {"revision": 2, "count": 1}),
    "one request, back at the approved one": (one_request_that_returns, {"revision": 3, "count": 1}),
    "a version": (a_version, {"number": 1, "count": None}),
    "what waits for an approved version": (
        what_came_to_wait_for_an_approved_version,
        {"number": 1, "count": 1},
    ),
}


@pytest.mark.parametrize(("scene", "wanted"), REJECTIONS.values(), ids=REJECTIONS.keys())
def test_every_rejection_is_among_what_was_decided_lately(
    cast: Cast, scene: Any, wanted: dict[str, Any]
) -> None:
    scene(cast)

    told = [one for one in decided_lately([cast.desk.team.pk]) if one.state == "rejected"]

    assert [one.name for one in told] == ["Bert"]
    assert {name: getattr(told[0], name) for name in wanted} == wanted
    assert decided_lately([uuid4()]) == []  # another team


STALE: dict[str, tuple[dict[str, Any], str]] = {
    "another digest": ({"covered_digest": "0" * 64}, "request changed"),
    "another revision": ({"revision": 1}, "request changed"),
    "another version": ({"version": 1}, "operation changed"),
}


@pytest.mark.parametrize(("given", "why"), STALE.values(), ids=STALE.keys())
@pytest.mark.parametrize("returns", [True, False])
def test_a_stale_rejection_changes_nothing(
    cast: Cast, given: dict[str, Any], why: str, returns: bool
) -> None:
    opened = changed_letter(cast)
    before = state(opened)

    with pytest.raises(ContentStale, match=why):
        reject(cast, opened, cast.bert, returns=returns, **given)

    assert state(opened) == before


def test_what_was_decided_meanwhile_is_told_with_its_name(cast: Cast) -> None:
    opened, other = changed_letter(cast), changed_task(cast)
    digest = covered_revision(cast.desk.step(other).pk).digest  # type: ignore[union-attr]
    cast.approve_revision(opened, cast.anna)
    reject(cast, other, cast.bert)

    with pytest.raises(ContentStale, match="was approved by Anna meanwhile"):
        reject(cast, opened, cast.bert)
    with pytest.raises(ContentStale, match="was rejected by Bert meanwhile"):
        settle_revision_approval(cast.desk.step(other).pk, 2, covered_digest=digest, by=cast.anna)


@pytest.mark.parametrize("reason", ["", " \n", "x" * 4001], ids=["none", "blank", "too long"])
def test_a_rejection_says_why(cast: Cast, reason: str) -> None:
    opened = changed_letter(cast)

    with pytest.raises(Refused) as why:
        reject(cast, opened, cast.bert, reason=reason)

    assert why.value.field == "reason"
    assert hold_of(opened).reason == "approval_needed"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN], ids=str)
def test_only_owners_reject(cast: Cast, role: Role) -> None:
    opened, otto = changed_letter(cast), member(cast.desk, "Otto", role)
    before = state(opened)

    for who in (otto, AUTOMATION):
        with pytest.raises(NotEligible):
            reject(cast, opened, who)

    assert state(opened) == before


def test_what_another_operation_replaces_returns_to_nothing(cast: Cast, database_urls: Urls) -> None:
    opened = changed_letter(cast)
    other = cast.desk.letter(content_id="another/letter")
    replaced_by_hand(database_urls, other.id, opened.id)

    with pytest.raises(Refused, match="replaces this one"):
        reject(cast, opened, cast.bert, returns=True)

    assert reject(cast, opened, cast.bert).returned_to is None


def test_a_rejection_lets_no_later_step_of_a_replaced_operation_go_on(
    cast: Cast, database_urls: Urls
) -> None:
    goes_on = [
        replace(
            one,
            steps=(one.steps[0], *(replace(later, continues_after_failure=True) for later in one.steps[1:])),
        )
        for one in read_files([DEFINITIONS])
        if isinstance(one, WorkflowDefinition) and one.slug == "campaign_follow_up"
    ]
    load(cast.desk.team.pk, goes_on, actor="command:test")
    opened, alone = changed_task(cast), changed_task(cast)
    other = cast.desk.letter(content_id="another/letter")
    replaced_by_hand(database_urls, other.id, opened.id)

    reject(cast, opened, cast.bert)
    reject(cast, alone, cast.bert)

    assert cast.desk.step(opened, 2).state == "cancelled"
    assert cast.desk.step(alone, 2).state == "ready"


def test_what_was_cancelled_meanwhile_stays_cancelled(cast: Cast) -> None:
    opened = changed_letter(cast)
    version = Operation.objects.get(pk=opened.id).version
    settle_cancel(opened.id, "Called off.", cast.anna, version=version)

    with pytest.raises(ContentStale, match="does not wait"):
        reject(cast, opened, cast.bert, returns=True, version=version)


@pytest.mark.parametrize("returns", [True, False])
def test_of_an_approval_and_a_rejection_at_once_one_counts(cast: Cast, returns: bool) -> None:
    opened = changed_letter(cast)
    step, barrier, told = cast.desk.step(opened), Barrier(2), list[str]()
    digest = covered_revision(step.pk).digest  # type: ignore[union-attr]
    version = Operation.objects.get(pk=opened.id).version

    def run(decide: Any) -> None:
        barrier.wait()
        try:
            decide()
            told.append("done")
        except ContentStale as why:
            told.append(str(why))
        finally:
            connections.close_all()

    threads = [
        Thread(target=run, args=(one,))
        for one in (
            lambda: settle_revision_approval(step.pk, 2, covered_digest=digest, by=cast.anna),
            lambda: settle_revision_rejection(
                step.pk,
                2,
                covered_digest=digest,
                version=version,
                by=cast.bert,
                reason="No.",
                returns=returns,
            ),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert told.count("done") == 1
    assert sum("meanwhile" in one for one in told) == 1
    assert Entry.objects.filter(subject_id=opened.id, kind__in=["approved", "request_rejected"]).count() == 2
    call_command("verify_ledger")
