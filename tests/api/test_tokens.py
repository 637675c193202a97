"""Who may call what: no token, another team's, an automation's, a person's with that person's roles."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from api_world import Api, World, wanted
from django.utils import timezone
from lane_client import LaneClient

from opsledger.accounts import actions, tokens
from opsledger.accounts.permissions import Scope
from opsledger.api.calls import CALLS
from opsledger.ledger.models import Operation, Refusal

OP, ATT, HOLD, CV, RPL, PROP = (
    f"{prefix}_" + "0" * 26 for prefix in ("op", "att", "hold", "cv", "rpl", "prop")
)


def path_of(call: Any) -> str:
    return str(
        call.path.format(
            operation=OP,
            step="create_task",
            attempt=ATT,
            hold=HOLD,
            content="c",
            version=CV,
            replay=RPL,
            proposal=PROP,
        )
    )


def send(api: Api, call: Any) -> Any:
    if call.method == "GET":
        return api.get(path_of(call))
    return api.post(path_of(call), dict(call.example), if_match=1 if call.versioned else None)


# What the contract's table allows: which callers get past the door (404, 200, 201, 422 instead of 403).
MAY: dict[str, set[str]] = {
    "record_operation": {"auto"},
    "record_batch": {"auto"},
    "list_operations": {"auto", "viewer", "operator", "owner", "admin"},
    "read_operation": {"auto", "viewer", "operator", "owner", "admin"},
    "cancel_operation": {"owner"},
    "claim_step": {"auto"},
    "withdraw_answer": {"owner"},
    "add_evidence": {"auto"},
    "report_outcome": {"auto"},
    "extend_lease": {"auto"},
    "list_holds": {"auto", "viewer", "operator", "owner", "admin"},
    "read_hold": {"auto", "viewer", "operator", "owner", "admin"},
    "assign_hold": {"operator", "owner", "admin"},
    "note_hold": {"operator", "owner"},
    "check_hold": {"operator", "owner"},
    "propose_answer": {"auto", "operator", "owner"},
    "accept_proposal": {"owner"},
    "dismiss_proposal": {"auto", "operator", "owner"},
    "propose_version": {"auto", "operator", "owner"},
    "propose_any_version": {"auto", "operator", "owner"},
    "list_versions": {"auto", "viewer", "operator", "owner", "admin"},
    "list_any_versions": {"auto", "viewer", "operator", "owner", "admin"},
    "read_version": {"auto", "viewer", "operator", "owner", "admin"},
    "list_covered": {"auto", "viewer", "operator", "owner", "admin"},
    "list_approvals": {"auto", "viewer", "operator", "owner", "admin"},
    "read_request": {"auto", "viewer", "operator", "owner", "admin"},
    "approve_version": {"owner"},
    "reject_version": {"owner"},
    "approve_step": {"owner"},
    "reject_step": {"owner"},
    "plan_replay": {"owner"},
    "start_replay": {"owner"},
    "list_replays": {"auto", "viewer", "operator", "owner", "admin"},
    "read_replay": {"auto", "viewer", "operator", "owner", "admin"},
    "list_replay_items": {"auto", "viewer", "operator", "owner", "admin"},
    "pause_replay": {"owner"},
    "resume_replay": {"owner"},
    "abort_replay": {"owner"},
}


def test_the_permission_table_holds_for_every_call(world: World) -> None:
    for call in CALLS:
        if call.name == "settle_hold":
            continue  # depends on the answer: test_holds
        for name in ("auto", "viewer", "operator", "owner", "admin"):
            answer = send(getattr(world, name), call)
            passed = answer.status_code != 403
            assert passed == (name in MAY[call.name]), (call.name, name, answer.status_code)


def test_every_call_needs_a_token(world: World) -> None:
    for call in CALLS:
        answer = send(Api(None), call)
        assert answer.status_code == 401, call.name
        assert answer["WWW-Authenticate"] == "Bearer"
    row = Refusal.objects.get()
    assert (row.team, row.reason, row.count) == (None, "not_signed_in", len(CALLS))


@pytest.mark.parametrize(
    "header",
    [
        "Bearer opl_" + "x" * 43,
        "Bearer \xe9",
        "Bearer",
        "Basic abc",
        "Bearer opl_x, Bearer opl_y",
        "opl_x",
        "Bearer \x00",
    ],
    ids=["unknown", "not ascii", "empty", "basic", "twice", "bare", "nul"],
)
def test_a_header_that_is_no_live_token_is_a_401_and_counted(world: World, header: str) -> None:
    """S4: one byte of an anonymous caller gives no 500."""
    answer = LaneClient().get("/api/v1/operations", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert Refusal.objects.get().count == 1


def test_a_revoked_token_is_refused(world: World) -> None:
    made = actions.create_token(team=world.cast.launch, name="old", scopes=[Scope.READ])
    api = Api(made.text)
    assert api.get("/operations").status_code == 200
    actions.revoke_token(made.token)
    tokens.forget_all()
    assert api.get("/operations").status_code == 401


def test_scopes_narrow_what_a_token_may(world: World) -> None:
    reader = world.token("reader", Scope.READ)
    assert reader.get("/operations").status_code == 200
    answer = reader.post("/operations", wanted())
    assert answer.status_code == 403
    assert "scopes (read)" in answer.json()["detail"]
    assert not Operation.objects.exists()


def test_a_persons_token_loses_what_the_person_loses(world: World) -> None:
    world.record()
    assert world.operator.get("/operations/order:1").status_code == 200
    actions.set_roles(world.cast.omar, world.cast.launch, [])
    assert world.operator.get("/operations/order:1").status_code == 403


def test_a_refusal_says_why(world: World) -> None:
    world.record()
    said = world.auto.post("/operations/order:1/cancel", {"reason": "x"}).json()["detail"]
    assert said.startswith(
        "An automation’s token can’t cancel an operation: that needs a person’s own token."
    )
    said = world.operator.post("/operations/order:1/cancel", {"reason": "x"}).json()["detail"]
    assert "needs the role owner in this team" in said
    assert (
        world.owner.post("/operations", wanted("2"))
        .json()["detail"]
        .startswith("A person’s token can’t record")
    )


def test_a_session_opens_nothing_here(world: World) -> None:
    client = LaneClient(enforce_csrf_checks=True)
    client.force_login(world.cast.olga, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get("/api/v1/operations").status_code == 401
    assert client.post("/api/v1/operations", b"{}", content_type="application/json").status_code == 401


def test_a_token_needs_no_csrf(world: World) -> None:
    made = actions.create_token(
        team=world.cast.launch,
        name="csrf",
        scopes=[Scope.RECORD],
        expires_at=timezone.now() + timedelta(days=1),
    )
    answer = LaneClient(enforce_csrf_checks=True).post(
        "/api/v1/operations",
        json.dumps(wanted()),
        content_type="application/json",
        headers={"Authorization": f"bearer {made.text}"},
    )
    assert answer.status_code == 201


def test_another_method_is_a_405_that_names_the_right_one(world: World) -> None:
    answer = LaneClient().put("/api/v1/operations")
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, POST"
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/api/v2/operations", "/api/v1/operations/x/y", "/api/v1/"]
)
def test_an_unknown_address_is_a_problem_too(world: World, path: str) -> None:
    answer = LaneClient().post(path)
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"
