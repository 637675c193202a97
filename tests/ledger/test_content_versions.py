"""Content versions: immutable, numbered, with an author; and the operations that show the newest one."""

from __future__ import annotations

from typing import Any

import pytest
from content_cast import AUTOMATION, Cast, hold_of, make_cast
from django.db import DatabaseError, connection, transaction

from opsledger.accounts.actions import deactivate_person
from opsledger.accounts.models import Person
from opsledger.ledger.actions import content as content_actions
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.content import BadContent, Proposal, open_content_version, open_version_here
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.intake import Verdict, Wanted, WantedContent, open_intended
from opsledger.ledger.models import (
    ApprovedRequest,
    Content,
    ContentVersion,
    Definition,
    Hold,
    Operation,
    Revision,
)
from opsledger.ledger.queries.content import approvals_waiting, versions_of
from opsledger.ledger.queries.requests import compared, sent_or_approved_before, shown_request
from opsledger.rules.content import AuthorKind, VersionState
from tests.desk import LETTER, LETTER_PARAMS, Desk

LETTER_ID = "spring-launch:letter"


@pytest.fixture
def cast(desk: Desk) -> Cast:
    return make_cast(desk)


def proposal(**changes: Any) -> Proposal:
    words: dict[str, Any] = {
        "content_id": LETTER_ID,
        "workflow": "campaign_letter",
        "fields": LETTER,
        "author_kind": AuthorKind.MODEL,
        "author": "draft-writer-2",
    }
    return Proposal(**(words | changes))


def wanted(operation_id: str, **content: Any) -> Wanted:
    shown = WantedContent(**({"content_id": LETTER_ID} | content))
    return Wanted(operation_id, "campaign_letter", dict(LETTER_PARAMS), content=shown)


# Proposals


def test_versions_are_numbered_and_a_newer_proposal_takes_the_place_of_an_older(cast: Cast) -> None:
    first = cast.propose("One.")
    second = cast.propose("Two.", cast.bert)

    assert (first.number, second.number) == (1, 2)
    states = {
        one.number: (one.state, one.origin, one.author) for one in versions_of(cast.desk.team.pk, LETTER_ID)
    }
    assert states == {
        2: (VersionState.PROPOSED, "edit of version 1", "Bert"),
        1: (VersionState.SUPERSEDED, "written by hand", "Anna"),
    }


def test_a_persons_own_text_again_is_the_same_version(cast: Cast) -> None:
    first = cast.propose("One.")

    again, others = cast.propose("One."), cast.propose("One.", cast.bert)

    assert (again.id, again.new) == (first.id, False)
    assert (others.number, others.new) == (2, True)


@pytest.mark.parametrize("kind", [AuthorKind.MODEL, AuthorKind.AUTOMATION], ids=lambda kind: kind.value)
def test_what_a_model_or_an_automation_wrote_is_always_a_new_version(cast: Cast, kind: AuthorKind) -> None:
    texts = [
        open_content_version(cast.desk.team.pk, proposal(author_kind=kind), AUTOMATION) for _ in range(2)
    ]

    assert [one.number for one in texts] == [1, 2]
    assert texts[1].state is VersionState.PROPOSED


def test_a_client_key_makes_it_the_same_again(cast: Cast) -> None:
    team = cast.desk.team.pk
    first = open_content_version(team, proposal(client_key="run-1"), AUTOMATION)
    later = open_content_version(team, proposal(client_key="run-2"), AUTOMATION)

    again = open_content_version(team, proposal(client_key="run-1"), AUTOMATION)

    assert (again.id, again.new, later.number) == (first.id, False, 2)


# What is not as it came the first time under a key, and what the refusal names.
ANOTHER: dict[str, tuple[dict[str, Any], str]] = {
    "another text": ({"fields": LETTER | {"text": "?"}}, "something else: fields."),
    "another author": ({"author": "draft-writer-3"}, "something else: author."),
    "another kind of author": ({"author_kind": AuthorKind.AUTOMATION}, "something else: author."),
    "another origin": ({"origin": "from the archive"}, "something else: origin."),
    "all of it": (
        {"fields": LETTER | {"text": "?"}, "author": "other", "origin": "?"},
        "something else: fields, author, origin.",
    ),
}


@pytest.mark.parametrize(("changed", "why"), ANOTHER.values(), ids=ANOTHER.keys())
def test_a_client_key_does_not_stand_for_another_proposal(
    cast: Cast, changed: dict[str, Any], why: str
) -> None:
    first = open_content_version(cast.desk.team.pk, proposal(client_key="run-1"), AUTOMATION)

    with pytest.raises(BadContent, match=why) as refused:
        open_content_version(cast.desk.team.pk, proposal(client_key="run-1", **changed), AUTOMATION)

    assert [name for name, _ in refused.value.problems] == ["client_key"]
    assert [one.id for one in versions_of(cast.desk.team.pk, LETTER_ID)] == [first.id]


def test_a_client_key_is_its_requesters_own(cast: Cast) -> None:
    """Else a second requester would be given the first one's version, and could approve what they asked for."""
    by = {
        who.actor: who
        for who in (
            AUTOMATION,
            cast.anna,
            cast.bert,
            By("token:00000000-0000-0000-0000-000000000002", "another automation"),
        )
    }

    made = [open_content_version(cast.desk.team.pk, proposal(client_key="run-1"), one) for one in by.values()]
    again = [
        open_content_version(cast.desk.team.pk, proposal(client_key="run-1"), one) for one in by.values()
    ]

    assert [one.number for one in made] == [1, 2, 3, 4]
    assert [(one.id, one.new) for one in again] == [(one.id, False) for one in made]
    requesters = {one.number: one.requested_by for one in versions_of(cast.desk.team.pk, LETTER_ID)}
    assert requesters == dict(enumerate(by, 1))


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "another locked value": ({"fields": LETTER | {"sender": "me"}}, "fields.sender", "is locked"),
    "a missing field": (
        {"fields": {"text": "?", "sender": LETTER["sender"]}},
        "fields.subject",
        "is missing",
    ),
    "a field too many": ({"fields": LETTER | {"body": "?"}}, "fields.body", "is not a known field"),
    "no such workflow": ({"workflow": "letters"}, "workflow", "There is no workflow"),
    "a workflow without content": ({"workflow": "campaign_follow_up"}, "workflow", "has no content"),
    "an address as id": ({"content_id": "a@customers.example"}, "content_id", "e-mail address"),
    "no author": ({"author": " "}, "author.name", "1 to 200 characters"),
    "a stranger": (
        {"author_kind": AuthorKind.PERSON, "author": "x@y.example"},
        "author.name",
        "active person of this team",
    ),
    "a long origin": ({"origin": "x" * 401}, "origin", "at most 400"),
}


@pytest.mark.parametrize(("changes", "field", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_a_proposal_that_cant_be_taken_names_what_to_mend(
    cast: Cast, changes: dict[str, Any], field: str, why: str
) -> None:
    cast.propose("One.")

    with pytest.raises(BadContent) as refused:
        open_content_version(cast.desk.team.pk, proposal(**changes), AUTOMATION)

    assert [name for name, _ in refused.value.problems] == [field]
    assert why in str(refused.value)
    assert ContentVersion.objects.count() == 1


def test_a_content_belongs_to_one_workflow(cast: Cast) -> None:
    cast.propose("One.")
    other = Definition.objects.get(team=cast.desk.team, kind="workflow", slug="campaign_follow_up")
    Content.objects.update(workflow=other)

    with pytest.raises(BadContent, match="is another one"):
        cast.propose("Two.")


# Moving operations


def test_what_can_still_change_shows_the_newest_version(cast: Cast) -> None:
    opened = [cast.desk.letter() for _ in range(3)]
    cast.approve(cast.newest(), cast.anna)
    assert {cast.desk.step(one).state for one in opened} == {"ready"}

    second = cast.propose("Two.")

    assert second.moved_count == 3
    for one in opened:
        step = cast.desk.step(one)
        assert (step.revision, step.content_number, step.state) == (2, 2, "waiting")
        assert (step.request_digest, step.approved_digest) == (None, None)
        assert hold_of(one).reason == "approval_needed"
    assert Revision.objects.filter(kind="moved", content_number=2).count() == 3
    void = ApprovedRequest.objects.values_list("void_reason", flat=True).distinct()
    assert list(void) == ["its content is at version 2 now"]
    assert claim_sends(9, worker="test") == []


def test_what_is_in_flight_keeps_its_request(cast: Cast) -> None:
    opened = [cast.desk.letter() for _ in range(2)]
    cast.approve(cast.newest(), cast.anna)
    claimed = claim_sends(1, worker="test")

    moved = cast.propose("Two.")

    assert moved.moved_count == 1
    numbers = {one.id: cast.desk.step(one).content_number for one in opened}
    assert numbers[claimed[0].operation_id] == 1
    assert sorted(numbers.values()) == [1, 2]


def test_a_move_that_was_left_behind_is_gone_on_with(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_actions, "MOVE_BATCH", 2)
    opened = [cast.desk.letter() for _ in range(5)]
    with transaction.atomic(durable=True):  # and then the process dies
        made = proposal(author_kind=AuthorKind.AUTOMATION, fields=LETTER | {"text": "Two."})
        open_version_here(cast.desk.team.pk, made, AUTOMATION)
    assert {cast.desk.step(one).content_number for one in opened} == {1}

    swept = cast.desk.sweep()

    assert swept.moves == 5
    assert {cast.desk.step(one).content_number for one in opened} == {2}
    assert (Content.objects.get().moving, cast.desk.sweep().moves) == (False, 0)


# Recording operations with content


def test_an_operation_brings_its_content_or_names_a_version(cast: Cast) -> None:
    brought = open_intended(cast.desk.team.pk, [wanted("a", fields=LETTER)], AUTOMATION)[0]
    same = open_intended(cast.desk.team.pk, [wanted("b", fields=LETTER)], AUTOMATION)[0]
    named = open_intended(cast.desk.team.pk, [wanted("c", version=1)], AUTOMATION)[0]

    assert {one.verdict for one in (brought, same, named)} == {Verdict.RECORDED}
    assert ContentVersion.objects.count() == 1
    assert Operation.objects.filter(content__content_id=LETTER_ID).count() == 3
    assert set(Hold.objects.values_list("reason", flat=True)) == {"approval_needed"}


@pytest.mark.parametrize("again", [{"fields": LETTER}, {"version": 1}], ids=["brought", "named"])
def test_the_same_operation_again_changes_nothing_whatever_was_proposed_since(
    cast: Cast, again: dict[str, Any]
) -> None:
    first = open_intended(cast.desk.team.pk, [wanted("a", fields=LETTER)], AUTOMATION)[0]
    cast.propose("Two.")

    taken = open_intended(cast.desk.team.pk, [wanted("a", **again)], AUTOMATION)[0]

    assert (taken.verdict, taken.opened and taken.opened.id) == (
        Verdict.SAME,
        first.opened and first.opened.id,
    )
    assert ContentVersion.objects.count() == 2


def test_the_same_id_with_another_text_is_a_conflict_that_names_the_content(cast: Cast) -> None:
    open_intended(cast.desk.team.pk, [wanted("a", fields=LETTER)], AUTOMATION)
    plain = Wanted("a", "campaign_letter", dict(LETTER_PARAMS))

    other = open_intended(cast.desk.team.pk, [wanted("a", fields=LETTER | {"text": "?"}), plain], AUTOMATION)

    assert [(one.verdict, one.opened and one.opened.differs) for one in other] == [
        (Verdict.CONFLICT, ("content",))
    ] * 2
    assert ContentVersion.objects.count() == 1


def test_an_older_version_that_is_named_is_shown_as_the_newest(cast: Cast) -> None:
    cast.propose("One.")
    cast.propose("Two.")

    taken = open_intended(cast.desk.team.pk, [wanted("a", version=1)], AUTOMATION)[0]

    assert taken.opened is not None
    step = cast.desk.step(taken.opened)
    assert (step.content_number, step.approval_needed, step.state) == (2, True, "waiting")


BAD_CONTENT: dict[str, tuple[dict[str, Any], str]] = {
    "no such version": ({"version": 9}, "content.version"),
    "no such content": ({"content_id": "other", "version": 1}, "content.content_id"),
    "a missing field": ({"fields": {"text": "?"}}, "content.fields.subject"),
    "another locked value": ({"fields": LETTER | {"sender": "me"}}, "content.fields.sender"),
    "an address as id": ({"content_id": "a@b.example", "fields": LETTER}, "content.content_id"),
}


@pytest.mark.parametrize(("content", "field"), BAD_CONTENT.values(), ids=BAD_CONTENT.keys())
def test_content_that_cant_be_taken_spoils_no_other(cast: Cast, content: dict[str, Any], field: str) -> None:
    cast.propose("One.")

    bad, good = open_intended(cast.desk.team.pk, [wanted("a", **content), wanted("b", version=1)], AUTOMATION)

    assert (bad.verdict, good.verdict) == (Verdict.REFUSED, Verdict.RECORDED)
    assert field in [name for name, _ in bad.problems]


def test_text_that_is_brought_anew_moves_the_operations_before_it(cast: Cast) -> None:
    opened = cast.desk.letter(fields=LETTER)

    cast.desk.letter(fields=LETTER | {"text": "Two."})

    assert (cast.desk.step(opened).revision, cast.desk.step(opened).content_number) == (2, 2)


def test_an_operation_without_content_is_recorded_as_before(cast: Cast) -> None:
    opened = cast.desk.open()

    step = cast.desk.step(opened)
    assert (step.approval_needed, step.content_number, step.state) == (False, None, "ready")
    assert cast.desk.operation(opened).content_id is None


# Nobody who may approve


def test_where_nobody_may_approve_the_teams_fallback_owner_has_it_and_the_hold_says_so(cast: Cast) -> None:
    opened = cast.desk.letter()
    assert (hold_of(opened).owner_id, '"nobody_may_approve": false' in hold_of(opened).facts) == (None, True)
    for one in Person.objects.filter(display_name__in=["Bert", "Carl"]):
        deactivate_person(one)
    fallback = cast.desk.team.fallback_owner
    # two are left who may approve: one has written this, the other has asked for it
    cast.desk.propose(cast.anna, author=fallback.email, text="By both.")

    hold = hold_of(opened)
    assert hold.owner_id == fallback.pk
    assert '"nobody_may_approve": true' in hold.facts
    assert cast.desk.step(opened).state == "waiting"
    assert [one.nobody_may_approve for one in approvals_waiting([cast.desk.team.pk]).versions] == [True]


# What people see


def test_sensitive_fields_are_masked_wherever_they_stand(cast: Cast) -> None:
    opened = cast.desk.letter()
    version = cast.newest()
    values = {field.name: (field.value, field.masked) for field in version.fields}
    assert values["sender"] == (LETTER["sender"], False)
    assert values["text"] == ("••••", True)
    assert LETTER["text"] not in str(version)

    shown = shown_request(cast.desk.step(opened).pk)

    assert shown is not None
    assert LETTER["text"] not in str(shown)
    assert LETTER_PARAMS["email"] not in str(shown)
    assert dict(shown.fields)["subject"] == f"{LETTER['subject']}, {LETTER_PARAMS['company']}"
    revealed = shown_request(cast.desk.step(opened).pk, reveal=True)
    assert revealed is not None
    assert dict(revealed.fields)["text"] == LETTER["text"]


def test_two_requests_are_compared_line_by_line(cast: Cast) -> None:
    opened = cast.desk.letter()
    cast.approve(cast.newest(), cast.anna)
    made = proposal(fields=LETTER | {"subject": "Another subject"})
    open_content_version(cast.desk.team.pk, made, AUTOMATION)
    step_id = cast.desk.step(opened).pk

    before, after = sent_or_approved_before(step_id), shown_request(step_id)

    assert before is not None
    assert after is not None
    assert (before.content_number, after.content_number) == (1, 2)
    assert [line.label for line in compared(before, after) if not line.same] == ["subject"]


# What the database refuses


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_contentversion SET body = '{}'",
        "UPDATE ledger_contentversion SET digest = '\\x00'",
        "UPDATE ledger_contentversion SET author = 'me'",
        "UPDATE ledger_contentversion SET author_person_id = NULL",
        "UPDATE ledger_contentversion SET number = 7",
        "DELETE FROM ledger_contentversion",
        "UPDATE ledger_contentversion SET state = 'approved', decided_by = 'me', decided_at = now()",
        "UPDATE ledger_step SET approved_digest = 'x', approved_until = now()",
        "UPDATE ledger_step SET state = 'in_flight', act = 'lease', act_at = now()",
        "UPDATE ledger_step SET state = 'ready', act = 'send', act_at = now()",
        "UPDATE ledger_step SET request_digest = 'x'",
        "UPDATE ledger_step SET revision = 2, approval_needed = false",
    ],
)
def test_nothing_is_approved_or_sent_behind_the_journal(cast: Cast, statement: str) -> None:
    cast.desk.letter()

    with pytest.raises(DatabaseError):
        _run(statement)


def _run(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
