"""What every kind of source and every delivery profile must do, whoever sends."""

from __future__ import annotations

import inspect

import pytest

from opsledger.rules.definition_types import SourceDefinition
from opsledger.sources.profiles import PROFILES, completed
from opsledger.sources.refusals import Refusal
from opsledger.sources.registry import KINDS, receive
from opsledger.sources.signed_webhook import Occurrence

from .senders import NOW, delivery, secret, source

EVERYTHING = (
    b'{"id":"e1","event_id":"e1","action_run_id":"e1","type":"t","created":1793707200,"event_time":1793707200,'
    b'"timestamp":"2026-11-03T12:00:00Z","event":{"type":"t"}}'
)
NAMED = {
    "X-Shopify-Webhook-Id": "e1",
    "X-Shopify-Topic": "t",
    "X-Shopify-Triggered-At": "2026-11-03T12:00:00Z",
    "X-GitHub-Delivery": "e1",
    "X-GitHub-Event": "t",
}


def sent(of: SourceDefinition, raw: bytes) -> list[tuple[str, str | bytes]]:
    return [*delivery(of, raw, event_id="e1"), *NAMED.items()]


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_finds_the_event_and_its_time(name: str) -> None:
    of = source(delivery=name)
    occurrence = receive(of, sent(of, EVERYTHING), EVERYTHING, NOW, [secret()], bytes_max=1000)
    assert isinstance(occurrence, Occurrence)
    assert (occurrence.event_id, occurrence.operation_id) == ("e1", "shop:e1")
    assert occurrence.topic == ("t" if PROFILES[name].topic else "")
    assert occurrence.occurred_at == (NOW if PROFILES[name].occurred_at else None)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(
    "raw",
    [b"", b"null", b"[" * 20_000, b'{"id":"a","id":"b"}', b"\xff\xfe", b'{"id":"\\u0000"}'],
    ids=lambda raw: repr(raw)[:12],
)
def test_hostile_bodies_are_answered_and_never_raise(name: str, raw: bytes) -> None:
    of = source(delivery=name)
    for headers in (sent(of, raw), [], [(key, "\u00e9") for key, _ in sent(of, raw)]):
        answer = receive(of, headers, raw, NOW, [secret()], bytes_max=100_000)
        assert isinstance(answer, Refusal) or b"u0000" in raw
        assert not isinstance(answer, Refusal) or answer.status in {400, 401}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_says_where_it_is_documented(name: str) -> None:
    assert PROFILES[name].documented.startswith("https://")


def test_what_a_source_writes_itself_stands_above_its_profile() -> None:
    of = completed(source(delivery="stripe", event_id="body:other", answer_done=204, topic="body:kind"))
    assert (of.event_id, of.answer_done, of.topic) == ("body:other", 204, "body:kind")
    assert of.occurred_at == "body:created"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_a_module_with_receive(kind: str) -> None:
    parameters = inspect.signature(KINDS[kind].receive).parameters
    assert list(parameters) == ["source", "headers", "raw", "now", "secrets", "bytes_max"]
