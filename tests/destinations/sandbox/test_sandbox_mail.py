"""Mail: taken over at once, delivered later, searched with its own lag, reported with a signature."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from raw_http import ask, message

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer


@dataclass
class Receiver:
    """A receiver of delivery reports; it answers with the next of `statuses`, then 200."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    received: queue.Queue[tuple[str, bytes]] = field(default_factory=queue.Queue)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            receiver.received.put((self.headers["X-Sandbox-Signature"], body))

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}/reports?box=1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()


def status(peer: SandboxPeer, reference: str) -> str:
    return str(ask(peer.url, "GET", f"/mail/messages/{reference}").json["status"])


def test_a_message_is_queued_then_delivered(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(mail_delivery_seconds=60)
    sent = ask(peer.url, "POST", "/mail/messages", message("op-1"))
    assert (sent.status, sent.json) == (202, {"id": "M-58213", "status": "queued"})
    assert status(peer, "M-58213") == "queued"
    control.advance(60)
    assert status(peer, "M-58213") == "delivered"


@pytest.mark.parametrize(
    ("outcome", "to", "ends_as"),
    [
        ("delivered", "buyer@example.org", "delivered"),
        ("bounced", "buyer@example.org", "bounced"),
        ("never", "buyer@example.org", "queued"),
        ("delivered", "Bounce-7@example.org", "bounced"),
    ],
)
def test_how_a_message_ends(
    peer: SandboxPeer, control: SandboxControl, outcome: str, to: str, ends_as: str
) -> None:
    control.mode(mail_outcome=outcome)
    ask(peer.url, "POST", "/mail/messages", message("op-1", to=to))
    control.advance(86_400)
    assert status(peer, "M-58213") == ends_as


@pytest.mark.parametrize(
    "fields",
    [
        {"to": "nobody"},
        {"to": ""},
        {"text": None},
        {"metadata": {"operation": 5}},
        {"metadata": []},
        {"status": "x"},
    ],
    ids=str,
)
def test_a_wrong_message_is_refused(
    peer: SandboxPeer, control: SandboxControl, fields: dict[str, object]
) -> None:
    reply = ask(peer.url, "POST", "/mail/messages", message("op-1", **fields))
    assert reply.status == 422
    assert [one["field"].partition(".")[0] for one in reply.json["error"]["fields"]] == list(fields)
    assert control.effects() == []


def test_the_mail_search_has_its_own_lag(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(mail_search_lag_seconds=30)
    for identity in ("op-1", "op-2"):
        ask(peer.url, "POST", "/mail/messages", message(identity))

    def found() -> list[str]:
        return [
            one["id"] for one in ask(peer.url, "GET", "/mail/messages?metadata_operation=op-1").json["items"]
        ]

    assert found() == []
    control.advance(30)
    assert found() == ["M-58213"]


def test_tasks_and_messages_are_not_found_in_each_others_place(peer: SandboxPeer) -> None:
    ask(peer.url, "POST", "/mail/messages", message("op-1"))
    assert ask(peer.url, "GET", "/crm/tasks?external_id=op-1").json["items"] == []
    assert ask(peer.url, "GET", "/crm/tasks/M-58213").status == 404


def test_a_report_is_signed_over_its_bytes(
    peer: SandboxPeer, control: SandboxControl, receiver: Receiver
) -> None:
    control.mode(report_url=receiver.url, report_secret="of two", mail_delivery_seconds=60)
    ask(peer.url, "POST", "/mail/messages", message("op-1"))
    assert receiver.received.empty()
    control.advance(60)
    signature, body = receiver.received.get(timeout=10)
    parts = dict(part.split("=") for part in signature.split(","))
    expected = hmac.new(b"of two", parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert parts["v1"] == expected
    report = json.loads(body)
    assert (report["type"], report["message_id"]) == ("delivered", "M-58213")
    assert report["metadata"] == {"operation": "op-1"}


def test_a_report_that_is_not_taken_comes_again(
    peer: SandboxPeer, control: SandboxControl, receiver: Receiver
) -> None:
    receiver.statuses = [500, 302]
    control.mode(report_url=receiver.url, mail_delivery_seconds=0)
    ask(peer.url, "POST", "/mail/messages", message("op-1"))
    bodies = [receiver.received.get(timeout=10)[1]]
    while len(bodies) < 3:
        control.advance(30)
        try:
            bodies.append(receiver.received.get(timeout=0.2)[1])
        except queue.Empty:
            continue
    assert len(set(bodies)) == 1


def test_reports_can_come_in_copies(peer: SandboxPeer, control: SandboxControl, receiver: Receiver) -> None:
    control.mode(report_url=receiver.url, report_copies=2, mail_delivery_seconds=0)
    ask(peer.url, "POST", "/mail/messages", message("op-1", to="bounce@example.org"))
    events = [json.loads(receiver.received.get(timeout=10)[1]) for _ in range(2)]
    assert events[0] == events[1]
    assert events[0]["type"] == "bounced"


def test_a_report_url_that_nobody_answers_is_given_up(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(report_url="http://127.0.0.1:1/", mail_delivery_seconds=0)
    ask(peer.url, "POST", "/mail/messages", message("op-1"))
    while not peer.world.store.rows("SELECT 1 FROM reports WHERE ended LIKE 'given up%'"):
        control.advance(200)
    assert peer.failures == []
