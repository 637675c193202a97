"""Answers proposed by call: by automations, for models, and by people who may not settle."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World
from test_holds import settle, unknown

from opsledger.journal.models import Entry
from opsledger.ledger.models import Proposal, Step

MODEL = {"kind": "model", "name": "log-reader-1"}


def propose(world: World, hold: dict[str, Any], by: str = "auto", **more: Any) -> Any:
    body = {"answer": "happened", "reference": "T-1", "reason": "The log names it."} | more
    return getattr(world, by).post(f"/holds/{hold['id']}/propose", body, if_match=hold["version"])


def test_a_models_proposal_is_shown_and_decides_nothing(world: World) -> None:
    hold = unknown(world)

    made = propose(world, hold, author=MODEL)

    assert (made.status_code, made.json()["result"]) == (201, "proposed")
    assert propose(world, hold, author=MODEL).json()["result"] == "same"
    now = world.owner.get(f"/holds/{hold['id']}").json()
    assert (now["version"], now["closed_at"]) == (hold["version"], None)
    (shown,) = now["proposals"]
    assert (shown["author_kind"], shown["author"], shown["by"]) == ("model", "log-reader-1", "n8n")
    assert (shown["answer"], shown["reference"], shown["reason"]) == ("happened", "T-1", "The log names it.")
    assert Step.objects.get(number=1).state == "unknown"


@pytest.mark.parametrize(
    ("by", "author", "field"),
    [
        ("auto", {"kind": "person", "name": "olga@example.test"}, "author.kind"),
        ("auto", {"kind": "person", "name": "anybody"}, "author.kind"),
        ("operator", {"kind": "person", "name": "olga@example.test"}, "author.name"),
        ("operator", {"kind": "person", "name": "anybody"}, "author.name"),
    ],
    ids=["an owner's, by an automation", "anybody's, by an automation", "another person's", "nobody's"],
)
def test_a_persons_thought_is_proposed_by_that_person(
    world: World, by: str, author: dict[str, str], field: str
) -> None:
    refused = propose(world, unknown(world), by, author=author)

    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
    assert not Proposal.objects.exists()
    assert not Entry.objects.filter(kind="answer_proposed").exists()


def test_whoever_proposes_may_name_themselves(world: World) -> None:
    own = {"kind": "person", "name": f" {world.cast.omar.email.upper()} "}
    hold = unknown(world)

    made = propose(world, hold, "operator", author=own)

    assert (made.status_code, made.json()["proposal"]["author_kind"]) == (201, "person")
    assert propose(world, hold, "operator").json()["result"] == "same"  # as when nobody is named


def test_a_person_accepts_it_and_an_automation_can_not(world: World) -> None:
    hold = unknown(world)
    proposal = propose(world, hold, author=MODEL).json()["proposal"]["id"]

    refused = world.auto.post(f"/proposals/{proposal}/accept", {}, if_match=hold["version"])
    stale = world.owner.post(f"/proposals/{proposal}/accept", {}, if_match=hold["version"] + 1)
    done = world.owner.post(f"/proposals/{proposal}/accept", {}, if_match=hold["version"])

    assert (refused.status_code, stale.status_code, done.status_code) == (403, 412, 200)
    assert Step.objects.get(number=1).reference == "T-1"
    entry = Entry.objects.get(kind="answered")
    assert entry.actor == f"person:{world.cast.olga.pk}"
    assert '"proposal_author":"model"' in entry.body
    assert world.owner.get(f"/holds/{hold['id']}").json()["proposals"] == []


def test_what_is_no_answer_or_lacks_something_is_not_kept(world: World) -> None:
    hold = unknown(world)
    for more, field in (
        ({"answer": "end_failed", "reference": None}, "answer"),
        ({"reference": None}, "reference"),
        ({"reason": " "}, "reason"),
    ):
        refused = propose(world, hold, **more)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field), more
    assert not Proposal.objects.exists()


def test_a_proposal_on_another_version_is_stale(world: World) -> None:
    hold = unknown(world)
    settle(world, hold, "happened", reference="T-1")
    assert propose(world, hold).status_code == 412


@pytest.mark.parametrize(("by", "status"), [("auto", 200), ("operator", 403), ("owner", 422)])
def test_who_may_set_it_aside(world: World, by: str, status: int) -> None:
    proposal = propose(world, unknown(world)).json()["proposal"]["id"]
    answer = getattr(world, by).post(f"/proposals/{proposal}/dismiss", {})
    assert answer.status_code == status  # its own maker takes it back; an owner says why


def test_other_teams_have_no_such_proposal(world: World) -> None:
    hold = unknown(world)
    proposal = propose(world, hold).json()["proposal"]["id"]
    assert propose(world, hold, by="other").status_code == 404
    for what in ("accept", "dismiss"):
        answer = world.other_owner.post(f"/proposals/{proposal}/{what}", {"reason": "x"}, if_match=1)
        assert answer.status_code == 404
