"""Proposed answers: an operator’s or a model’s thought that decides nothing until somebody who may settle accepts it."""

from __future__ import annotations

import html as markup
import json
import re
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from people import client_of, person
from scenes import Scenes, hold_path, path_of

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Membership, Person
from opsledger.accounts.roles import Role
from opsledger.journal.models import Entry
from opsledger.ledger.actions.propose import Thought, open_proposal
from opsledger.ledger.actions.settle import Decision
from opsledger.ledger.approvals import Asked, barred
from opsledger.ledger.models import Evidence, Hold, Operation, Proposal, Revision, Step
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind
from tests.desk import AUTOMATION


@pytest.fixture
def omar(scenes: Scenes) -> Person:
    return scenes.member("Omar", Role.OPERATOR)


def page_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return markup.unescape(response.content.decode())


def propose(client: Client, hold: Hold, answer: str, **data: str) -> Any:
    fields = {"version": str(hold.version), "answer": answer, "reason": "Their log names it.", **data}
    return client.post(hold_path(hold, "propose"), fields)


def happened(client: Client, hold: Hold, reference: str = "T-123", **data: str) -> Any:
    return propose(client, hold, "happened", happened_as="confirmed", reference=reference, **data)


def path_to(proposal: Proposal, what: str) -> str:
    return f"/proposals/{public('prop', proposal.pk)}/{what}"


def accept(client: Client, proposal: Proposal, **data: str) -> Any:
    proposal.hold.refresh_from_db()
    return client.post(path_to(proposal, "accept"), {"version": str(proposal.hold.version), **data})


def answered(opened: Any) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in Entry.objects.filter(subject_id=opened.id, kind="answered")]


# Proposing


def test_a_proposal_is_kept_and_decides_nothing(scenes: Scenes, omar: Person) -> None:
    opened = scenes.expired()
    hold = scenes.hold(opened)
    evidence = Evidence.objects.filter(operation_id=opened.id).count()

    done = propose(client_of(omar), hold, "close")

    assert done.status_code == 303
    proposal = Proposal.objects.get()
    assert (proposal.answer, proposal.proposer, proposal.hold_version) == (
        "close_unknown", f"person:{omar.pk}", hold.version,
    )  # fmt: skip
    assert scenes.hold(opened).version == hold.version
    assert scenes.desk.step(opened).state == "unknown"
    assert Evidence.objects.filter(operation_id=opened.id).count() == evidence
    entry = Entry.objects.get(subject_id=opened.id, kind="answer_proposed")
    assert "Their log names it." not in entry.body + proposal.form + proposal.texts
    owner = client_of(scenes.owner)
    page = page_of(owner, path_of(opened))
    assert "Omar proposes: closed as never known" in page
    assert "Their log names it." in page
    assert "Proposal by Omar." in page_of(owner, "/")


def test_the_same_proposal_again_is_the_first_and_another_takes_its_place(
    scenes: Scenes, omar: Person
) -> None:
    hold, client = scenes.hold(scenes.expired()), client_of(omar)
    propose(client, hold, "close")
    propose(client, hold, "close")
    assert Proposal.objects.count() == 1

    happened(client, hold)

    first, second = Proposal.objects.order_by("made_at")
    assert (first.ended_how, first.ended_by) == ("replaced", f"person:{omar.pk}")
    assert (second.answer, second.ended_at) == ("happened", None)


def test_a_proposal_lacks_nothing_that_the_answer_needs(scenes: Scenes, omar: Person) -> None:
    hold, client = scenes.hold(scenes.expired()), client_of(omar)

    silent = propose(client, hold, "close", reason=" ")
    nothing = happened(client, hold, "")
    stale = propose(client, hold, "close", version="7")

    assert (silent.status_code, nothing.status_code, stale.status_code) == (422, 422, 409)
    assert "Write the reason" in silent.content.decode()
    assert not Proposal.objects.exists()


def test_the_table_refuses_a_second_open_proposal_and_an_end_without_a_word(
    scenes: Scenes, omar: Person
) -> None:
    propose(client_of(omar), scenes.hold(scenes.expired()), "close")
    row = Proposal.objects.get()
    for changes in ({"ended_how": "accepted"}, {"answer": "happened"}):
        with pytest.raises((IntegrityError, Exception)), transaction.atomic():
            Proposal.objects.filter(pk=row.pk).update(**changes)
    row.pk = None
    with pytest.raises(IntegrityError, match="one_open_proposal_per_proposer_and_hold"), transaction.atomic():
        row.save(force_insert=True)


# Accepting


def test_what_accepting_brings_about_is_said_before_the_click(scenes: Scenes, omar: Person) -> None:
    opened = scenes.expired()
    propose(client_of(omar), scenes.hold(opened), "close")

    page = page_of(client_of(scenes.owner), path_of(opened))
    assert "If you accept: Step 1 stays unknown, counted apart for good;" in page
    assert "If you accept" not in page_of(client_of(omar), path_of(opened))


def test_accepting_settles_with_the_values_and_the_journal_names_both(scenes: Scenes, omar: Person) -> None:
    opened = scenes.expired()
    propose(client_of(omar), scenes.hold(opened), "close", keep="2")

    done = accept(client_of(scenes.owner), Proposal.objects.get())

    assert done.status_code == 303
    (entry,) = answered(opened)
    assert (entry["answer"], entry["proposed_by"]) == ("close_unknown", f"person:{omar.pk}")
    assert entry["proposal_reason"]["text"]
    assert Entry.objects.get(subject_id=opened.id, kind="answered").actor == f"person:{scenes.owner.pk}"
    first, second = Step.objects.filter(operation_id=opened.id).order_by("number")
    assert (first.never_known, second.state != "cancelled") == (True, True)
    row = Proposal.objects.get()
    assert (row.ended_how, row.ended_by) == ("accepted", f"person:{scenes.owner.pk}")
    assert "Omar" in page_of(client_of(scenes.owner), path_of(opened))


def test_a_reference_is_read_again_and_what_differs_is_shown_in_the_form(
    scenes: Scenes, omar: Person
) -> None:
    opened = scenes.unknown()
    happened(client_of(omar), scenes.hold(opened), "T-404")

    again = accept(client_of(scenes.owner), Proposal.objects.get())

    page = markup.unescape(again.content.decode())
    assert again.status_code == 422
    assert 'value="T-404"' in page
    assert 'name="accept_difference"' in page
    assert scenes.desk.step(opened).state == "unknown"
    assert Proposal.objects.get().ended_at is None


def test_one_that_was_made_on_an_older_state_can_not_be_accepted(scenes: Scenes, omar: Person) -> None:
    opened = scenes.expired()
    propose(client_of(omar), scenes.hold(opened), "close")
    Hold.objects.filter(operation_id=opened.id).update(version=5)
    owner, proposal = client_of(scenes.owner), Proposal.objects.get()

    page = page_of(owner, path_of(opened))
    done = accept(owner, proposal)

    assert "Made on an older state of this hold" in page
    assert path_to(proposal, "accept") not in page
    assert done.status_code == 422
    assert "made on an older state" in markup.unescape(done.content.decode())
    assert answered(opened) == []
    filled = page_of(owner, f"{path_of(opened)}?proposal={public('prop', proposal.pk)}")
    assert re.search(r'name="answer" value="close"[^>]* checked', filled)
    assert "Their log names it.</textarea>" in filled


def test_a_form_read_before_the_hold_changed_accepts_nothing(scenes: Scenes, omar: Person) -> None:
    opened = scenes.expired()
    propose(client_of(omar), scenes.hold(opened), "close")

    done = client_of(scenes.owner).post(path_to(Proposal.objects.get(), "accept"), {"version": "9"})

    assert done.status_code == 409
    assert answered(opened) == []


def test_a_proposal_ends_with_its_hold_and_the_neighbours_stays(scenes: Scenes, omar: Person) -> None:
    opened, neighbour, client = scenes.expired(), scenes.expired(), client_of(omar)
    propose(client, scenes.hold(opened), "close")
    propose(client, scenes.hold(neighbour), "close")

    scenes.settle(opened, Answer.HAPPENED, reference="T-7")

    ended = {str(row.hold.operation_id): row.ended_how for row in Proposal.objects.select_related("hold")}
    assert ended == {str(opened.id): "hold_ended", str(neighbour.id): ""}


def test_neither_who_proposed_nor_who_accepted_a_changed_request_may_approve_it(scenes: Scenes) -> None:
    wanda = scenes.member("Wanda", Role.OWNER)
    opened = scenes.rejected()
    propose(client_of(wanda), scenes.hold(opened), "revise", **{"params.queue": "another-queue"})

    done = accept(client_of(scenes.owner), Proposal.objects.get())

    assert done.status_code == 303
    revision = Revision.objects.get()
    assert (revision.author, revision.author_person_id) == (f"person:{scenes.owner.pk}", wanda.pk)
    step = scenes.desk.step(opened)
    asked = Asked(scenes.desk.team.pk, opened.id, step.pk, None, None)
    assert barred([asked])[step.pk].keys() == {wanda.pk, scenes.owner.pk}


# Setting aside


def test_a_proposal_is_dismissed_with_a_reason_and_taken_back_without(scenes: Scenes, omar: Person) -> None:
    opened = scenes.expired()
    client, owner = client_of(omar), client_of(scenes.owner)
    propose(client, scenes.hold(opened), "close")
    first = Proposal.objects.get()

    silent = owner.post(path_to(first, "dismiss"), {"reason": " "})
    dismissed = owner.post(path_to(first, "dismiss"), {"reason": "They will answer today."})
    propose(client, scenes.hold(opened), "close")
    back = client.post(path_to(Proposal.objects.get(ended_at=None), "dismiss"))

    assert silent.status_code == 422
    assert "whoever proposed it reads it" in markup.unescape(silent.content.decode())
    assert (dismissed.status_code, back.status_code) == (303, 303)
    assert [row.ended_how for row in Proposal.objects.order_by("made_at")] == ["dismissed", "withdrawn"]
    page = page_of(client, path_of(opened))
    assert "They will answer today." in page
    assert "dismissed the proposal: closed as never known" in page
    assert scenes.desk.step(opened).state == "unknown"


# Models


def test_a_models_proposal_is_named_as_one_and_waits_for_a_person(scenes: Scenes) -> None:
    opened = scenes.expired()
    hold = scenes.hold(opened)
    decision = Decision(Answer.HAPPENED, "The log line reads so.", hold.version, reference="T-9")

    open_proposal(hold.pk, decision, AUTOMATION, Thought(AuthorKind.MODEL, "log-reader-1"))

    page = page_of(client_of(scenes.owner), path_of(opened))
    assert "A model’s proposal (log-reader-1). It is no evidence: check it yourself." in page
    assert Operation.objects.get(pk=opened.id).state == "held"
    assert not Evidence.objects.filter(operation_id=opened.id, kind="statement").exists()


def test_other_teams_see_and_decide_nothing_of_it(scenes: Scenes, omar: Person) -> None:
    rita = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=rita)
    propose(client_of(omar), scenes.hold(scenes.expired()), "close")
    proposal = Proposal.objects.get()

    for what in ("accept", "dismiss"):
        assert (
            client_of(rita).post(path_to(proposal, what), {"version": "1", "reason": "x"}).status_code == 404
        )
    assert Proposal.objects.get().ended_at is None
    assert not Membership.objects.filter(person=rita, team=scenes.desk.team).exists()


def test_whoever_accepted_a_changed_request_is_not_shown_it_as_theirs_to_approve(scenes: Scenes) -> None:
    wanda, third = scenes.member("Wanda", Role.OWNER), scenes.member("Third", Role.OWNER)
    opened = scenes.rejected()
    propose(client_of(wanda), scenes.hold(opened), "revise", **{"params.queue": "another-queue"})
    accept(client_of(scenes.owner), Proposal.objects.get())

    hold = public("hold", scenes.hold(opened).pk)
    shown = {one: hold in page_of(client_of(one), "/?view=awaiting") for one in (wanda, scenes.owner, third)}
    assert shown == {wanda: False, scenes.owner: False, third: True}
