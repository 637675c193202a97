"""Holds: listed, settled, assigned, noted, checked, always on the version that was read."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from api_world import World, deliver, event, signed, wanted
from django.utils import timezone

from opsledger.journal.models import Entry
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.destinations import settle_pause
from opsledger.ledger.models import Destination, Hold, Step
from opsledger.lib.ids import parse


def unknown(world: World, own: str = "order:1") -> dict[str, Any]:
    """An operation with an unknown outcome; its hold."""
    world.record(own, "by_hand")
    attempt = world.auto.post(f"/operations/{own}/steps/create_task/claim").json()["attempt_id"]
    world.auto.post(f"/attempts/{attempt}/outcome", {"outcome": "unknown", "evidence": {"how": "silence"}})
    found: dict[str, Any] = next(
        one for one in world.auto.get("/holds").json()["items"] if one["operation_id"] == own
    )
    return found


def settle(world: World, hold: dict[str, Any], answer: str, *, by: str = "owner", **more: Any) -> Any:
    caller = getattr(world, by)
    body = {"answer": answer, "reason": "asked them"} | more
    return caller.post(f"/holds/{hold['id']}/settle", body, if_match=hold["version"])


def test_a_hold_says_its_answers_and_carries_its_version(world: World) -> None:
    hold = unknown(world)
    answer = world.owner.get(f"/holds/{hold['id']}")
    assert answer["ETag"] == f'"{hold["version"]}"'
    assert answer.json() == hold
    assert hold["answers"] == [
        "happened", "happened_accepted", "absent_send_again", "absent_end", "absent_revise", "still_unknown",
        "close_unknown",
    ]  # fmt: skip
    assert (hold["about"], hold["step"], hold["owner"]) == ("step", 1, None)


def test_it_happened_with_the_destinations_reference(world: World) -> None:
    answer = settle(world, unknown(world), "happened", reference="T-1")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["hold"]["answer"], body["hold"]["answers"]) == ("happened", [])
    assert body["reading"]["compared"] is False
    assert body["reading"]["why"]
    assert Step.objects.get(number=1).reference == "T-1"
    assert Entry.objects.get(kind="answered").actor == f"person:{world.cast.olga.pk}"


def test_a_second_decision_on_the_same_version_is_stale_and_sees_the_first(world: World) -> None:
    hold = unknown(world)
    settle(world, hold, "happened", reference="T-1")
    answer = settle(world, hold, "absent_send_again", checked_how="search")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (412, "stale")
    assert problem["current"]["answer"] == "happened"
    assert answer["ETag"] == f'"{problem["current"]["version"]}"'
    assert Step.objects.get(number=1).state == "confirmed"


@pytest.mark.parametrize("action", ["settle", "assign", "note", "check"])
def test_every_decision_needs_the_version_it_was_made_on(world: World, action: str) -> None:
    hold = unknown(world)
    body = {
        "settle": {"answer": "happened", "reference": "T-1", "reason": "x"},
        "assign": {"owner": "olga@example.test"},
        "note": {"text": "x"},
        "check": {},
    }[action]
    path = f"/holds/{hold['id']}/{action}"
    missing = world.owner.post(path, body)
    assert (missing.status_code, missing.json()["code"]) == (428, "version_needed")
    stale = world.owner.post(path, body, if_match=hold["version"] + 1)
    assert (stale.status_code, stale.json()["current"]["id"]) == (412, hold["id"])
    odd = world.owner.post(path, body, If_Match="*")
    assert (odd.status_code, odd.json()["errors"][0]["field"]) == (422, "If-Match")
    assert Hold.objects.get().version == hold["version"]
    assert world.owner.post(path, body, If_Match=str(hold["version"])).status_code == 200


WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("no reference", {"answer": "happened"}, 422, "reference"),
    ("unchecked", {"answer": "absent_end"}, 422, "checked_how"),
    ("no next check", {"answer": "still_unknown"}, 422, "next_check_at"),
    ("blank reason", {"answer": "close_unknown", "reason": " "}, 422, "reason"),
    ("no such step", {"answer": "close_unknown", "keep_later": ["nothing"]}, 422, "keep_later"),
    ("of another hold", {"answer": "end_failed"}, 409, ""),
    ("of a destination", {"answer": "go_on"}, 422, "answer"),
    ("no word of ours", {"answer": "retry"}, 422, "answer"),
    ("too many tries", {"answer": "more_tries", "tries": 21}, 422, "tries"),
]


@pytest.mark.parametrize(
    ("body", "status", "field"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_an_answer_that_can_not_be_taken_changes_nothing(
    world: World, body: dict[str, Any], status: int, field: str
) -> None:
    hold = unknown(world)
    answer = world.owner.post(f"/holds/{hold['id']}/settle", {"reason": "x"} | body, if_match=hold["version"])
    assert answer.status_code == status, answer.content
    if field:
        assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert world.owner.get(f"/holds/{hold['id']}").json() == hold


MAY = {
    "happened": {"owner"},
    "close_unknown": {"owner"},
    "still_unknown": {"owner", "operator"},
}


@pytest.mark.parametrize("answer", MAY)
@pytest.mark.parametrize("who", ["auto", "viewer", "operator", "owner", "admin"])
def test_who_may_settle_depends_on_the_answer(world: World, answer: str, who: str) -> None:
    at = (timezone.now() + timedelta(hours=1)).isoformat()
    more = {"happened": {"reference": "T"}, "still_unknown": {"next_check_at": at}}.get(answer, {})
    found = settle(world, unknown(world), answer, by=who, **more)
    assert found.status_code == (200 if who in MAY[answer] else 403), found.content


def test_still_unknown_keeps_the_hold_open_with_a_new_version(world: World) -> None:
    hold = unknown(world)
    at = timezone.now() + timedelta(hours=1)
    answer = settle(world, hold, "still_unknown", by="operator", next_check_at=at.isoformat()).json()
    assert answer["hold"]["closed_at"] is None
    assert answer["hold"]["version"] > hold["version"]


def test_another_teams_hold_is_not_there(world: World) -> None:
    hold = unknown(world)
    assert world.other.get(f"/holds/{hold['id']}").status_code == 404
    assert world.other_owner.get("/holds").json() == {"items": [], "next": None}
    for action, body in (
        ("settle", {"answer": "happened", "reference": "T", "reason": "x"}),
        ("assign", {"owner": None}),
        ("note", {"text": "x"}),
        ("check", {}),
    ):
        answer = world.other_owner.post(f"/holds/{hold['id']}/{action}", body, if_match=hold["version"])
        assert answer.status_code == 404
    assert world.owner.get(f"/holds/{hold['id']}").json() == hold


def test_holds_are_listed_by_their_due_time_in_pages(world: World) -> None:
    ids = [unknown(world, f"order:{index}")["id"] for index in range(3)]
    for index, hold in enumerate(Hold.objects.order_by("id")):
        Hold.objects.filter(pk=hold.pk).update(due_at=timezone.now() + timedelta(hours=3 - index))
    first = world.owner.get("/holds", {"limit": 2}).json()
    second = world.owner.get("/holds", {"limit": 2, "cursor": first["next"]}).json()
    assert [one["id"] for one in first["items"] + second["items"]] == ids[::-1]
    assert second["next"] is None


def test_holds_are_filtered(world: World) -> None:
    hold = unknown(world)

    def found(**query: Any) -> int:
        return len(world.owner.get("/holds", query).json()["items"])

    assert found(reason="outcome_unknown") == found(unowned="true") == found(destination="crm") == 1
    assert found(reason="disputed") == found(owner="olga@example.test") == found(workflow="follow_up") == 0
    world.owner.post(f"/holds/{hold['id']}/assign", {"owner": "olga@example.test"}, if_match=hold["version"])
    assert (found(unowned="true"), found(owner="olga@example.test")) == (0, 1)


@pytest.mark.parametrize(
    "query",
    [
        {"colour": "x"},
        {"reason": "x"},
        {"unowned": "x"},
        {"limit": "0"},
        {"cursor": "x"},
        {"owner": "x"},
        {"workflow": "\x00"},
    ],
    ids=lambda value: str(value),
)
def test_a_filter_that_can_not_be_read_is_refused(world: World, query: dict[str, str]) -> None:
    answer = world.owner.get("/holds", query)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == list(query)


def test_a_hold_is_given_to_a_person_who_may_settle_and_back_to_nobody(world: World) -> None:
    hold = unknown(world)
    path = f"/holds/{hold['id']}/assign"
    given = world.admin.post(path, {"owner": "Olga@example.test"}, if_match=hold["version"]).json()["hold"]
    assert (given["owner"], given["version"]) == ("Olga", hold["version"] + 1)
    refused = world.admin.post(path, {"owner": "vera@example.test"}, if_match=given["version"])
    assert refused.status_code == 422
    back = world.admin.post(path, {"owner": None}, if_match=given["version"]).json()["hold"]
    assert back["owner"] is None


def test_a_note_never_changes_a_state(world: World) -> None:
    hold = unknown(world)
    answer = world.operator.post(
        f"/holds/{hold['id']}/note", {"text": "asked them"}, if_match=hold["version"]
    )
    assert answer.json() == {"hold": hold["id"], "version": hold["version"]}
    assert world.owner.get(f"/holds/{hold['id']}").json() == hold
    assert Entry.objects.filter(kind="noted").count() == 1


def test_a_check_plans_a_lookup(world: World) -> None:
    hold = unknown(world)
    at = timezone.now() + timedelta(minutes=5)
    answer = world.operator.post(
        f"/holds/{hold['id']}/check", {"at": at.isoformat()}, if_match=hold["version"]
    )
    assert answer.status_code == 200, answer.content
    step = Step.objects.get(number=1)
    assert (step.act, step.look_at) == ("look", at)
    assert step.act_at is not None
    assert step.act_at < at  # the planned looks go on until then


def test_an_answer_can_be_taken_back(world: World) -> None:
    settle(world, unknown(world), "happened", reference="T-1")
    record = world.decide("order:1", "steps/create_task/withdraw", reason="it was another task").json()
    assert [hold["reason"] for hold in record["holds"] if hold["closed_at"] is None] == ["disputed"]
    assert record["references"] == []
    again = world.decide("order:1", "steps/create_task/withdraw", reason="again")
    assert (again.status_code, again.json()["code"]) == (409, "not_now")
    assert world.decide("order:1", "steps/nothing/withdraw").status_code == 404


@pytest.mark.parametrize("action", ["cancel", "steps/create_task/withdraw"])
def test_a_decision_about_an_operation_needs_the_version_it_was_made_on(world: World, action: str) -> None:
    settle(world, unknown(world), "happened", reference="T-1")
    read = world.owner.get("/operations/order:1")
    version, path = read.json()["version"], f"/operations/order:1/{action}"
    assert read["ETag"] == f'"{version}"'
    missing = world.owner.post(path, {"reason": "x"})
    assert (missing.status_code, missing.json()["code"]) == (428, "version_needed")
    odd = world.owner.post(path, {"reason": "x"}, If_Match="*")
    assert (odd.status_code, odd.json()["errors"][0]["field"]) == (422, "If-Match")
    stale = world.owner.post(path, {"reason": "x"}, if_match=version - 1)
    assert (stale.status_code, stale.json()["code"], stale["ETag"]) == (412, "stale", f'"{version}"')
    assert stale.json()["current"] == read.json()
    assert world.owner.get("/operations/order:1").json() == read.json()

    done = world.owner.post(path, {"reason": "x"}, if_match=version)

    assert (done.status_code, done["ETag"]) == (200, f'"{done.json()["version"]}"')
    assert done.json()["version"] > version
    entry = Entry.objects.filter(kind__in=("cancel_requested", "withdrawn")).get()
    assert json.loads(entry.body)["operation_version"] == version


@pytest.fixture
def undelivered(world: World) -> dict[str, Any]:
    """The hold of a message that its service took over and could not deliver."""
    world.record("order:1", "told")
    attempt = world.auto.post("/operations/order:1/steps/tell/claim").json()["attempt_id"]
    report = {"outcome": "accepted", "reference": "M-1", "evidence": {"how": "202"}}
    world.auto.post(f"/attempts/{attempt}/outcome", report)
    world.auto.post("/operations/order:1/steps/tell/evidence", {"says": "not_delivered", "how": "a bounce"})
    found: dict[str, Any] = world.owner.get("/holds").json()["items"][0]
    assert found["reason"] == "delivery_failed"
    return found


@pytest.mark.parametrize(
    "named", ["nothing", "op_00000000000000000000000000", "theirs", "itself", "order:1", " new"]
)
def test_what_replaces_must_be_another_operation_of_the_team(
    world: World, undelivered: dict[str, Any], named: str
) -> None:
    theirs = world.other.post("/operations", wanted("theirs", "by_hand")).json()["id"]
    world.record("new", "told")
    text = {"theirs": theirs, "itself": undelivered["operation"]}.get(named, named)

    answer = settle(world, undelivered, "replaced", replaced_by=text)

    assert answer.status_code == 422, answer.content
    assert [error["field"] for error in answer.json()["errors"]] == ["replaced_by"]
    assert world.owner.get(f"/holds/{undelivered['id']}").json() == undelivered


@pytest.mark.parametrize("by_number", [False, True], ids=["its own id", "op_…"])
def test_what_replaces_is_kept_with_the_answer(
    world: World, undelivered: dict[str, Any], by_number: bool
) -> None:
    new = world.record("new", "told").json()["id"]

    answer = settle(world, undelivered, "replaced", replaced_by=new if by_number else "new")

    assert answer.status_code == 200, answer.content
    entry = json.loads(Entry.objects.get(kind="answered").body)
    assert entry["replacement"] == str(parse("op", new))


# Holds at destinations and events


def test_a_destination_goes_on_when_an_owner_or_admin_says_so(world: World) -> None:
    destination = Destination.objects.get(team=world.cast.launch, slug="crm")
    settle_pause(
        destination.pk,
        destination.version,
        "they migrate",
        By("person:00000000-0000-0000-0000-000000000001", "Olga"),
    )
    hold = world.owner.get("/holds").json()["items"][0]
    assert (hold["about"], hold["answers"], hold["destination"]) == ("destination", ["go_on"], "crm")
    assert settle(world, hold, "go_on", by="operator").status_code == 403
    assert settle(world, hold, "happened", reference="T").status_code == 422
    assert settle(world, hold, "go_on", by="admin", rate_per_second=2.5).status_code == 200
    destination.refresh_from_db()
    assert destination.paused_at is None
    assert settle(world, hold, "go_on").status_code == 412


def _conflict(world: World) -> dict[str, Any]:
    deliver(event(1))
    assert deliver(event(1, data={"subject": "Else"})).status_code == 202
    found: dict[str, Any] = world.owner.get("/holds").json()["items"][0]
    return found


def test_an_event_with_two_bodies_is_settled_by_a_person(world: World) -> None:
    hold = _conflict(world)
    assert (hold["about"], hold["reason"]) == ("event", "event_conflict")
    assert hold["answers"] == ["first_stands", "recorded_apart"]
    assert settle(world, hold, "first_stands", by="operator").status_code == 403
    assert settle(world, hold, "happened", reference="x").status_code == 422
    assert settle(world, hold, "recorded_apart").json()["errors"][0]["field"] == "operation"
    assert settle(world, hold, "recorded_apart", operation="nothing").status_code == 404
    world.auto.post("/operations", wanted("apart"))
    answer = settle(world, hold, "recorded_apart", operation="apart")
    assert (answer.status_code, answer.json()["operation_state"]) == (200, None)
    assert settle(world, hold, "first_stands").status_code == 412


def test_a_judged_conflict_is_not_asked_again_but_a_third_body_is(world: World) -> None:
    settle(world, _conflict(world), "first_stands")
    assert deliver(event(1, data={"subject": "Else"})).status_code == 202
    assert world.owner.get("/holds").json()["items"] == []
    raw = b'{"id": "evt_1", "type": "task.wanted", "data": {"subject": "Third"}}'
    deliver(raw, headers=signed(raw))
    assert len(world.owner.get("/holds").json()["items"]) == 1
