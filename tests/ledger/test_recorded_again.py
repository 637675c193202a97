"""An operation that the ledger has forgotten (a restored backup) and that is recorded again finds its own traces."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from uuid import UUID

import psycopg
import pytest

from opsledger.ledger.actions.open import Opened
from opsledger.ledger.models import Evidence, Operation, Step, StepRequest
from opsledger.lib.ids import public
from opsledger.local.postgres import Urls
from tests.by_hand import change_by_hand
from tests.desk import Desk, params, step_identity


def forget_operations(urls: Urls) -> None:
    """What a backup from before does to operations: they were never there. The database refuses it as long as it can."""
    keys = "ledger_operationparams, ledger_steprequest, ledger_evidence, ledger_heldreference"
    with psycopg.connect(urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(f"TRUNCATE ledger_operation, ledger_step, ledger_attempt, {keys} CASCADE")


def frozen(opened: Opened) -> dict[str, tuple[Any, ...]]:
    """Per step that has a request: its identity, its key, and all that is sent."""
    rows = StepRequest.objects.filter(step__operation_id=opened.id).select_related("step")
    return {
        row.step.name: (row.step.identity, row.idempotency_key, row.digest, bytes(row.body)) for row in rows
    }


def test_it_has_the_same_identity_key_and_bytes_though_its_own_number_is_another(
    desk: Desk, database_urls: Urls
) -> None:
    first = desk.open(operation_id="shop:1")
    neighbour = desk.open(operation_id="shop:2")
    before, other = frozen(first), frozen(neighbour)
    forget_operations(database_urls)
    assert not Operation.objects.exists()

    again = desk.open(operation_id="shop:1")

    assert again.new
    assert again.id != first.id
    assert frozen(again) == before
    assert before["create_task"][:2] != other["create_task"][:2]


def test_what_was_sent_is_not_done_twice_where_the_destination_honours_keys(
    desk: Desk, database_urls: Urls
) -> None:
    first = desk.open(operation_id="shop:1")
    desk.send()
    reference = desk.step(first).reference
    assert reference
    forget_operations(database_urls)

    again = desk.open(operation_id="shop:1")
    desk.send()

    assert desk.step(again).reference == reference
    assert len(desk.sandbox.effects(identity=step_identity(again.id, 1))) == 1


@pytest.mark.parametrize("number", [1, 2], ids=["as stored", "from before it was stored"])
def test_a_lookup_asks_for_the_identity_that_was_sent(desk: Desk, database_urls: Urls, number: int) -> None:
    opened = desk.open("classic_follow_up")
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("lose_reply_before_acting", 1, method="POST", identity=identity)
    desk.send()
    if number == 2:
        identity = f"{public('op', opened.id)}-1"
        change_by_hand(
            database_urls, "UPDATE ledger_step SET identity = NULL WHERE operation_id = %s", opened.id
        )
    reference = make_task(desk, identity)
    desk.hurry()
    desk.look()
    assert desk.step(opened).reference == reference
    assert Evidence.objects.get(kind="lookup", operation_id=opened.id).says == "found"


def make_task(desk: Desk, identity: str) -> str:
    wanted = params("classic_follow_up")
    body = {name: wanted[name] for name in ("subject", "queue", "due_date", "account")}
    request = urllib.request.Request(
        f"{desk.sandbox.url}/crm/tasks",
        json.dumps(body | {"external_id": identity}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return str(json.loads(reply.read())["id"])


def test_a_step_that_was_rendered_before_keeps_its_frozen_key_and_its_identity(
    desk: Desk, database_urls: Urls
) -> None:
    opened = desk.open()
    before = StepRequest.objects.values_list("idempotency_key", "body").get(step__operation_id=opened.id)
    change_by_hand(database_urls, "UPDATE ledger_step SET identity = NULL WHERE operation_id = %s", opened.id)
    desk.send()
    second = StepRequest.objects.get(step__operation_id=opened.id, step__number=2)
    assert f"{public('op', opened.id)}-2".encode() in bytes(second.body)
    after = StepRequest.objects.values_list("idempotency_key", "body").get(
        step__operation_id=opened.id, step__number=1
    )
    assert (after[0], bytes(after[1])) == (before[0], bytes(before[1]))


def test_no_two_steps_share_an_identity(desk: Desk) -> None:
    ids: list[UUID] = [desk.open().id for _ in range(3)]
    identities = Step.objects.filter(operation_id__in=ids).values_list("identity", flat=True)
    assert len(set(identities)) == len(identities) == 6
