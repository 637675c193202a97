"""Which rule wins, how often, and chance that a seed repeats."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from raw_http import RawClient, ask, task

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer, SandboxRefused


def used(control: SandboxControl, identity: str | None = None) -> list[str]:
    return [request["behaviour"] for request in control.requests(identity=identity)]


def create(peer: SandboxPeer, identity: str, **headers: str) -> None:
    ask(peer.url, "POST", "/crm/tasks", task(identity), **headers)


def test_the_first_rule_that_fits_wins_and_counts_down(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("rate_limited", count=2)
    control.script("forbidden", count=None)
    for _ in range(4):
        create(peer, "op-1")
    assert used(control) == ["rate_limited", "rate_limited", "forbidden", "forbidden"]
    assert [rule["behaviour"] for rule in control.rules()] == ["forbidden"]


@pytest.mark.parametrize(
    "match",
    [
        {"method": "POST"},
        {"path": "/crm/tasks"},
        {"path": "/crm/*"},
        {"identity": "op-1"},
        {"key": "k-1"},
        {"nth": 1},
        {"method": "POST", "identity": "op-1", "key": "k-1"},
    ],
    ids=str,
)
def test_a_rule_meets_what_it_names(
    peer: SandboxPeer, control: SandboxControl, match: dict[str, Any]
) -> None:
    control.script("forbidden", **match)
    create(peer, "op-1", idempotency_key="k-1")
    assert used(control) == ["forbidden"]


@pytest.mark.parametrize(
    "match",
    [
        {"method": "GET"},
        {"path": "/crm/task"},
        {"path": "/mail/*"},
        {"identity": "op"},
        {"key": "k"},
        {"nth": 2},
    ],
    ids=str,
)
def test_a_rule_leaves_others_alone(
    peer: SandboxPeer, control: SandboxControl, match: dict[str, Any]
) -> None:
    control.script("forbidden", **match)
    create(peer, "op-1", idempotency_key="k-1")
    assert used(control) == ["answer"]


def test_nth_counts_the_requests_that_fit_the_rest(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("forbidden", identity="op-1", nth=3)
    for identity in ("op-1", "op-2", "op-1", "op-2", "op-1", "op-1"):
        create(peer, identity)
    assert used(control, "op-1") == ["answer", "answer", "forbidden", "answer"]
    assert used(control, "op-2") == ["answer", "answer"]


def test_a_rule_for_creates_lets_lookups_pass(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("act_twice")
    ask(peer.url, "GET", "/crm/tasks?external_id=op-1")
    create(peer, "op-1")
    assert used(control) == ["answer", "act_twice"]


@pytest.mark.parametrize(
    ("path", "document", "fields"),
    [
        ("script", {"behaviour": "explode"}, ["behaviour"]),
        ("script", {"behaviour": "answer", "counts": 1}, ["counts"]),
        ("script", {"behaviour": "answer", "match": {"verb": "GET"}}, ["match.verb"]),
        ("script", {"behaviour": "answer", "match": []}, ["match"]),
        (
            "script",
            {"behaviour": "drip", "options": {"pace": 1, "interval": -1}},
            ["options.pace", "options.interval"],
        ),
        ("script", {"behaviour": "redirect", "options": {"status": 200}}, ["options.status"]),
        ("script", {"behaviour": "redirect", "options": {"location": "/a\r\nX: y"}}, ["options.location"]),
        ("script", {"behaviour": "act_late", "options": {"seconds": True}}, ["options.seconds"]),
        ("script", {"behaviour": "early_answer", "match": {"identity": "x"}}, ["match.identity"]),
        ("script", {"behaviour": "answer", "count": 0}, ["count"]),
        ("random", {"seed": "x"}, ["seed"]),
        ("random", {"seed": 1, "weights": {"answer": -1}}, ["weights.answer"]),
        ("random", {"seed": 1, "weights": {"explode": 1}}, ["weights.explode.behaviour"]),
        ("random", {"seed": 1, "weights": {"early_answer": 1}}, ["weights.early_answer"]),
        ("random", {"seed": 1, "weights": {"drip": {"weight": 1, "option": {}}}}, ["weights.drip.option"]),
        ("mode", {"keys": "sometimes", "page_sizes": 2}, ["page_sizes", "keys"]),
        ("mode", {"report_url": "file:///etc/passwd"}, ["report_url"]),
        ("clock", {"advance_seconds": -1}, ["advance_seconds"]),
        ("reset", {"only": ["everything"]}, ["only"]),
    ],
    ids=str,
)
def test_wrong_control_input_is_refused_by_name(
    peer: SandboxPeer, control: SandboxControl, path: str, document: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(SandboxRefused) as refused:
        control._call("POST", path, document)
    assert (refused.value.status, list(refused.value.fields)) == (422, fields)
    assert (control.rules(), control.mode()["page_size"]) == ([], 5)


def test_control_wants_json_from_whoever_posts(peer: SandboxPeer) -> None:
    reply = ask(peer.url, "POST", "/_sandbox/reset", b"{}", content_type="text/plain")
    assert reply.status == 415


def test_control_says_what_there_is(peer: SandboxPeer) -> None:
    assert ask(peer.url, "GET", "/_sandbox/nothing").status == 404
    assert ask(peer.url, "GET", "/_sandbox/reset").status == 405
    shown = ask(peer.url, "GET", "/_sandbox/behaviours").json
    assert shown["behaviours"]["drip"]["options"]["interval"]["default"] == 0.5
    assert "replay_first" in shown["mode"]["keys"]


# Chance

IDENTITIES = [f"op-{number}" for number in range(40)]
WEIGHTS = {"answer": 3, "rate_limited": 1, "error_after_acting": {"weight": 1, "options": {"status": 502}}}


def drawn(control: SandboxControl) -> dict[str, list[str]]:
    return {identity: used(control, identity) for identity in IDENTITIES}


def send_in(peer: SandboxPeer, threads_count: int) -> None:
    """Three requests per identity, in order per identity, spread over threads."""

    def send(mine: list[str]) -> None:
        with RawClient(peer.url) as client:
            for identity in mine:
                for _ in range(3):
                    client.ask("POST", "/crm/tasks", task(identity))

    threads = [
        threading.Thread(target=send, args=(IDENTITIES[start::threads_count],))
        for start in range(threads_count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_the_same_seed_draws_the_same_whatever_the_order(peer: SandboxPeer, control: SandboxControl) -> None:
    control.random(7, WEIGHTS)
    send_in(peer, 1)
    alone = drawn(control)
    control.reset("records")
    control.random(7, WEIGHTS)
    send_in(peer, 8)
    assert drawn(control) == alone
    assert {name for names in alone.values() for name in names} == set(WEIGHTS)
    assert any(len(set(names)) > 1 for names in alone.values())


def test_another_seed_draws_otherwise(peer: SandboxPeer, control: SandboxControl) -> None:
    control.random(7, WEIGHTS)
    send_in(peer, 1)
    seven = drawn(control)
    control.reset("records")
    control.random(8, WEIGHTS)
    send_in(peer, 1)
    assert drawn(control) != seven


def test_weights_are_proportions(peer: SandboxPeer, control: SandboxControl) -> None:
    control.random(1, {"answer": 3, "rate_limited": 1, "forbidden": 0})
    for number in range(200):
        create(peer, f"many-{number}")
    names = used(control)
    assert 30 <= names.count("rate_limited") <= 70
    assert "forbidden" not in names


def test_lookups_are_drawn_apart_and_do_not_shift_the_writes(
    peer: SandboxPeer, control: SandboxControl
) -> None:
    control.random(7, WEIGHTS)
    send_in(peer, 1)
    alone = drawn(control)
    control.reset("records")
    control.random(7, WEIGHTS, {"error_before_acting": 1})
    for identity in IDENTITIES:
        assert ask(peer.url, "GET", f"/crm/tasks?external_id={identity}").status == 503
    send_in(peer, 1)
    assert {identity: names[1:] for identity, names in drawn(control).items()} == alone


def test_a_rule_comes_before_chance(peer: SandboxPeer, control: SandboxControl) -> None:
    control.random(7, {"forbidden": 1})
    control.script("answer", identity="op-1")
    create(peer, "op-1")
    create(peer, "op-2")
    assert used(control) == ["answer", "forbidden"]


def test_chance_can_be_turned_off(peer: SandboxPeer, control: SandboxControl) -> None:
    control.random(7, {"forbidden": 1})
    control.random(None)
    create(peer, "op-1")
    assert used(control) == ["answer"]


def test_the_default_weights_can_all_be_drawn() -> None:
    with SandboxPeer(seed=3) as peer:
        control = SandboxControl(peer.url)
        for number in range(300):
            create(peer, f"many-{number}")
        assert len(set(used(control))) >= 10
        assert len(control.requests()) == 300
