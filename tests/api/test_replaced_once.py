"""Of what an operation is replaced by there is one: two of them would both take effect."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from api_world import World, wanted
from blocked import behind
from django.db import IntegrityError, transaction
from test_concurrency import at_once

from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.intake import Wanted, open_intended
from opsledger.ledger.models import Operation
from opsledger.local.postgres import Urls


@pytest.fixture
def w(live_world: World) -> World:
    for own in ("x", "neighbour"):
        live_world.record(own, "by_hand")
        live_world.decide(own)
    return live_world


def replacing(own: str, earlier: str = "x", **more: Any) -> dict[str, Any]:
    return wanted(own, "by_hand") | {"replaces": earlier} | more


def test_another_replacement_is_refused_and_told_of_the_first_one(w: World) -> None:
    first = w.auto.post("/operations", replacing("y"))
    second = w.auto.post("/operations", replacing("z"))
    problem = second.json()
    assert (first.status_code, second.status_code, problem["code"]) == (201, 409, "replaced_already")
    assert problem["operation"]["id"] == first.json()["id"]
    assert "Operation y replaces it already" in problem["detail"]
    assert "Nothing was recorded" in problem["detail"]
    assert w.auto.post("/operations", replacing("n", "neighbour")).status_code == 201
    assert not Operation.objects.filter(operation_id="z").exists()
    assert w.auto.post("/operations", replacing("y")).status_code == 200


def test_the_replacement_may_be_replaced_itself_once_it_is_settled(w: World) -> None:
    w.auto.post("/operations", replacing("y"))
    assert w.auto.post("/operations", replacing("z", "y")).json()["code"] == "replaced_is_open"
    w.decide("y")
    assert w.auto.post("/operations", replacing("z", "y")).status_code == 201
    assert w.auto.post("/operations", replacing("last")).json()["code"] == "replaced_already"


def test_in_a_batch_the_first_one_replaces_it(w: World) -> None:
    body = {"items": [replacing("y"), replacing("z"), replacing("n", "neighbour"), replacing("y")]}
    items = w.auto.post("/operations/batch", body).json()["items"]
    assert [item["status"] for item in items] == [201, 409, 201, 200]
    assert items[1]["code"] == "replaced_already"
    assert items[1]["id"] == items[0]["id"] == items[3]["id"]
    assert "Operation y replaces it already" in items[1]["detail"]


def test_one_that_is_refused_in_a_batch_replaces_nothing(w: World) -> None:
    refused = replacing("y", owner="nobody@example.test")
    items = w.auto.post("/operations/batch", {"items": [refused, replacing("z")]}).json()["items"]
    assert [item["status"] for item in items] == [422, 201]


def test_of_twenty_at_once_one_replaces_it(w: World) -> None:
    answers = at_once(lambda index: w.auto.post("/operations", replacing(f"y{index}")))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"replaced_already"}
    assert Operation.objects.filter(replaces__operation_id="x").count() == 1


def test_what_may_be_replaced_is_judged_again_once_its_row_is_locked(w: World, database_urls: Urls) -> None:
    """It is read first without a lock; meanwhile somebody takes its end back."""

    def open_again(holder: psycopg.Connection) -> None:
        holder.execute("SET session_replication_role = replica")
        holder.execute(
            "UPDATE ledger_operation SET state = 'running', ended_at = NULL WHERE operation_id = 'x'"
        )

    answer = behind(database_urls, open_again, lambda: w.auto.post("/operations", replacing("y")))

    assert (answer.status_code, answer.json()["code"]) == (409, "replaced_is_open")


def test_the_database_refuses_a_second_one(w: World, owner_connection: psycopg.Connection) -> None:
    w.auto.post("/operations", replacing("y"))
    w.record("z", "by_hand")
    x = Operation.objects.get(operation_id="x")
    with pytest.raises(psycopg.errors.UniqueViolation, match="an_operation_is_replaced_once"):
        owner_connection.execute(
            "UPDATE ledger_operation SET replaces_id = %s WHERE operation_id = 'z'", [x.pk]
        )


def test_whoever_meets_the_referee_is_told_of_the_first_one(w: World, database_urls: Urls) -> None:
    """A writer that does not lock the earlier one has recorded a replacement that nobody can see yet."""
    x, team = Operation.objects.get(operation_id="x"), w.cast.launch.pk
    w.record("z", "by_hand")

    def unlocked(holder: psycopg.Connection) -> None:
        holder.execute("SET LOCAL session_replication_role = replica")
        holder.execute("UPDATE ledger_operation SET replaces_id = %s WHERE operation_id = 'z'", [x.pk])

    answer = behind(
        database_urls,
        unlocked,
        lambda: open_intended(
            team, [Wanted("y", "by_hand", {"subject": "s"}, replaces="x")], By("token:t", "t")
        ),
    )

    assert (answer[0].verdict, answer[0].opened.id) == (
        "replaced_already",
        Operation.objects.get(operation_id="z").pk,
    )
    with pytest.raises(IntegrityError), transaction.atomic():
        Operation.objects.create(**_copy_of(x))


def _copy_of(one: Operation) -> dict[str, Any]:
    kept = {field.attname: getattr(one, field.attname) for field in Operation._meta.concrete_fields}
    return kept | {"id": None, "operation_id": "copy", "replaces_id": one.pk}
