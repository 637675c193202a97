"""What the same key means, by mode; its window; what differs; what is still running."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from raw_http import Arrived, RawClient, ask, message, task

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer
from opsledger.destinations.sandbox.modes import MODE_FOR_REPLAY, KeyMode
from opsledger.rules.profile import ReplayMeaning


def create(peer: SandboxPeer, identity: str = "op-1", key: str = "k-1", **fields: str) -> Arrived:
    return ask(peer.url, "POST", "/crm/tasks", task(identity, **fields), idempotency_key=key)


@dataclass(frozen=True)
class Row:
    """First request under this behaviour, then the same one again: the second status, and effects in all."""

    mode: str
    first: str
    second_status: int
    effects_count: int
    names_record: bool

    def __str__(self) -> str:
        return f"{self.mode}-after-{self.first}"


LOST, STORED_500, GATEWAY, BEFORE = (
    "lose_reply_after_acting",
    "error_after_acting",
    "error_after_acting_502",
    "lose_reply_before_acting",
)
TABLE = [
    Row("honour", LOST, 201, 1, True),
    Row("honour", STORED_500, 201, 1, True),
    Row("honour", GATEWAY, 201, 1, True),
    Row("honour", BEFORE, 201, 1, True),
    Row("ignore", LOST, 201, 2, True),
    Row("ignore", BEFORE, 201, 1, True),
    Row("replay_first", LOST, 201, 1, True),
    Row("replay_first", STORED_500, 500, 1, False),
    Row("replay_first", GATEWAY, 201, 1, True),
    Row("replay_first", BEFORE, 201, 1, True),
    Row("success_only", LOST, 201, 1, True),
    Row("success_only", STORED_500, 201, 2, True),
    Row("success_only", BEFORE, 201, 1, True),
    Row("current_state", LOST, 200, 1, True),
    Row("current_state", STORED_500, 200, 1, True),
    Row("error_with_reference", LOST, 409, 1, True),
    Row("error_with_reference", BEFORE, 201, 1, True),
    Row("error_without_reference", LOST, 409, 1, False),
    Row("error_without_reference", STORED_500, 409, 1, False),
    Row("answer_even_if_different", LOST, 201, 1, True),
    Row("answer_even_if_different", STORED_500, 500, 1, False),
]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_same_key_means_what_the_mode_says(peer: SandboxPeer, control: SandboxControl, row: Row) -> None:
    control.mode(keys=row.mode)
    if row.first == GATEWAY:
        control.script("error_after_acting", status=502)
    else:
        control.script(row.first)
    create(peer)
    second = create(peer)
    effects = control.effects(identity="op-1")
    assert (second.status, len(effects)) == (row.second_status, row.effects_count)
    assert (effects[-1]["reference"] in second.body.decode()) is row.names_record


def test_the_tables_cover_every_mode() -> None:
    assert {row.mode for row in TABLE} == set(KeyMode)
    assert set(MODE_FOR_REPLAY) == set(ReplayMeaning)


def test_a_replay_is_byte_for_byte_the_first_answer_and_marked(
    peer: SandboxPeer, control: SandboxControl
) -> None:
    first, second = create(peer), create(peer)
    assert (first.status, first.body) == (second.status, second.body)
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert control.requests()[1]["replay_of"] == control.requests()[0]["number"]
    control.mode(replay_marker=False)
    assert "idempotent-replayed" not in create(peer).headers


def test_current_state_shows_what_became_of_the_record(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(keys="current_state")
    reference = create(peer).json["id"]
    ask(peer.url, "PATCH", f"/crm/tasks/{reference}", {"queue": "other"})
    assert create(peer).json["queue"] == "other"


@pytest.mark.parametrize("status", [400, 409, 422])
@pytest.mark.parametrize(
    "mode", [mode for mode in KeyMode if mode not in ("ignore", "answer_even_if_different")]
)
def test_other_parameters_under_a_known_key_are_refused(
    peer: SandboxPeer, control: SandboxControl, mode: str, status: int
) -> None:
    control.mode(keys=mode, mismatch_status=status)
    create(peer)
    second = create(peer, subject="Another subject")
    assert second.status == status
    assert second.json["error"]["code"] == "key_reused_with_other_parameters"
    assert len(control.effects()) == 1


def test_the_old_answer_is_given_even_if_the_parameters_differ(
    peer: SandboxPeer, control: SandboxControl
) -> None:
    control.mode(keys="answer_even_if_different")
    first = create(peer)
    assert create(peer, subject="Another subject").body == first.body
    assert len(control.effects()) == 1


@pytest.mark.parametrize(("waited_seconds", "effects_count"), [(90, 1), (100, 2)], ids=["within", "past"])
def test_a_key_is_forgotten_after_its_window(
    peer: SandboxPeer, control: SandboxControl, waited_seconds: int, effects_count: int
) -> None:
    control.mode(key_window_seconds=100)
    create(peer)
    control.advance(waited_seconds)
    assert create(peer).status == 201
    assert len(control.effects()) == effects_count


def test_the_window_counts_from_the_first_arrival(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(key_window_seconds=100, keys="success_only")
    control.script("error_after_acting")
    create(peer)
    control.advance(60)
    create(peer)
    control.advance(60)
    create(peer)
    assert len(control.effects()) == 3


def test_a_window_may_have_no_end(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(key_window_seconds=None)
    create(peer)
    control.advance(10 * 366 * 86_400 / 10)
    create(peer)
    assert len(control.effects()) == 1


def test_a_key_past_its_window_can_be_refused(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(key_window_seconds=100, reuse_after_window="refused")
    create(peer)
    control.advance(101)
    assert create(peer).json["error"]["code"] == "key_used"
    assert len(control.effects()) == 1


@pytest.mark.parametrize("first", ["act_late", "answer"])
def test_a_key_is_in_use_until_its_request_has_acted(
    peer: SandboxPeer, control: SandboxControl, first: str
) -> None:
    control.script(first, seconds=60)
    with RawClient(peer.url) as client:
        client.ask_in_vain("POST", "/crm/tasks", task("op-1"), idempotency_key="k-1")
        assert create(peer).json["error"]["code"] == "request_in_progress"
        assert create(peer, subject="Other").json["error"]["code"] == "key_reused_with_other_parameters"
        assert create(peer, identity="op-2", key="k-2").status == 201
        control.advance(60)
        if first == "answer":
            assert client.receive().status == 201
    assert create(peer).headers["idempotent-replayed"] == "true"
    assert len(control.effects(identity="op-1")) == 1


def test_ten_at_once_under_one_key_act_once(peer: SandboxPeer, control: SandboxControl) -> None:
    start = threading.Barrier(10)
    replies: list[Arrived] = []

    def send() -> None:
        with RawClient(peer.url) as client:
            start.wait(10)
            replies.append(client.ask("POST", "/crm/tasks", task("op-1"), idempotency_key="k-1"))

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert {reply.status for reply in replies} == {201}
    assert len({reply.json["id"] for reply in replies}) == 1
    assert (len(control.requests()), len(control.effects())) == (10, 1)


def test_a_refusal_is_not_stored(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(keys="replay_first")
    assert create(peer, subject="").status == 422
    assert create(peer).status == 201


@pytest.mark.parametrize(("mode", "status"), [("replay_first", 500), ("honour", 201), ("success_only", 201)])
def test_an_error_before_acting_can_be_stored(
    peer: SandboxPeer, control: SandboxControl, mode: str, status: int
) -> None:
    control.mode(keys=mode)
    control.script("error_before_acting", status=500, stored=True)
    create(peer)
    assert create(peer).status == status


def test_keys_of_tasks_and_of_messages_are_apart(peer: SandboxPeer, control: SandboxControl) -> None:
    create(peer)
    assert ask(peer.url, "POST", "/mail/messages", message("op-1"), idempotency_key="k-1").status == 202
    assert len(control.effects()) == 2


def test_keys_are_compared_byte_for_byte(peer: SandboxPeer, control: SandboxControl) -> None:
    for key in ("k-1", "K-1", "k-1é", '"k-1"'):
        assert create(peer, key=key).status == 201
    assert len(control.effects()) == 4


@pytest.mark.parametrize("key", ["", "k" * 256], ids=["empty", "too long"])
def test_a_key_that_cannot_be_used_is_refused(peer: SandboxPeer, control: SandboxControl, key: str) -> None:
    assert create(peer, key=key).status == 400
    assert control.effects() == []


@pytest.mark.parametrize(("unique", "named"), [("named", True), ("unnamed", False)])
def test_an_external_id_can_be_unique(
    peer: SandboxPeer, control: SandboxControl, unique: str, named: bool
) -> None:
    control.mode(external_id_unique=unique)
    reference = ask(peer.url, "POST", "/crm/tasks", task("op-1")).json["id"]
    again = ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    assert (again.status, again.json["error"].get("id")) == (409, reference if named else None)
    assert ask(peer.url, "POST", "/crm/tasks", task("op-2")).status == 201
    assert len(control.effects()) == 2
