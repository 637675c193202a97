"""Tables 1 and 2: from what was observed to the outcome of an attempt. The ids are the tables' own words."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.rules.facts import Phase, SendFact, SmtpFact
from opsledger.rules.outcomes import Verdict, classify, classify_smtp, not_proven
from opsledger.rules.profile import (
    ActionProfile,
    FinalEffect,
    FinalEffectBy,
    Meaning,
    Protection,
    ProtectionKind,
    ReplayMeaning,
    Reply,
    Retries,
    Source,
)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DOCUMENTED = Source("https://crm.example/docs", "2026-03-01")
DOUBTFUL = Source("https://blog.example/post", "2026-03-01", confirmed=False)
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
JSON = ("content-type", "application/json")
HTML = ("content-type", "text/html; charset=utf-8")
TASK = b'{"id": "T-1"}'


def profile(
    protection: Protection | None = None, final: FinalEffect | None = None, **reply: Any
) -> ActionProfile:
    return ActionProfile(
        destination="crm",
        action="create_task",
        reply=Reply(**{"reference": "id", **reply}),
        protection=protection or Protection(),
        final_effect=final,
        retries=Retries(delay_max_seconds=600),
    )


def meaning(
    *meanings: tuple[str, Meaning], source: Source | None = DOCUMENTED, **reply: Any
) -> ActionProfile:
    return profile(meanings=meanings, source=source, **reply)


def reply(status: int, body: bytes = b"", *headers: tuple[str, str], **fact: Any) -> SendFact:
    return SendFact(left=True, phase=Phase.DONE, status=status, body=body, headers=headers or (JSON,), **fact)


def lost(phase: Phase, error: str, *, left: bool = True, **fact: Any) -> SendFact:
    return SendFact(left=left, phase=phase, error=error, elapsed_seconds=30.0, **fact)


def outcome(verdict: Verdict) -> str:
    return f"no_change: {verdict.no_change}" if verdict.no_change else verdict.outcome.value


# Table 1: transport

NOT_SENT = {
    "name not resolved": lost(Phase.RESOLVE, "name_not_resolved", left=False),
    "name not resolved in time": lost(Phase.RESOLVE, "timeout", left=False),
    "connection refused": lost(Phase.CONNECT, "refused", left=False),
    "connection timed out": lost(Phase.CONNECT, "timeout", left=False),
    "address refused by our own guard": lost(Phase.GUARD, "address_refused", left=False),
    "TLS not established": lost(Phase.TLS, "tls_failed", left=False),
    "certificate refused": lost(Phase.TLS, "certificate_refused", left=False),
    "proxy refused CONNECT with 502": lost(Phase.PROXY, "proxy_refused", left=False, status=502, hop="proxy"),
    "proxy refused CONNECT with 407": lost(Phase.PROXY, "proxy_refused", left=False, status=407, hop="proxy"),
    "proxy answered CONNECT with 201 and a body": lost(
        Phase.PROXY, "proxy_refused", left=False, status=201, body=TASK, hop="proxy"
    ),
    "proxy fell silent": lost(Phase.PROXY, "timeout", left=False, hop="proxy"),
    "no connection free": lost(Phase.POOL, "no_connection_free", left=False),
    "HTTP/2 REFUSED_STREAM": lost(Phase.READ, "refused_stream"),
    "HTTP/2 GOAWAY with our stream above the last id": lost(Phase.READ, "goaway_above_last"),
}

UNKNOWN = {
    "left, then reset": (lost(Phase.READ, "reset"), "connection_lost"),
    "left, then close": (lost(Phase.READ, "closed"), "connection_lost"),
    "left, then silence until the deadline": (lost(Phase.READ, "timeout"), "no_reply"),
    "write error": (lost(Phase.WRITE, "reset"), "connection_lost"),
    "write timeout": (lost(Phase.WRITE, "timeout"), "no_reply"),
    "may have left: writing began by another account": (
        lost(Phase.WRITE, "reset", left=False),
        "connection_lost",
    ),
    "left, although the phase says TLS": (lost(Phase.TLS, "reset"), "connection_lost"),
    "HTTP/2 GOAWAY with our stream at the last id": (lost(Phase.READ, "goaway"), "connection_lost"),
    "cut headers": (lost(Phase.READ, "cut_headers", status=201), "reply_cut"),
    "body shorter than announced": (
        lost(Phase.READ, "short_body", status=201, body=TASK),
        "reply_cut",
    ),
    "body of a refusal shorter than announced": (
        lost(Phase.READ, "short_body", status=400, body=b"{"),
        "reply_cut",
    ),
    "missing last chunk": (lost(Phase.READ, "missing_last_chunk", status=201, body=TASK), "reply_cut"),
    "TLS end that nobody announced": (lost(Phase.READ, "unproven_end", status=201, body=TASK), "reply_cut"),
    "malformed reply": (lost(Phase.READ, "malformed_reply"), "reply_cut"),
    "one byte at a time until the deadline": (lost(Phase.READ, "timeout", status=201), "reply_cut"),
    "reply larger than the cap": (
        lost(Phase.READ, "reply_too_large", status=201, body=TASK, truncated=True),
        "reply_too_large",
    ),
    "a reply although nothing left": (
        SendFact(left=False, phase=Phase.DONE, status=201, body=TASK),
        "contradictory",
    ),
    "a reply without a status": (SendFact(left=True, phase=Phase.DONE, body=TASK), "contradictory"),
}


@pytest.mark.parametrize("fact", NOT_SENT.values(), ids=NOT_SENT.keys())
def test_no_change_not_sent(fact: SendFact) -> None:
    verdict = classify(fact, profile())
    assert outcome(verdict) == "no_change: not_sent"
    assert verdict.reference is None


@pytest.mark.parametrize(("fact", "why"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_unknown_without_a_complete_reply(fact: SendFact, why: str) -> None:
    verdict = classify(fact, profile())
    assert (outcome(verdict), verdict.why) == ("unknown", why)


@pytest.mark.parametrize("fact", [fact for fact, _ in UNKNOWN.values()], ids=UNKNOWN.keys())
def test_no_profile_makes_a_success_of_a_missing_reply(fact: SendFact) -> None:
    everything = tuple((str(status), Meaning.CONFIRMED) for status in range(100, 600))
    generous = meaning(*everything, ("0", Meaning.CONFIRMED), reference="", empty_ok=True)
    assert outcome(classify(fact, generous)) == "unknown"


def test_process_death_is_unknown_when_the_lease_ends() -> None:
    verdict = not_proven(60.0)
    assert (outcome(verdict), verdict.why) == ("unknown", "lease_ended")
    assert verdict.sentence == "Nothing was heard before the lease of 60.0 s ended."


SENTENCES = {
    "silence": (lost(Phase.READ, "timeout"), "The request left in full; then 30.0 s without a reply."),
    "reset while writing": (
        lost(Phase.WRITE, "reset"),
        "The request may have left in part; then the connection was reset without a reply (30.0 s).",
    ),
    "the hop that said 502": (
        NOT_SENT["proxy refused CONNECT with 502"],
        "The proxy answered 502 instead of opening a way to the destination. Nothing was sent.",
    ),
    "a refused connection": (
        replace(NOT_SENT["connection refused"], address="192.0.2.7:443"),
        "No connection to 192.0.2.7:443 (refused, 30.0 s). Nothing was sent.",
    ),
    "a request that can't be written": (
        lost(Phase.GUARD, "bad_request", left=False),
        "The request’s address or headers can’t be written. Nothing was sent.",
    ),
    "a cut reply": (
        lost(Phase.READ, "short_body", status=201),
        "The request left in full. Its reply (status 201) was shorter than announced.",
    ),
    "a success": (reply(201, TASK), "The destination answered 201 and named the record T-1."),
    "a gateway": (
        reply(504, b"", HTML),
        "The destination answered 504, which does not say whether the request took effect.",
    ),
    "a proxy's answer": (
        reply(502, b"", HTML, hop="proxy"),
        "The proxy answered 502, which does not say whether the request took effect.",
    ),
}


@pytest.mark.parametrize(("fact", "sentence"), SENTENCES.values(), ids=SENTENCES.keys())
def test_the_sentence_for_people(fact: SendFact, sentence: str) -> None:
    assert classify(fact, profile()).sentence == sentence


# Table 1: a body that ends with its connection

CLOSE_DELIMITED = {
    "without the field that the profile requires": (b'{"id": "T-1"}', {"required": "done"}, "unknown"),
    "with the field that the profile requires": (
        b'{"id": "T-1", "done": 1}',
        {"required": "done"},
        "confirmed",
    ),
    "with null in the field that the profile requires": (
        b'{"id": "T-1", "done": null}',
        {"required": "done"},
        "unknown",
    ),
    "cut in the middle": (b'{"id": "T-1", "do', {"required": "done"}, "unknown"),
    "empty": (b"", {"empty_ok": True}, "unknown"),
    "whole JSON, nothing required": (b'{"id": "T-1"}', {}, "confirmed"),
}


@pytest.mark.parametrize(("body", "words", "expected"), CLOSE_DELIMITED.values(), ids=CLOSE_DELIMITED.keys())
def test_close_delimited_body(body: bytes, words: dict[str, Any], expected: str) -> None:
    assert outcome(classify(reply(201, body, length_known=False), profile(**words))) == expected
    announced = classify(reply(429, b"", length_known=True), profile(**words))
    assert outcome(announced) == "no_change: deferred"


def test_close_delimited_refusal_needs_its_body_only_where_the_profile_reads_it() -> None:
    fact = reply(400, b'{"error": {"ty', length_known=False)
    assert outcome(classify(fact, profile())) == "no_change: rejected"
    reads = meaning(("400:error.type=idempotency_error", Meaning.KEY_MISMATCH))
    assert outcome(classify(fact, reads)) == "unknown"
    assert outcome(classify(fact, profile(required="id"))) == "unknown"
    assert outcome(classify(reply(400, b"", length_known=False), reads)) == "unknown"
    assert outcome(classify(reply(400, b"", length_known=True), reads)) == "no_change: rejected"


# Table 2: complete replies

DEFAULT = {
    "2xx, parses, reference found": (reply(201, TASK), {}, "confirmed"),
    "2xx, parses, no reference expected": (reply(200, b"{}"), {"reference": ""}, "confirmed"),
    "2xx, says that this reply only takes the work over": (
        reply(200, TASK),
        {"accepts_only": True},
        "accepted",
    ),
    "2xx, JSON without a content type": (
        reply(200, TASK, ("date", "Sun, 01 Mar 2026 12:00:00 GMT")),
        {},
        "confirmed",
    ),
    "204 with an empty body, not allowed": (reply(204), {}, "unknown"),
    "204 with an empty body, allowed": (reply(204), {"empty_ok": True}, "confirmed"),
    "201 with an empty body, allowed": (reply(201), {"empty_ok": True}, "confirmed"),
    "201 with Location only, allowed": (
        reply(201, b"", ("location", "/tasks/T-1")),
        {"empty_ok": True},
        "confirmed",
    ),
    "200 with white space, not allowed": (reply(200, b" \r\n"), {}, "unknown"),
    "200 with white space, allowed": (reply(200, b" \r\n"), {"empty_ok": True}, "confirmed"),
    "2xx with an empty body, no reference expected, not allowed": (
        reply(204),
        {"reference": ""},
        "unknown",
    ),
    "2xx that does not parse": (reply(200, b"done"), {"reference": ""}, "unknown"),
    "2xx that lacks the expected reference": (reply(200, b'{"ok": true}'), {}, "unknown"),
    "2xx, an HTML page": (reply(200, b"<html>sign in</html>", HTML), {}, "unknown"),
    "2xx, an HTML page and nothing expected": (
        reply(200, b"{}", HTML),
        {"reference": "", "empty_ok": True},
        "unknown",
    ),
    "2xx, an empty HTML page": (reply(200, b"", HTML), {"empty_ok": True}, "unknown"),
    "2xx, JSON content type with HTML inside": (reply(200, b"<html>"), {}, "unknown"),
    "2xx, the same key twice": (reply(200, b'{"id": "T-1", "id": "T-2"}'), {}, "unknown"),
    "2xx, huge nesting": (reply(200, b"[" * 200_000), {"reference": ""}, "unknown"),
    "2xx, gzip that nobody asked for": (reply(200, b"\x1f\x8b\x08\x00"), {"reference": ""}, "unknown"),
    "202": (reply(202, TASK), {}, "accepted"),
    "202 without a body": (reply(202), {}, "accepted"),
    "202 without a reference": (reply(202, b'{"queued": 1}'), {}, "accepted"),
    "202 with plain text": (reply(202, b"Accepted", ("content-type", "text/plain")), {}, "accepted"),
    "202, an HTML page": (reply(202, b"<html>", HTML), {}, "unknown"),
    "207 whose items the profile does not name": (reply(207, TASK), {}, "unknown"),
    "103 as last reply": (reply(103), {}, "unknown"),
    **{f"{status}": (reply(status, TASK), {}, "unknown") for status in (300, 301, 302, 303, 304, 305)},
    **{f"{status}": (reply(status, TASK), {}, "no_change: rejected") for status in (307, 308)},
    **{f"{status}": (reply(status, TASK), {}, "no_change: deferred") for status in (401, 403, 425, 429)},
    **{
        f"{status}": (reply(status, TASK), {}, "no_change: rejected")
        for status in (400, 404, 405, 406, 410, 411, 412, 413, 414, 415, 417, 422, 428, 431, 501, 505)
    },
    **{
        f"{status}": (reply(status, TASK), {}, "unknown")
        for status in (408, 409, 423, 424, 499, 402, 407, 416, 418, 421, 426, 451)
    },
    **{f"{status}": (reply(status, TASK), {}, "unknown") for status in (500, 502, 503, 504, 506, 507, 520, 599)},
    "a status that does not exist": (reply(999, TASK), {}, "unknown"),
}  # fmt: skip


@pytest.mark.parametrize(("fact", "words", "expected"), DEFAULT.values(), ids=DEFAULT.keys())
def test_complete_reply_by_the_default_profile(fact: SendFact, words: dict[str, Any], expected: str) -> None:
    assert outcome(classify(fact, profile(**words))) == expected


def test_the_reference_is_byte_exact_and_numbers_keep_their_text() -> None:
    spaced = reply(201, b'{"data": [{"id": "a9U GNy "}]}')
    assert classify(spaced, profile(reference="data.0.id")).reference == "a9U GNy "
    big = reply(201, b'{"id": 9007199254740993}')
    assert classify(big, profile()).reference == "9007199254740993"


def test_an_empty_success_has_no_reference_it_is_found_by_a_read() -> None:
    assert classify(reply(204), profile(empty_ok=True)).reference is None


@pytest.mark.parametrize("status", [401, 403], ids=str)
def test_access_refused_stops_the_destination(status: int) -> None:
    assert classify(reply(status), profile()).access_refused
    assert not classify(reply(429), profile()).access_refused


def test_403_unless_the_profile_differs() -> None:
    verdict = classify(reply(403), meaning(("403", Meaning.REJECTED)))
    assert (outcome(verdict), verdict.access_refused) == ("no_change: rejected", False)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308], ids=str)
def test_a_redirect_is_never_a_success_whatever_the_profile_says(status: int) -> None:
    stated = meaning((str(status), Meaning.CONFIRMED))
    assert outcome(classify(reply(status, TASK), stated)) == outcome(classify(reply(status, TASK), profile()))


def test_300_may_be_documented_as_no_change() -> None:
    verdict = classify(reply(300, b"[]"), meaning(("300", Meaning.REJECTED)))
    assert outcome(verdict) == "no_change: rejected"


@pytest.mark.parametrize("status", [202, 200], ids=str)
def test_accepted_waits_for_its_final_effect_where_one_is_documented(status: int) -> None:
    final = FinalEffect(by=FinalEffectBy.REPORT, deadline_seconds=3600)
    assert classify(reply(status, TASK), profile(final=final, accepts_only=True)).final_effect_pending
    assert not classify(reply(status, TASK), profile(accepts_only=True)).final_effect_pending
    assert not classify(reply(201, TASK), profile(final=final)).final_effect_pending


# 409, and "same key, other parameters"

IN_USE = b'{"error": {"code": "idempotency_key_in_use"}}'
EXISTS = b'{"error": {"reason": "conflict", "links": {"conflicting_resource_id": "PM-7"}}}'


def test_409_still_running() -> None:
    stated = meaning(("409:error.code=idempotency_key_in_use", Meaning.STILL_RUNNING))
    verdict = classify(reply(409, IN_USE), stated)
    assert (outcome(verdict), verdict.still_running) == ("no_change: deferred", True)
    other = classify(reply(409, b'{"error": {"code": "other"}}'), stated)
    assert (outcome(other), other.still_running, other.why) == ("unknown", False, "conflict")


def test_409_exists_and_names_the_record_is_unknown_until_it_is_fetched_and_matched() -> None:
    stated = meaning(
        ("409:error.reason=conflict", Meaning.EXISTS_NAMED),
        exists_reference="error.links.conflicting_resource_id",
    )
    verdict = classify(reply(409, EXISTS), stated)
    assert (outcome(verdict), verdict.exists_reference, verdict.reference) == ("unknown", "PM-7", None)


def test_409_exists_and_names_the_record_where_the_reference_stands() -> None:
    verdict = classify(reply(409, TASK), meaning(("409", Meaning.EXISTS_NAMED)))
    assert verdict.exists_reference == "T-1"


@pytest.mark.parametrize(
    ("stated", "body"),
    [(Meaning.EXISTS_UNNAMED, TASK), (Meaning.EXISTS_NAMED, b"{}"), (Meaning.EXISTS_NAMED, b"<html>")],
    ids=["names nothing", "should name it and does not", "can't be read"],
)
def test_409_exists_names_nothing_is_used_not_proven(stated: Meaning, body: bytes) -> None:
    verdict = classify(reply(409, body), meaning(("409", stated)))
    assert (outcome(verdict), verdict.why, verdict.exists_reference) == ("unknown", "exists_unnamed", None)


def test_409_precondition_failed() -> None:
    verdict = classify(reply(409, b"{}"), meaning(("409", Meaning.PRECONDITION_FAILED)))
    assert (outcome(verdict), verdict.why) == ("no_change: rejected", "precondition_failed")
    assert classify(reply(412), profile()).why == "precondition_failed"


@pytest.mark.parametrize("status", [400, 409, 422], ids=str)
def test_same_key_other_parameters_is_an_integrity_alarm(status: int) -> None:
    body = b'{"error": {"type": "idempotency_error"}}'
    stated = meaning((f"{status}:error.type=idempotency_error", Meaning.KEY_MISMATCH))
    verdict = classify(reply(status, body), stated)
    assert (outcome(verdict), verdict.integrity_alarm) == ("unknown", True)
    assert not classify(reply(status, b'{"error": {"type": "card"}}'), stated).integrity_alarm


def test_a_refusal_whose_body_must_be_read_and_can_not_is_unknown() -> None:
    stated = meaning(("400:error.type=idempotency_error", Meaning.KEY_MISMATCH))
    twice = b'{"error": {"type": "card", "type": "idempotency_error"}}'
    assert outcome(classify(reply(400, twice), stated)) == "unknown"
    assert outcome(classify(reply(400), stated)) == "no_change: rejected"


# The profile's own word

STATED = {
    "a status": (("503", Meaning.NOT_SENT), reply(503), "no_change: not_sent"),
    "a field": (("200:ok=false", Meaning.REJECTED), reply(200, b'{"ok": false}'), "no_change: rejected"),
    "a field that is not there": (("200:ok=false", Meaning.REJECTED), reply(200, TASK), "confirmed"),
    "a number by its text": (
        ("200:code=7", Meaning.DEFERRED),
        reply(200, b'{"code": 7}'),
        "no_change: deferred",
    ),
    "a value that holds =": (
        ("400:a=b=c", Meaning.DEFERRED),
        reply(400, b'{"a": "b=c"}'),
        "no_change: deferred",
    ),
    "success by a conflict that proves it": (
        ("409:code=done", Meaning.CONFIRMED),
        reply(409, b'{"code": "done", "id": "T-1"}'),
        "confirmed",
    ),
    "202 is final": (("202", Meaning.CONFIRMED), reply(202, TASK), "confirmed"),
    "202 is final, without its reference": (("202", Meaning.CONFIRMED), reply(202, b"{}"), "unknown"),
    "200 is a success, without its reference": (("200", Meaning.CONFIRMED), reply(200, b"{}"), "unknown"),
    "200 is a success, with nothing in it": (("200", Meaning.CONFIRMED), reply(200), "unknown"),
    "200 is a success, an HTML page": (("200", Meaning.CONFIRMED), reply(200, b"<p>", HTML), "unknown"),
    "400 says nothing": (("400", Meaning.UNKNOWN), reply(400), "unknown"),
}


@pytest.mark.parametrize(("stated", "fact", "expected"), STATED.values(), ids=STATED.keys())
def test_a_profile_says_what_a_reply_means(
    stated: tuple[str, Meaning], fact: SendFact, expected: str
) -> None:
    assert outcome(classify(fact, meaning(stated))) == expected


def test_plain_text_is_a_success_where_the_profile_says_so_and_expects_no_reference() -> None:
    stated = meaning(("200", Meaning.CONFIRMED), reference="")
    assert outcome(classify(reply(200, b"ok", ("content-type", "text/plain")), stated)) == "confirmed"


def test_a_word_about_the_body_stands_above_one_about_the_status() -> None:
    stated = meaning(("409", Meaning.STILL_RUNNING), ("409:code=used", Meaning.EXISTS_UNNAMED))
    assert classify(reply(409, b'{"code": "used"}'), stated).why == "exists_unnamed"
    assert classify(reply(409, b"{}"), stated).still_running


@pytest.mark.parametrize("source", [None, DOUBTFUL], ids=["no source", "an unconfirmed source"])
def test_an_undocumented_meaning_may_only_add_caution(source: Source | None) -> None:
    proves = meaning(("503", Meaning.NOT_SENT), ("409", Meaning.STILL_RUNNING), source=source)
    assert outcome(classify(reply(503), proves)) == "unknown"
    assert outcome(classify(reply(409, b"{}"), proves)) == "unknown"
    doubts = meaning(("400", Meaning.UNKNOWN), ("422", Meaning.KEY_MISMATCH), source=source)
    assert outcome(classify(reply(400), doubts)) == "unknown"
    assert classify(reply(422), doubts).integrity_alarm


# Replies with several results


def items(*results: tuple[int, int] | None, status: int = 207) -> SendFact:
    listed = [{"index": place, "status": code, "id": f"T-{place}"} for place, code in filter(None, results)]
    return reply(status, json.dumps({"items": listed}).encode())


BATCH = profile(items="items")


@pytest.mark.parametrize("status", [200, 207], ids=str)
@pytest.mark.parametrize(
    ("code", "expected"),
    [(201, "confirmed"), (409, "unknown"), (422, "no_change: rejected"), (202, "accepted")],
    ids=str,
)
def test_a_request_of_one_item_follows_its_item(status: int, code: int, expected: str) -> None:
    verdict = classify(items((0, code), status=status), BATCH)
    assert outcome(verdict) == expected
    assert verdict.reference == ("T-0" if code < 300 else None)
    assert [outcome(item) for item in verdict.items] == [expected]


def test_of_several_items_outcomes_are_kept_per_item_and_the_step_is_unknown() -> None:
    verdict = classify(items((0, 201), (1, 409)), BATCH, item_count=3)
    assert (outcome(verdict), verdict.why) == ("unknown", "items_differ")
    assert [(outcome(item), item.why) for item in verdict.items] == [
        ("confirmed", "confirmed"),
        ("unknown", "conflict"),
        ("unknown", "item_missing"),
    ]


def test_several_items_that_all_agree_decide_the_step() -> None:
    verdict = classify(items((1, 201), (0, 201)), BATCH, item_count=2)
    assert (outcome(verdict), verdict.reference) == ("confirmed", None)
    assert [item.reference for item in verdict.items] == ["T-0", "T-1"]
    refused = classify(items((0, 400), (1, 422)), BATCH, item_count=2)
    assert outcome(refused) == "no_change: rejected"


def test_one_access_refused_among_items_is_seen() -> None:
    verdict = classify(items((0, 429), (1, 403)), BATCH, item_count=2)
    assert (outcome(verdict), verdict.access_refused) == ("no_change: deferred", True)


PLACED = {
    "in order, one for each": ([{"status": 201, "id": "a"}, {"status": 409}], ["confirmed", "unknown"]),
    "in order, one too few": ([{"status": 201, "id": "a"}], ["unknown", "unknown"]),
    "two claim one place": (
        [{"index": 0, "status": 201, "id": "a"}, {"index": 0, "status": 400}],
        ["unknown", "unknown"],
    ),
    "a place that was not asked for": (
        [{"index": 0, "status": 201, "id": "a"}, {"index": 5, "status": 201, "id": "b"}],
        ["unknown", "unknown"],
    ),
    "some without a place": (
        [{"index": 0, "status": 201, "id": "a"}, {"status": 201, "id": "b"}],
        ["unknown", "unknown"],
    ),
    "a status as text": ([{"index": 0, "status": "201", "id": "a"}], ["confirmed", "unknown"]),
    "a status that is none": ([{"index": 0, "status": "fine", "id": "a"}], ["unknown", "unknown"]),
    "a status in other digits": ([{"index": 0, "status": "٢٠١", "id": "a"}], ["unknown", "unknown"]),
    "a success without its reference": ([{"index": 0, "status": 201}], ["unknown", "unknown"]),
    "no objects": (["x", None], ["unknown", "unknown"]),
    "none": ([], ["unknown", "unknown"]),
}


@pytest.mark.parametrize(("listed", "expected"), PLACED.values(), ids=PLACED.keys())
def test_results_belong_to_items(listed: list[Any], expected: list[str]) -> None:
    fact = reply(207, json.dumps({"items": listed}).encode())
    assert [outcome(item) for item in classify(fact, BATCH, item_count=2).items] == expected


def test_a_200_without_results_is_an_ordinary_reply_and_a_207_without_them_is_unknown() -> None:
    assert outcome(classify(reply(200, TASK), BATCH)) == "confirmed"
    assert outcome(classify(reply(207, TASK), BATCH)) == "unknown"
    assert outcome(classify(items(), BATCH, item_count=0)) == "unknown"
    page = replace(items((0, 201)), headers=(HTML,))
    assert outcome(classify(page, BATCH)) == "unknown"


def test_an_items_status_has_the_profiles_meaning() -> None:
    stated = meaning(("409", Meaning.STILL_RUNNING), items="items")
    assert classify(items((0, 409)), stated).still_running
    assert not classify(items((0, 409), (1, 429)), stated, item_count=2).still_running


# Replays

KEYED = Protection(
    kind=ProtectionKind.IDEMPOTENCY_KEY, window_seconds=86_400, replay_marker="Idempotent-Replayed"
)
REPLAYED = ("idempotent-replayed", "true")


def test_a_replayed_500_says_nothing_new() -> None:
    stated = replace(meaning(("500", Meaning.REJECTED)), protection=KEYED)
    assert outcome(classify(reply(500, b"", JSON), stated)) == "no_change: rejected"
    verdict = classify(reply(500, b"", JSON, REPLAYED), stated)
    assert (outcome(verdict), verdict.replayed, verdict.settles_earlier) == ("unknown", True, False)


@pytest.mark.parametrize(
    ("marker", "value", "replayed"),
    [
        ("Idempotent-Replayed", "true", True),
        ("Idempotent-Replayed", "False", False),
        ("X-Idempotency-Lookup=hit", "HIT ", True),
        ("X-Idempotency-Lookup=hit", "miss", False),
        ("", "true", False),
    ],
    ids=str,
)
def test_a_header_marks_a_replay(marker: str, value: str, replayed: bool) -> None:
    fact = reply(201, TASK, (marker.partition("=")[0].lower() or "x", value))
    assert classify(fact, profile(replace(KEYED, replay_marker=marker))).replayed is replayed


SETTLES = {
    "a success under the same key": (reply(201, TASK), KEYED, True),
    "a replayed success": (reply(201, TASK, REPLAYED), KEYED, True),
    "a success without protection": (reply(201, TASK), Protection(), False),
    "a replayed refusal that is the first answer": (reply(400, b"", REPLAYED), KEYED, True),
    "a fresh refusal": (reply(400), KEYED, False),
    "429 speaks for itself alone": (reply(429, b"", REPLAYED), KEYED, False),
    "a replayed refusal of a destination that keeps successes only": (
        reply(400, b"", REPLAYED),
        replace(KEYED, replay=ReplayMeaning.FIRST_SUCCESS_ONLY),
        False,
    ),
    "412 that our own first write caused": (
        reply(412),
        Protection(kind=ProtectionKind.CONDITIONAL),
        False,
    ),
}


@pytest.mark.parametrize(("fact", "protection", "settles"), SETTLES.values(), ids=SETTLES.keys())
def test_an_earlier_attempt_is_settled_by(fact: SendFact, protection: Protection, settles: bool) -> None:
    assert classify(fact, profile(protection)).settles_earlier is settles


# Retry-After


@pytest.mark.parametrize("status", [425, 429, 503, 409], ids=str)
def test_retry_after_is_read_and_capped_by_the_profiles_longest_delay(status: int) -> None:
    def waits(value: str) -> float | None:
        return classify(reply(status, b"", ("retry-after", value)), profile(), now=NOW).retry_after_seconds

    assert waits("120") == 120.0
    assert waits("Sun, 01 Mar 2026 12:00:30 GMT") == 30.0
    assert waits("99999") == 600.0
    assert waits("soon") is None


def test_without_now_the_replys_own_date_counts() -> None:
    dated = reply(
        429,
        b"",
        ("date", "Sun, 01 Mar 2026 12:00:00 GMT"),
        ("retry-after", "Sun, 01 Mar 2026 12:00:30 GMT"),
    )
    assert classify(dated, profile()).retry_after_seconds == 30.0
    assert classify(reply(429), profile()).retry_after_seconds is None


# SMTP

SMTP = {
    "before the final dot: connection lost": (SmtpFact(False, None, "reset"), "no_change: not_sent"),
    "before the final dot: lost after a 250": (SmtpFact(False, 250, "reset"), "no_change: not_sent"),
    "before the final dot: 4xx": (SmtpFact(False, 451), "no_change: deferred"),
    "before the final dot: 5xx": (SmtpFact(False, 550), "no_change: rejected"),
    "after the final dot: 250": (SmtpFact(True, 250), "accepted"),
    "after the final dot: 4xx": (SmtpFact(True, 451), "no_change: deferred"),
    "after the final dot: 5xx": (SmtpFact(True, 554), "no_change: rejected"),
    "after the final dot: silence": (SmtpFact(True, None, "timeout"), "unknown"),
    "after the final dot: another code": (SmtpFact(True, 354), "unknown"),
}


@pytest.mark.parametrize(("fact", "expected"), SMTP.values(), ids=SMTP.keys())
def test_smtp(fact: SmtpFact, expected: str) -> None:
    assert outcome(classify_smtp(fact)) == expected


# What holds for every fact

FACTS = st.builds(
    SendFact,
    left=st.booleans(),
    phase=st.sampled_from(Phase),
    error=st.sampled_from(["", "timeout", "reset", "short_body", "refused_stream", "nonsense"]),
    status=st.none() | st.integers(0, 999),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["content-type", "retry-after", "idempotent-replayed", "date"]),
            st.text(max_size=12),
        )
    ).map(tuple),
    body=st.binary(max_size=60) | st.sampled_from([TASK, b"", b"[" * 5000, b'{"items": [{"status": 201}]}']),
    truncated=st.booleans(),
    length_known=st.booleans(),
)
MEANINGS = st.lists(
    st.tuples(st.text(max_size=8) | st.sampled_from(["200", "409", "200:id=T-1"]), st.sampled_from(Meaning))
).map(tuple)


@UNHURRIED
@given(FACTS, MEANINGS, st.booleans(), st.booleans(), st.integers(0, 3))
def test_classify_never_raises_and_never_proves_more_than_it_may(
    fact: SendFact, meanings: tuple[tuple[str, Meaning], ...], empty_ok: bool, accepts_only: bool, count: int
) -> None:
    chosen = meaning(*meanings, empty_ok=empty_ok, accepts_only=accepts_only, items="items")
    verdict = classify(fact, replace(chosen, protection=KEYED), now=NOW, item_count=count)
    assert (verdict.no_change is not None) == (verdict.outcome.value == "no_change")
    assert verdict.sentence.endswith(".")
    if not fact.complete or not fact.left:
        assert outcome(verdict) in {"unknown", "no_change: not_sent"}
    if verdict.outcome.value in {"confirmed", "accepted"}:
        assert fact.complete
        assert fact.left
    if verdict.integrity_alarm or verdict.exists_reference:
        assert outcome(verdict) == "unknown" or verdict.items
