"""Pages for people: what they show, that nothing in them is live, that nothing comes from outside."""

from __future__ import annotations

import re

import pytest
from raw_http import Arrived, ask, message, task

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer


def page(peer: SandboxPeer, path: str) -> str:
    arrived = ask(peer.url, "GET", path)
    assert arrived.status == 200
    check_headers(arrived)
    return arrived.body.decode()


def check_headers(arrived: Arrived) -> None:
    policy = arrived.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert arrived.headers["cache-control"] == "no-store"


def test_a_record_page_shows_the_record_and_what_made_it(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("lose_reply_after_acting")
    ask(peer.url, "POST", "/crm/tasks", task("op-1"), idempotency_key="k-1")
    shown = page(peer, "/crm/tasks/T-58213.html")
    for text in (
        "Follow up: order 8841",
        "launch-care",
        "2026-04-16",
        "op-1",
        "k-1",
        "lose reply after acting",
    ):
        assert text in shown
    assert "Took effect" in shown


def test_a_record_page_is_shown_before_searches_find_it(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("find_late", seconds=3600, reads=True)
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    assert "Follow up" in page(peer, "/crm/tasks/T-58213.html")


def test_a_second_record_of_the_identity_is_named(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("act_twice")
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    ask(peer.url, "POST", "/crm/tasks", task("op-2"))
    ask(peer.url, "POST", "/mail/messages", message("op-2"))
    assert "also carried by" in page(peer, "/crm/tasks/T-58213.html")
    assert "also carried by" not in page(peer, "/crm/tasks/T-58215.html")


@pytest.mark.parametrize(
    ("to", "advance_seconds", "word"),
    [
        ("a@example.org", 0, "Queued"),
        ("a@example.org", 90, "Delivered"),
        ("bounce@example.org", 90, "Bounced"),
    ],
)
def test_a_message_page_shows_its_state(
    peer: SandboxPeer, control: SandboxControl, to: str, advance_seconds: int, word: str
) -> None:
    control.mode(mail_delivery_seconds=60)
    ask(peer.url, "POST", "/mail/messages", message("op-1", to=to))
    control.advance(advance_seconds)
    assert f"</svg>{word}</span>" in page(peer, "/mail/messages/M-58213.html")


def test_records_are_found_by_identity_key_and_reference(peer: SandboxPeer) -> None:
    for identity in ("op-1", "op-2"):
        ask(peer.url, "POST", "/crm/tasks", task(identity), idempotency_key=f"key-{identity}")
    for sought in ("op-1", "key-op-1", "T-58213"):
        shown = page(peer, f"/records?q={sought}")
        assert "T-58213.html" in shown
        assert "T-58214.html" not in shown
    assert "Nothing here carries" in page(peer, "/records?q=op-3")


def test_older_rows_are_one_link_away(peer: SandboxPeer) -> None:
    for number in range(60):
        ask(peer.url, "POST", "/crm/tasks", task(f"op-{number}"))
    first = page(peer, "/records?q=op-")
    older = re.search(r'<a href="([^"]*effects_before[^"]*)">Older</a>', first)
    assert older
    second = page(peer, older[1].replace("&amp;", "&"))
    assert "T-58213.html" not in first
    assert "T-58213.html" in second


HOSTILE = '<b hx-post="/x" onclick="alert(1)">&amp;\u2028<script>alert(1)</script>'


def test_nothing_that_was_sent_becomes_markup(peer: SandboxPeer) -> None:
    fields = {"subject": HOSTILE, "queue": HOSTILE, HOSTILE: HOSTILE, "more": {HOSTILE: "\ud83d"}}
    ask(peer.url, "POST", "/crm/tasks", {"external_id": HOSTILE, **fields}, idempotency_key="<b>k")
    ask(peer.url, "GET", "/crm/tasks/%3Cb%3E<script>")
    for path in ("/crm/tasks/T-58213.html", "/records", "/records?q=%3Cscript%3E%22"):
        shown = page(peer, path)
        assert "<b " not in shown
        assert "<b>" not in shown
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown


def test_pages_ask_for_nothing_outside(peer: SandboxPeer) -> None:
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    for path in ("/records", "/crm/tasks/T-58213.html"):
        shown = page(peer, path)
        linked = re.findall(r'(?:href|src|action)="([^"]*)"', shown)
        assert linked
        assert all(link.startswith(("/", "#")) for link in linked)
        assert "style=" not in shown
    for asset in ("/assets/sandbox.css", "/assets/sandbox.svg"):
        assert ask(peer.url, "GET", asset).status == 200
        assert b"url(" not in ask(peer.url, "GET", asset).body


def test_looking_is_not_recorded_and_changes_nothing(peer: SandboxPeer, control: SandboxControl) -> None:
    for path in ("/", "/records", "/healthz", "/assets/sandbox.css", "/crm/tasks/T-1.html"):
        ask(peer.url, "GET", path)
    assert ask(peer.url, "POST", "/records", {}).status == 405
    assert control.requests() == []


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 303), ("/crm/tasks/T-1.html", 404), ("/assets/../peer.py", 404), ("/records?x=1", 400)],
)
def test_other_addresses_are_answered_plainly(peer: SandboxPeer, path: str, status: int) -> None:
    assert ask(peer.url, "GET", path).status == status


def test_people_may_give_the_token_as_a_password() -> None:
    with SandboxPeer(token="t0ken") as peer:
        assert "Basic" in ask(peer.url, "GET", "/records").raw.decode()
        assert ask(peer.url, "GET", "/records", authorization="Basic YW55OnQwa2Vu").status == 200
