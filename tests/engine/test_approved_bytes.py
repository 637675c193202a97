"""Law 7: what is sent is what was approved, compared at the moment of sending."""

from __future__ import annotations

import json
from dataclasses import replace

import psycopg
import pytest

from opsledger.engine.loading import AnyDefinition, read_files
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.models import Attempt, Hold
from opsledger.rules.definitions import DestinationDefinition
from tests.desk import DEFINITIONS, Desk, step_identity


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE ledger_steprequest SET body = convert_to(replace(convert_from(body, 'UTF8'), 'Call', 'Bill'), 'UTF8')",
        "UPDATE ledger_steprequest SET url = replace(url, '/crm/tasks', '/crm/tasks?x=1')",
        "UPDATE ledger_steprequest SET idempotency_key = 'another', headers = replace(headers, idempotency_key, 'another')",
        "UPDATE ledger_step SET request_digest = repeat('0', 64) WHERE number = 1",
    ],
    ids=["the body", "the address", "the key", "the approved digest"],
)
def test_bytes_other_than_the_approved_ones_never_leave(
    desk: Desk, database_urls: object, tampering: str
) -> None:
    opened = desk.open()
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:  # type: ignore[attr-defined]
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(tampering)

    desk.send()

    assert desk.sandbox.requests(identity=step_identity(opened.id, 1)) == []
    assert Hold.objects.get(operation_id=opened.id, closed_at=None).reason == "integrity_alarm"


def test_every_attempt_sends_the_same_bytes_under_the_same_key(desk: Desk) -> None:
    opened = desk.open()
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("rate_limited", 1, method="POST", identity=identity, retry_after="0")

    desk.send()
    desk.hurry()
    desk.send()

    requests = desk.sandbox.requests(identity=identity, method="POST")
    assert len(requests) == 2
    assert len({(one["body_sha256"], one["key"], one["path"]) for one in requests}) == 1


@pytest.mark.parametrize(
    ("subject", "missing"), [("Call ", ["header X-Subject"]), ("Call\r\nX-Admin: yes", ["header X-Subject"])]
)
def test_a_request_that_can_not_be_sent_is_asked_about_and_no_attempt_is_opened(
    desk: Desk, subject: str, missing: list[str]
) -> None:
    definitions = read_files([DEFINITIONS])
    load(desk.team.pk, [_with_header(one) for one in definitions], actor="command:test")
    forget_current()
    neighbour = desk.open("classic_follow_up")
    opened = desk.open("classic_follow_up", subject=subject)

    desk.send()

    hold = Hold.objects.get(operation_id=opened.id, closed_at=None)
    assert (hold.reason, json.loads(hold.facts)["missing"]) == ("data_missing", missing)
    assert "Call" not in hold.facts
    assert not Attempt.objects.filter(operation_id=opened.id).exists()
    assert desk.step(neighbour).state == "confirmed"


def _with_header(one: AnyDefinition) -> AnyDefinition:
    if not isinstance(one, DestinationDefinition) or one.slug != "crm_classic":
        return one
    action = one.actions["create_task"]
    request = replace(action.request, headers=(("X-Subject", "{params.subject}"),))
    return replace(one, actions={**one.actions, "create_task": replace(action, request=request)})
