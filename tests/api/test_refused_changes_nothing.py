"""What is not recorded leaves nothing behind: no content version, no event, no link, no lock on what others do."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World, read, wanted
from test_content import FIELDS, LETTERS, Letters, decide, letters, newest, record

from opsledger.journal.models import Entry
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.models import Content, ContentVersion, Event, Operation, OperationEvent, Step

EVENT = {"source_event": {"source": "shop", "event_id": "e9"}}
OTHER = FIELDS | {"text": "Quite another text."}


@pytest.fixture
def w(transactional_db: None) -> Letters:
    made = letters()
    record(made)
    decide(made, made.owner)
    made.record("busy", "by_hand")
    made.record("ended", "by_hand")
    made.decide("ended")
    made.record("taken", "by_hand", replaces="ended")
    return made


def letter(own: str, **more: Any) -> dict[str, Any]:
    content = {"content_id": "letter:1", "fields": OTHER}
    params = {"about": "the order", "to": "Alder Works"}
    return {"operation_id": own, "workflow": "letter", "params": params, "content": content} | EVENT | more


REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "params": (letter("b", params={"about": "x"}), 422),
    "operation_id": (letter("b@c.example"), 422),
    "owner": (letter("b", owner="nobody@example.test"), 422),
    "source": (letter("b", source_event={"source": "none", "event_id": "1"}), 422),
    "replaces nothing": (letter("b", replaces="nothing"), 422),
    "replaces what is open": (letter("b", replaces="busy"), 409),
    "replaces what is replaced": (letter("b", replaces="ended"), 409),
    "content of a wrong shape": (letter("b", content={"content_id": "new", "fields": {"text": "x"}}), 422),
    "another locked value": (
        letter("b", content={"content_id": "letter:1", "fields": OTHER | {"sender": "me"}}),
        422,
    ),
    "an author who is not here": (
        letter(
            "b",
            content={
                "content_id": "new",
                "fields": OTHER,
                "author": {"kind": "person", "name": "x@y.example"},
            },
        ),
        422,
    ),
    "another action": (letter("letter:a"), 409),
    "another action, and an owner who is not here": (letter("letter:a", owner="nobody@example.test"), 409),
}


def everything() -> dict[str, Any]:
    return {
        "versions": list(ContentVersion.objects.order_by("pk").values_list("of_id", "number", "state", "version")),
        "contents": list(Content.objects.order_by("pk").values_list("content_id", "latest_number", "moving")),
        "events": (Event.objects.count(), OperationEvent.objects.count()),
        "operations": list(Operation.objects.order_by("pk").values_list("operation_id", "state", "version")),
        "steps": list(Step.objects.order_by("pk").values_list("state", "revision", "content_number")),
        "lines": Entry.objects.count(),
    }  # fmt: skip


@pytest.mark.parametrize(("body", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_changes_nothing(w: Letters, body: dict[str, Any], status: int) -> None:
    before = everything()

    answer = w.auto.post("/operations", body)

    assert answer.status_code == status, answer.content
    assert everything() == before
    assert (newest(w)["number"], newest(w)["state"]) == (1, "approved")


@pytest.mark.parametrize(("body", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_an_item_that_is_refused_changes_nothing_and_spoils_no_other(
    w: Letters, body: dict[str, Any], status: int
) -> None:
    good = letter("good", content={"content_id": "letter:1", "version": 1}) | {"source_event": None}
    before = everything()

    items = w.auto.post("/operations/batch", {"items": [body, good]}).json()["items"]

    after = everything()
    assert [item["status"] for item in items] == [status, 201]
    assert {name: after[name] for name in ("versions", "contents", "events")} == {
        name: before[name] for name in ("versions", "contents", "events")
    }
    assert len(after["operations"]) == len(before["operations"]) + 1


def test_all_that_is_wrong_with_what_it_names_is_told_at_once(w: Letters) -> None:
    body = letter("b", params={"about": "x"}, owner="nobody@example.test", replaces="nothing")
    body["source_event"] = {"source": "none", "event_id": "1"}
    fields = [error["field"] for error in w.auto.post("/operations", body).json()["errors"]]
    assert fields == ["params.to", "owner", "source_event.source", "replaces"]


# Of several with one id in a batch the first one that passes is recorded


def batch(world: World, *items: dict[str, Any]) -> list[dict[str, Any]]:
    return list(world.auto.post("/operations/batch", {"items": list(items)}).json()["items"])


def brings(own: str, text: str, content_id: str = "fresh", **more: Any) -> dict[str, Any]:
    return letter(own, content={"content_id": content_id, "fields": FIELDS | {"text": text}}) | more


def shown_text(own: str) -> str:
    step = Step.objects.get(operation__operation_id=own)
    return ContentVersion.objects.get(of=step.operation.content, number=step.content_number or 0).body


def test_a_conflicting_item_does_not_change_what_the_first_one_shows(w: Letters) -> None:
    items = batch(w, brings("b", "first"), brings("b", "second"), brings("b", "first"))
    assert [item["status"] for item in items] == [201, 409, 200]
    assert items[1]["differs"] == ["content"]
    assert "first" in shown_text("b")
    assert ContentVersion.objects.filter(content_id="fresh").count() == 1


def test_the_first_one_that_passes_is_the_first(w: Letters) -> None:
    items = batch(w, brings("b", "first", owner="nobody@example.test"), brings("b", "second"))
    assert [item["status"] for item in items] == [422, 201]
    assert "second" in shown_text("b")


def test_an_item_may_name_the_version_that_an_earlier_one_brings(w: Letters) -> None:
    names = {"content": {"content_id": "fresh", "version": 1}}
    later = {"content": {"content_id": "letter:1", "version": 2}}
    items = batch(
        w, brings("b", "first"), letter("c", **names), letter("b", **names), letter("d", **later),
        brings("e", "Two.", "letter:1"), letter("f", **later),
    )  # fmt: skip
    assert [item["status"] for item in items] == [201, 201, 200, 422, 201, 201]
    assert "first" in shown_text("c")
    assert "Two." in shown_text("f")
    assert "Two." in shown_text("letter:a")


def test_texts_of_one_content_in_a_batch_are_versions_in_their_order(w: Letters) -> None:
    items = batch(w, brings("b", "one"), brings("c", "two"), brings("d", "two"), brings("e", "one"))
    assert {item["status"] for item in items} == {201}
    bodies = (
        ContentVersion.objects.filter(content_id="fresh").order_by("number").values_list("body", flat=True)
    )
    assert [("one" in body, "two" in body) for body in bodies] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    assert all("one" in shown_text(own) for own in "bcde")


def test_a_locked_value_is_compared_with_what_an_earlier_item_brings(w: Letters) -> None:
    other = brings("c", "two")
    other["content"]["fields"]["sender"] = "Somebody else"
    items = batch(w, brings("b", "one"), other)
    assert [item["status"] for item in items] == [201, 422]
    assert items[1]["errors"][0]["field"] == "content.fields.sender"


def test_a_content_belongs_to_one_workflow_also_inside_of_a_batch(w: Letters) -> None:
    load(
        w.cast.launch.pk,
        read(LETTERS.replace("letter]", "note]").replace("letter.", "note.")),
        actor="command:test",
    )
    items = batch(w, brings("b", "one"), brings("c", "one", workflow="note"))
    assert [item["status"] for item in items] == [201, 422]
    assert Content.objects.get(content_id="fresh").workflow.slug == "letter"


def test_another_action_under_a_taken_id_adds_no_event(w: Letters) -> None:
    w.record("y", "by_hand")
    answer = w.auto.post("/operations", wanted("y", "by_hand", subject="Else") | EVENT)
    assert (answer.status_code, Event.objects.exists()) == (409, False)
