"""Content over the API: automations propose, people who neither wrote nor asked for it decide, nobody on something stale."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import Api, World, make_world, read
from people import person

from opsledger.accounts.models import Membership
from opsledger.accounts.permissions import PERSONAL_SCOPES, Role
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.models import Approval, ContentVersion, Operation, Step

LETTERS = """
[destination.post]
name = "Post"
base_url = "http://127.0.0.1:9"
[destination.post.actions.write]
title = "Write a letter"
effect = "message"
[destination.post.actions.write.request]
method = "POST"
path = "/letters"
[destination.post.actions.write.request.body]
to = "{params.to}"
text = "{content.text}"
sender = "{content.sender}"
[destination.post.actions.write.reply]
reference = "id"

[workflow.letter]
title = "Write about {params.about}"
owner = "owner"
if_nobody = "Nobody is written to."
due_seconds = { default = 3600 }
[[workflow.letter.params]]
name = "about"
label = "About"
[[workflow.letter.params]]
name = "to"
label = "To"
sensitive = true
[[workflow.letter.content]]
name = "text"
label = "Text"
kind = "sensitive"
[[workflow.letter.content]]
name = "sender"
label = "Sender"
kind = "locked"
[[workflow.letter.steps]]
name = "write"
title = "Write the letter"
destination = "post"
action = "write"
"""
FIELDS = {"text": "Your order is on its way.", "sender": "Launch care"}
PARAMS = {"about": "the order", "to": "Alder Works, 4 Quay Street"}


class Letters(World):
    second: Api  # another owner


@pytest.fixture
def world(db: None) -> Letters:
    return letters()


@pytest.fixture
def live(transactional_db: None) -> Letters:
    return letters()


def letters() -> Letters:
    made = make_world()
    load(made.cast.launch.pk, read(LETTERS), actor="command:test")
    bert = person("Bert")
    Membership.objects.create(person=bert, team=made.cast.launch, role=Role.OWNER.value)
    found = Letters(**vars(made))
    found.second = found.token("second owner", *PERSONAL_SCOPES, person=bert)
    return found


def proposed(**changes: Any) -> dict[str, Any]:
    return {"workflow": "letter", "fields": FIELDS} | changes


def record(world: World, own: str = "letter:a", **content: Any) -> Any:
    shown = {"content_id": "letter:1", **(content or {"fields": FIELDS})}
    body = {"operation_id": own, "workflow": "letter", "params": PARAMS, "content": shown}
    return world.auto.post("/operations", body)


def newest(world: World, caller: Api | None = None) -> dict[str, Any]:
    page = (caller or world.owner).get("/content/letter:1/versions").json()
    return dict(page["items"][0])


def covered(world: World, version: dict[str, Any]) -> str:
    return str(world.owner.get(f"/content-versions/{version['id']}/covered").json()["covered_digest"])


def decide(world: World, by: Api, what: str = "approve", **changes: Any) -> Any:
    version = newest(world)
    body = (
        {"covered_digest": covered(world, version)} | ({"reason": "no"} if what == "reject" else {}) | changes
    )
    return by.post(f"/content-versions/{version['id']}/{what}", body, if_match=version["version"])


def test_an_automation_proposes_and_an_owner_approves_what_waits(live: Letters) -> None:
    assert record(live).status_code == 201
    again = live.auto.post("/content/letter:1/versions", proposed(fields=FIELDS | {"text": "Edited."}))
    assert (again.status_code, again.json()["moved"], again.json()["version"]["number"]) == (201, 1, 2)
    version = again.json()["version"]
    assert version["author"] == {"kind": "automation", "name": "n8n"}
    assert (version["fields"][0]["masked"], version["fields"][0]["value"]) == (True, "••••")
    page = live.owner.get(f"/content-versions/{version['id']}/covered").json()
    assert (page["covered_count"], page["items"][0]["operation_id"]) == (1, "letter:a")

    approved = live.owner.post(
        f"/content-versions/{version['id']}/approve",
        {"covered_digest": page["covered_digest"], "reason": "Read."},
        if_match=version["version"],
    )

    assert (approved.status_code, approved.json()["approved"], approved.json()["left_out"]) == (200, 1, [])
    assert approved.json()["version"]["decided_by"] == "Olga"
    assert approved["ETag"] == '"2"'
    step = live.owner.get("/operations/letter:a").json()["steps"][0]
    assert (step["state"], step["revision"]) == ("ready", 2)
    assert step["approval"] == {
        "needed": True,
        "approved": True,
        "until": approved.json()["until"],
        "content_version": 2,
    }
    assert Step.objects.get().request_digest is not None


def test_an_automation_never_approves_and_is_told_why(live: Letters) -> None:
    record(live)

    answer = decide(live, live.auto)

    assert answer.status_code == 403
    assert "automation’s token can’t approve content" in answer.json()["detail"]
    assert ContentVersion.objects.get().state == "proposed"


@pytest.mark.parametrize("name", ["operator", "viewer", "admin"])
def test_only_an_owner_decides(live: Letters, name: str) -> None:
    record(live)

    for what in ("approve", "reject"):
        assert decide(live, getattr(live, name), what).status_code == 403


def test_nobody_approves_what_they_proposed(live: Letters) -> None:
    live.owner.post("/content/letter:1/versions", proposed())
    live.second.post(
        "/content/letter:1/versions",
        proposed(author={"kind": "model", "name": "draft-writer-2"}, fields=FIELDS | {"text": "2"}),
    )

    asked = decide(live, live.second)

    assert (asked.status_code, "You asked for it" in asked.json()["detail"]) == (403, True)
    assert decide(live, live.owner).status_code == 200


def test_what_changed_meanwhile_is_stale_and_shown_as_it_is_now(live: Letters) -> None:
    record(live)
    version, digest = newest(live), covered(live, newest(live))
    assert decide(live, live.second).status_code == 200

    late = live.owner.post(
        f"/content-versions/{version['id']}/approve", {"covered_digest": digest}, if_match=version["version"]
    )

    assert late.status_code == 412
    assert "was approved by Bert" in late.json()["detail"]
    assert (late.json()["current"]["state"], late["ETag"]) == ("approved", '"2"')
    assert Approval.objects.count() == 1


def test_another_operation_that_waits_makes_the_digest_stale(live: Letters) -> None:
    record(live)
    version, digest = newest(live), covered(live, newest(live))
    record(live, "letter:b", version=1)

    late = live.owner.post(
        f"/content-versions/{version['id']}/approve", {"covered_digest": digest}, if_match=version["version"]
    )

    assert (late.status_code, late.json()["code"]) == (412, "stale")
    assert set(Step.objects.values_list("state", flat=True)) == {"waiting"}


def test_a_decision_carries_its_version(live: Letters) -> None:
    record(live)
    version = newest(live)

    answer = live.owner.post(
        f"/content-versions/{version['id']}/approve", {"covered_digest": covered(live, version)}
    )

    assert answer.status_code == 428


def test_what_is_rejected_returns_or_is_cancelled(live: Letters) -> None:
    record(live)
    record(live, "letter:b", version=1)
    decide(live, live.owner)
    live.owner.post("/content/letter:1/versions", proposed(fields=FIELDS | {"text": "2"}))

    answer = decide(live, live.second, "reject", **{"return": ["letter:a"]})

    assert answer.status_code == 200
    told = {name: answer.json()[name] for name in ("returned", "approved_again", "cancelled")}
    assert told == {"returned": 1, "approved_again": 1, "cancelled": 1}
    assert dict(Operation.objects.values_list("operation_id", "state")) == {
        "letter:a": "running",
        "letter:b": "cancelled",
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another locked value": (proposed(fields=FIELDS | {"sender": "me"}), "fields.sender"),
    "a field too many": (proposed(fields=FIELDS | {"body": "x"}), "fields.body"),
    "a workflow without content": (proposed(workflow="follow_up"), "workflow"),
    "an unknown member": (proposed(text="x"), "text"),
    "an unknown author": (proposed(author={"kind": "robot", "name": "x"}), "author.kind"),
    "a person who is not here": (proposed(author={"kind": "person", "name": "x@y.example"}), "author.name"),
}


@pytest.mark.parametrize(("body", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_a_proposal_that_cant_be_taken_names_the_field(
    live: Letters, body: dict[str, Any], field: str
) -> None:
    live.auto.post("/content/letter:1/versions", proposed())

    answer = live.auto.post("/content/letter:1/versions", body)

    assert (answer.status_code, [one["field"] for one in answer.json()["errors"]]) == (422, [field])


CONTENT: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"version": 1, "fields": FIELDS}, "content"),
    "neither": ({"author": {"kind": "model", "name": "m"}}, "content"),
    "an author without fields": ({"version": 1, "author": {"kind": "model", "name": "m"}}, "content"),
    "no such version": ({"version": 7}, "content.version"),
    "a wrong field": ({"fields": {"text": "x"}}, "content.fields.sender"),
}


@pytest.mark.parametrize(("content", "field"), CONTENT.values(), ids=CONTENT.keys())
def test_content_of_an_operation_that_cant_be_taken_names_the_field(
    live: Letters, content: dict[str, Any], field: str
) -> None:
    live.auto.post("/content/letter:1/versions", proposed())

    answer = record(live, **content)

    assert answer.status_code == 422
    assert field in [one["field"] for one in answer.json()["errors"]]


def test_content_is_part_of_what_makes_an_operation_the_same(live: Letters) -> None:
    assert record(live).status_code == 201
    assert record(live).status_code == 200
    assert record(live, version=1).status_code == 200

    other = record(live, fields=FIELDS | {"text": "?"})

    assert (other.status_code, other.json()["differs"]) == (409, ["content"])
    assert newest(live)["number"] == 1


def test_a_revision_is_made_by_one_and_approved_by_another(live: Letters) -> None:
    record(live)
    decide(live, live.owner)
    _refused_by_the_destination()
    hold = live.owner.get("/holds").json()["items"][0]
    settled = live.owner.post(
        f"/holds/{hold['id']}/settle",
        {"answer": "revise", "reason": "They moved.", "params": {"to": "Alder Works, 5 Quay Street"}},
        if_match=hold["version"],
    )
    assert settled.status_code == 200
    shown = live.owner.get("/operations/letter:a/steps/write/request").json()
    assert (shown["revision"], shown["content_version"], len(shown["covered_digest"])) == (2, 1, 64)
    assert "Quay Street" not in str(shown)
    waiting = live.owner.get("/approvals").json()
    assert [(one["operation_id"], one["revision"]) for one in waiting["items"]] == [("letter:a", 2)]
    body = {"revision": 2, "covered_digest": shown["covered_digest"]}

    own = live.owner.post("/operations/letter:a/steps/write/approve", body)
    others = live.second.post("/operations/letter:a/steps/write/approve", body)
    late = live.second.post("/operations/letter:a/steps/write/approve", body)

    assert (own.status_code, "You changed its request" in own.json()["detail"]) == (403, True)
    assert others.status_code == 200
    assert (late.status_code, "approved by Bert" in late.json()["detail"]) == (409, True)
    assert Step.objects.get().state == "ready"


def changed(live: Letters) -> dict[str, Any]:
    """A letter that was approved and refused, then changed by its owner; what waits, with the version to decide on."""
    record(live)
    decide(live, live.owner)
    _refused_by_the_destination()
    hold = live.owner.get("/holds").json()["items"][0]
    revised = {"answer": "revise", "reason": "They moved.", "params": {"to": "Alder Works, 5 Quay Street"}}
    live.owner.post(f"/holds/{hold['id']}/settle", revised, if_match=hold["version"])
    shown = live.owner.get("/operations/letter:a/steps/write/request")
    return shown.json() | {"version": int(shown.headers["ETag"].strip('"'))}


REJECT = "/operations/letter:a/steps/write/reject"


def test_a_revision_is_rejected_and_its_step_is_back_at_what_was_approved(live: Letters) -> None:
    shown = changed(live)
    body = {
        "revision": 2,
        "covered_digest": shown["covered_digest"],
        "reason": "The old one is right.",
        "return": True,
    }

    unversioned = live.second.post(REJECT, body)
    done = live.second.post(REJECT, body, if_match=shown["version"])
    late = live.second.post(REJECT, body, if_match=shown["version"])

    assert unversioned.status_code == 428
    assert done.status_code == 200, done.content
    told = done.json()
    assert (told["revision"], told["returned_to"], told["approved_again"]) == (2, 1, True)
    assert done.headers["ETag"] == f'"{told["operation"]["version"]}"'
    assert Step.objects.values_list("revision", "state").get() == (3, "ready")
    assert (late.status_code, late.json()["current"]["version"]) == (412, told["operation"]["version"])


@pytest.mark.parametrize("returns", [False, None], ids=["false", "left out"])
def test_a_rejected_revision_ends_its_step(live: Letters, returns: bool | None) -> None:
    shown = changed(live)
    body = {"revision": 2, "covered_digest": shown["covered_digest"], "reason": "Not so."}
    body |= {} if returns is None else {"return": returns}

    done = live.second.post(REJECT, body, if_match=shown["version"]).json()

    assert (done["returned_to"], done["operation"]["state"]) == (None, "cancelled")


def test_a_stale_rejection_is_answered_with_the_record_as_it_is(live: Letters) -> None:
    shown = changed(live)
    body = {"revision": 2, "covered_digest": shown["covered_digest"], "reason": "Not so."}

    stale = [
        live.second.post(REJECT, body | more, if_match=at)
        for more, at in (({}, shown["version"] - 1), ({"covered_digest": "0" * 64}, shown["version"]))
    ]
    nothing = live.second.post(REJECT, body | {"reason": " "}, if_match=shown["version"])
    automation = live.auto.post(REJECT, body, if_match=shown["version"])

    assert [(one.status_code, one.json()["current"]["version"]) for one in stale] == [
        (412, shown["version"])
    ] * 2
    assert (nothing.status_code, automation.status_code) == (422, 403)
    assert Step.objects.values_list("revision", "state").get() == (2, "waiting")


def _refused_by_the_destination() -> None:
    from opsledger.ledger.actions.change import Change, NewEvidence, change
    from opsledger.ledger.actions.claim import claim_sends
    from opsledger.lib.ids import new_id
    from opsledger.rules import transitions
    from opsledger.rules.learning import Finding
    from opsledger.rules.record import KnownBy
    from opsledger.rules.states import NoChange, Outcome

    claimed = claim_sends(1, worker="test")[0]
    finding = Finding(Outcome.NO_CHANGE, KnownBy.REPLY, NoChange.REJECTED)
    evidence = NewEvidence(
        new_id(), 1, claimed.attempt_id, "reply", "post", "rejected", "Refused.", b"\0" * 32
    )
    change(
        {
            claimed.operation_id: Change(
                "attempt_ended",
                "destination:post",
                lambda loaded, moment: transitions.attempt_ended(
                    loaded.record, 1, str(claimed.attempt_id), finding, moment
                ),
                evidence=(evidence,),
            )
        }
    )


# Other teams, and ids that can't stand in a path


def test_other_teams_content_does_not_exist(live: Letters) -> None:
    record(live)
    version = newest(live)

    for caller in (live.other, live.other_owner):
        assert caller.get(f"/content-versions/{version['id']}").status_code == 404
        assert caller.get("/content/letter:1/versions").json()["items"] == []
    answer = live.other_owner.post(
        f"/content-versions/{version['id']}/approve", {"covered_digest": "0" * 64}, if_match=1
    )
    assert answer.status_code == 404


def test_any_content_id_can_be_named_in_the_body(live: Letters) -> None:
    made = live.auto.post("/content-versions", proposed(content_id="spring/Straße 1"))
    assert (made.status_code, made.json()["version"]["content_id"]) == (201, "spring/Straße 1")

    found = live.auto.get("/content-versions", {"content_id": "spring/Straße 1"}).json()["items"]

    assert [one["id"] for one in found] == [made.json()["version"]["id"]]
    assert live.auto.get("/content/op_1/versions").status_code == 404


def test_versions_and_covered_steps_come_in_pages(live: Letters) -> None:
    for number in range(3):
        live.auto.post("/content/letter:1/versions", proposed(fields=FIELDS | {"text": str(number)}))
    first = live.auto.get("/content/letter:1/versions", {"limit": 2}).json()
    rest = live.auto.get("/content/letter:1/versions", {"limit": 2, "cursor": first["next"]}).json()
    assert [one["number"] for one in first["items"] + rest["items"]] == [3, 2, 1]
    assert rest["next"] is None
    for name in "abc":
        record(live, f"letter:{name}", version=3)
    path = f"/content-versions/{newest(live)['id']}/covered"
    one = live.owner.get(path, {"limit": 2}).json()
    two = live.owner.get(path, {"limit": 2, "cursor": one["next"]}).json()
    assert {item["operation_id"] for item in one["items"] + two["items"]} == {
        "letter:a",
        "letter:b",
        "letter:c",
    }
    assert (one["covered_digest"], two["next"]) == (two["covered_digest"], None)
    for query in ({"cursor": "?"}, {"cursor": "YQ"}, {"limit": "0"}, {"page": "2"}):
        assert live.owner.get(path, query).status_code == 422


def test_a_version_that_is_none_is_not_found(world: Letters) -> None:
    for text in ("cv_1", "1", "cv_00000000000000000000000000"):
        assert world.owner.get(f"/content-versions/{text}").status_code == 404
