"""What the peer remembers: over restarts, SIGTERM, resets, and two thousand requests at once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from raw_http import RawClient, ask, message, task

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer
from opsledger.destinations.sandbox.peer import PeerUnavailable
from opsledger.destinations.sandbox.store import StateUnusable

CHECKOUT = Path(__file__).resolve().parents[3]


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The peer as its own process, and its address."""
    command = [sys.executable, "-m", "opsledger.destinations.sandbox", "--port", "0", *arguments]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            assert line.startswith("The sandbox peer listens on http://127.0.0.1:"), line
            yield running, line.split()[-1]
        finally:
            running.kill()


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "sandbox.sqlite3")


def test_a_restart_keeps_everything(state: str) -> None:
    with SandboxPeer(state=state) as peer:
        control = SandboxControl(peer.url)
        control.mode(keys="replay_first", search_lag_seconds=100)
        control.advance(50)
        control.random(7, {"answer": 1, "forbidden": 1})
        control.script("forbidden", count=2, identity="op-2", nth=None)
        control.script("error_after_acting", identity="op-1")
        ask(peer.url, "POST", "/crm/tasks", task("op-1"), idempotency_key="k-1")
        ask(peer.url, "POST", "/crm/tasks", task("op-2"))
        before = control.requests(), control.effects(), control.rules(), control.mode()
        clock = ask(peer.url, "GET", "/_sandbox/clock").json["advanced_seconds"]
        chance = ask(peer.url, "GET", "/_sandbox/random").json
    with SandboxPeer(state=state) as peer:
        control = SandboxControl(peer.url)
        assert (control.requests(), control.effects(), control.rules(), control.mode()) == before
        assert ask(peer.url, "GET", "/_sandbox/clock").json["advanced_seconds"] == clock == 50
        assert ask(peer.url, "GET", "/_sandbox/random").json == chance
        control.random(None)
        again = ask(peer.url, "POST", "/crm/tasks", task("op-1"), idempotency_key="k-1")
        assert (again.status, again.headers["idempotent-replayed"]) == (500, "true")
        assert ask(peer.url, "GET", "/crm/tasks?external_id=op-1").json["items"] == []
        control.advance(100)
        assert len(ask(peer.url, "GET", "/crm/tasks?external_id=op-1").json["items"]) == 1


def test_chance_goes_on_after_a_restart_where_it_stood(state: str) -> None:
    def send(peer: SandboxPeer, count: int) -> list[str]:
        for _ in range(count):
            ask(peer.url, "POST", "/crm/tasks", task("op-1"))
        return [request["behaviour"] for request in SandboxControl(peer.url).requests()]

    with SandboxPeer() as peer:
        SandboxControl(peer.url).random(5, {"answer": 1, "forbidden": 1, "invalid": 1})
        unbroken = send(peer, 12)
    with SandboxPeer(state=state) as peer:
        SandboxControl(peer.url).random(5, {"answer": 1, "forbidden": 1, "invalid": 1})
        send(peer, 5)
    with SandboxPeer(state=state) as peer:
        assert send(peer, 7) == unbroken


def test_a_late_act_survives_a_restart(state: str) -> None:
    with SandboxPeer(state=state) as peer:
        SandboxControl(peer.url).script("act_late", seconds=60)
        ask(peer.url, "POST", "/crm/tasks", task("op-1"), idempotency_key="k-1")
    with SandboxPeer(state=state) as peer:
        control = SandboxControl(peer.url)
        waiting = ask(peer.url, "POST", "/crm/tasks", task("op-1"), idempotency_key="k-1")
        assert waiting.json["error"]["code"] == "request_in_progress"
        control.advance(60)
        assert [effect["identity"] for effect in control.effects()] == ["op-1"]


def test_a_key_whose_request_was_interrupted_is_free_again(state: str) -> None:
    with SandboxPeer(state=state) as peer, RawClient(peer.url) as client:
        SandboxControl(peer.url).script("answer", seconds=3600)
        assert client.ask_in_vain("POST", "/crm/tasks", task("op-1"), idempotency_key="k-1").end == "silent"
    with SandboxPeer(state=state) as peer:
        assert ask(peer.url, "POST", "/crm/tasks", task("op-1"), idempotency_key="k-1").status == 201
        requests = SandboxControl(peer.url).requests()
        assert [request["acted"] for request in requests] == [False, True]


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_what_was_answered_survives_the_process(state: str, number: signal.Signals) -> None:
    answered: list[str] = []

    def send(url: str) -> None:
        with RawClient(url) as client:
            for place in range(5_000):
                reply = client.ask("POST", "/crm/tasks", task(f"op-{place}"))
                if reply.status != 201:
                    return
                answered.append(reply.json["id"])
                if place == 200:
                    enough.set()

    enough = threading.Event()
    with process("--state", state) as (running, url):
        sender = threading.Thread(target=send, args=(url,))
        sender.start()
        assert enough.wait(30)
        running.send_signal(number)
        code = running.wait(30)
        sender.join(30)
    assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert len(answered) < 5_000
    with SandboxPeer(state=state) as peer:
        effects = SandboxControl(peer.url).effects()
        requests = SandboxControl(peer.url).requests()
    assert {effect["reference"] for effect in effects} >= set(answered)
    assert len({effect["request"] for effect in effects}) == len(effects) <= len(requests)


def test_two_thousand_requests_in_threads_lose_nothing(peer: SandboxPeer, control: SandboxControl) -> None:
    behaviours = {
        "answer": 6,
        "lose_reply_after_acting": 1,
        "error_after_acting": 1,
        "error_before_acting": 1,
    }
    control.random(11, behaviours)
    start = threading.Barrier(20)

    def send(mine: int) -> None:
        start.wait(10)
        client = RawClient(peer.url)
        for place in range(100):
            if client.ask("POST", "/crm/tasks", task(f"op-{mine}-{place}")).end != "open":
                client.sock.close()
                client = RawClient(peer.url)
        client.sock.close()

    threads = [threading.Thread(target=send, args=(mine,)) for mine in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    requests, effects = control.requests(), control.effects()
    assert len(requests) == 2_000
    assert len({request["identity"] for request in requests}) == 2_000
    acted = {request["number"] for request in requests if request["behaviour"] != "error_before_acting"}
    assert {request["number"] for request in requests if request["acted"]} == acted
    assert {effect["request"] for effect in effects} == acted
    assert len({effect["reference"] for effect in effects}) == len(effects) == len(acted)


def test_a_reset_forgets_all_and_uses_no_reference_twice(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(page_size=2)
    control.script("act_late", identity="op-late", seconds=10)
    control.script("forbidden", count=None, identity="x")
    for identity in ("op-late", "op-1"):
        ask(peer.url, "POST", "/crm/tasks", task(identity), idempotency_key=identity)
    first = control.effects()[0]["reference"]
    control.reset()
    control.advance(10)
    assert (control.requests(), control.effects(), control.rules()) == ([], [], [])
    assert control.mode()["page_size"] == 5
    again = ask(peer.url, "POST", "/crm/tasks", task("op-1"), idempotency_key="op-1")
    assert again.status == 201
    assert again.json["id"] > first


def test_a_reset_of_a_part_leaves_the_rest(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(page_size=2)
    control.script("forbidden", identity="x")
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    control.reset("script")
    assert (control.rules(), len(control.effects()), control.mode()["page_size"]) == ([], 1, 2)


def test_a_request_from_before_a_reset_does_not_act_after_it(
    peer: SandboxPeer, control: SandboxControl
) -> None:
    control.script("answer", seconds=60)
    with RawClient(peer.url) as client:
        assert client.ask_in_vain("POST", "/crm/tasks", task("op-1")).end == "silent"
        control.reset("records")
        control.advance(60)
        assert client.receive().raw == b""
    assert control.effects() == []


def test_pages_of_the_record_lead_through_all(peer: SandboxPeer, control: SandboxControl) -> None:
    for number in range(5):
        ask(peer.url, "POST", "/mail/messages", message(f"op-{number}"))
    page = ask(peer.url, "GET", "/_sandbox/requests?limit=2").json
    assert ([item["number"] for item in page["items"]], page["next"]) == ([1, 2], 2)
    assert [one["number"] for one in control.requests(since=3)] == [4, 5]


@pytest.mark.process
def test_one_state_file_serves_one_peer(state: str) -> None:
    with process("--state", state) as (_, url):
        with pytest.raises(StateUnusable, match="another sandbox peer"):
            SandboxPeer(state=state).start()
        assert ask(url, "POST", "/crm/tasks", task("op-1")).status == 201


@pytest.mark.parametrize("kind", ["text", "other database", "other format", "folder"])
def test_a_file_that_is_no_state_is_refused_untouched(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("not a database, but long enough to look at")
    else:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE mine (x)" if kind == "other database" else "PRAGMA user_version = 99")
        other.close()
    before = None if kind == "folder" else path.read_bytes()
    with pytest.raises(StateUnusable, match="state"):
        SandboxPeer(state=str(path)).start()
    if before is not None and kind == "text":
        assert path.read_bytes() == before


def test_a_port_in_use_is_said(peer: SandboxPeer) -> None:
    with pytest.raises(PeerUnavailable, match="can't listen on"):
        SandboxPeer(port=int(peer.url.rpartition(":")[2])).start()


@pytest.mark.process
def test_the_command_says_why_it_cannot_start(peer: SandboxPeer) -> None:
    command = [sys.executable, "-m", "opsledger.destinations.sandbox", "--port", peer.url.rpartition(":")[2]]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "can't listen on" in ended.stderr


@pytest.mark.process
def test_the_package_needs_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import opsledger.destinations.sandbox.__main__;"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(tops - set(sys.stdlib_module_names) - {'opsledger'}),"
        "sorted(n for n in sys.modules if n.startswith('opsledger.') and 'sandbox' not in n))"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[] ['opsledger.destinations']\n"


def test_stopping_twice_or_unstarted_is_nothing() -> None:
    SandboxPeer().stop()
    peer = SandboxPeer().start()
    peer.stop()
    peer.stop()
