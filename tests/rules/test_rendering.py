"""What a request looks like on the wire, down to its bytes and digests."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsledger.rules.definitions import ActionDefinition, DestinationDefinition, build_definition
from opsledger.rules.reading import Number
from opsledger.rules.rendering import (
    Missing,
    RenderedRequest,
    as_text,
    json_text,
    mask,
    mask_fields,
    record_page,
    render_read,
    render_request,
    render_search,
    render_text,
)
from opsledger.rules.templates import BadTemplate, parse, placeholders

BASE: dict[str, Any] = {
    "title": "T",
    "request": {
        "method": "POST",
        "path": "/q/{params.queue}/tasks",
        "query": {"by": "{step.identity}"},
        "headers": {"X-Operation": "{operation.id}"},
        "body": {
            "subject": "{params.subject}",
            "note": "{params.note?}",
            "line": "Call {params.subject} at {params.total}, {{now}}",
            "total": "{params.total}",
            "task": "{steps.task.reference?}",
            "fixed": [1, True, None, "{params.subject}", "{params.note?}"],
        },
    },
}
KEYED = {
    "kind": "idempotency_key",
    "key_in": "header:Idempotency-Key",
    "source": {"url": "https://crm.example", "checked": "2026-03-01"},
}


class Exact(Decimal):
    """A number that keeps the text it was written in, as the JSON reader gives it."""

    text: str

    def __new__(cls, text: str) -> Exact:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def destination(action: dict[str, Any] | None = None, **fields: Any) -> DestinationDefinition:
    table = {"name": "D", "base_url": "http://crm.example/v1/", "actions": {"a": action or BASE}, **fields}
    definition, problems = build_definition("destination", "d", table)
    assert problems == []
    assert isinstance(definition, DestinationDefinition)
    return definition


def action(**changes: Any) -> ActionDefinition:
    table = copy.deepcopy(BASE)
    table["request"] |= changes.pop("request", {})
    return destination(table | changes).actions["a"]


def render(of: ActionDefinition, key: str = "key-1", **params: Any) -> RenderedRequest | Missing:
    params = {"queue": "calls", "subject": "Ring", "total": Exact("1.10"), **params}
    params = {name: value for name, value in params.items() if value is not None}
    return render_request(
        of, params, "op_1-2", {"task": "T-7"}, key, "http://crm.example/v1/", operation_id="op_1"
    )


def rendered(of: ActionDefinition, key: str = "key-1", **params: Any) -> RenderedRequest:
    request = render(of, key, **params)
    assert isinstance(request, RenderedRequest), request
    return request


def test_a_request_is_rendered_to_the_byte() -> None:
    request = rendered(action(protection=KEYED))
    assert request.method == "POST"
    assert request.url == "http://crm.example/v1/q/calls/tasks?by=op_1-2"
    assert request.headers == (
        ("X-Operation", "op_1"),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "key-1"),
    )
    assert request.body == (
        b'{"fixed":[1,true,null,"Ring"],"line":"Call Ring at 1.10, {now}",'
        b'"subject":"Ring","task":"T-7","total":1.10}'
    )


@pytest.mark.parametrize(
    ("value", "alone", "inside"),
    [
        (Exact("1.10"), b"1.10", b"1.10"),
        (Exact("1e2"), b"1e2", b"1e2"),
        (Number("1.10"), b"1.10", b"1.10"),
        (Exact("-0"), b"-0", b"-0"),
        (9007199254740993, b"9007199254740993", b"9007199254740993"),
        (Exact("12345678901234567.89"), b"12345678901234567.89", b"12345678901234567.89"),
        ("1.10", b'"1.10"', b"1.10"),
        (True, b"true", b"true"),
        (["x"], b'["x"]', b'[\\"x\\"]'),
        ("", b'""', b""),
    ],
    ids=repr,
)
def test_a_value_keeps_its_type_alone_and_is_text_inside(value: Any, alone: bytes, inside: bytes) -> None:
    body = rendered(action(), total=value).body
    assert b'"total":' + alone in body
    assert b"at " + inside + b"," in body


@pytest.mark.parametrize(
    "value", ["{params.subject}", "{{", "}", "{operation.id}", "${HOME}", "{0.__class__}", "%s"]
)
def test_a_value_that_looks_like_a_placeholder_stays_what_it_is(value: str) -> None:
    request = rendered(action(), subject=value, queue=value)
    assert json.loads(request.body)["subject"] == value
    assert json.loads(request.body)["line"].startswith(f"Call {value} at")
    assert "Ring" not in request.url


@pytest.mark.parametrize(
    "value", ["\ud83d", "\x00", "\u2028", "a\nb", '"\\', "\U0001f600", "e\u0301"], ids=ascii
)
def test_any_text_survives_in_the_body(value: str) -> None:
    body = rendered(action(), subject=value).body
    assert body.isascii()
    assert json.loads(body)["subject"] == value


@settings(max_examples=40)
@given(
    st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
)
def test_json_text_says_what_the_value_is(value: dict[str, Any]) -> None:
    assert json.loads(json_text(value)) == value
    assert json_text(value) == json_text(dict(reversed(value.items())))


def test_json_text_refuses_what_json_can_not_say() -> None:
    for value in (float("nan"), Decimal("Infinity"), b"x", {1, 2}):
        with pytest.raises(ValueError, match="JSON has no"):
            json_text(value)


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ({"subject": None}, ("params.subject",)),
        ({"total": None, "queue": None}, ("params.queue", "params.total")),
        ({"queue": ""}, ("params.queue",)),
        ({"queue": ".."}, ("params.queue",)),
    ],
    ids=repr,
)
def test_what_is_missing_is_named(missing: dict[str, Any], told: tuple[str, ...]) -> None:
    request = render(action(), **missing)
    assert isinstance(request, Missing)
    assert request.fields == told


def test_the_reference_of_a_step_that_has_none_is_missing() -> None:
    of = action(request={"body": {"task": "{steps.other.reference}"}})
    assert render(of) == Missing((("steps.other.reference", "is missing"),))


def test_optional_values_are_left_out_or_empty() -> None:
    of = action(request={"body": {"note": "{params.note?}", "line": "[{params.note?}]"}})
    assert rendered(of).body == b'{"line":"[]"}'
    assert rendered(of, note="n").body == b'{"line":"[n]","note":"n"}'


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("a/b", "a%2Fb"),
        ("a b", "a%20b"),
        ("../x", "..%2Fx"),
        ("?x=1#f", "%3Fx%3D1%23f"),
        ("\u00fc", "%C3%BC"),
        ("u\u0308", "u%CC%88"),
        ("%2e", "%252e"),
        ("\ud83d", "%ED%A0%BD"),
        ("\x00\r\n", "%00%0D%0A"),
        (9007199254740993, "9007199254740993"),
    ],
    ids=ascii,
)
def test_a_value_can_not_leave_its_segment(value: Any, path: str) -> None:
    assert rendered(action(), queue=value).url.startswith(f"http://crm.example/v1/q/{path}/tasks?")


def test_values_of_the_query_are_encoded_whole() -> None:
    of = action(request={"query": {"q": "s:{params.subject}&x"}})
    assert rendered(of, subject="a&b=c +").url.endswith("/tasks?q=s%3Aa%26b%3Dc%20%2B%26x")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00", "caf\u00e9", "\x7f"], ids=ascii)
def test_a_header_refuses_line_breaks_and_what_it_can_not_carry(value: str) -> None:
    request = render(action(request={"headers": {"X-Subject": "{params.subject}"}}), subject=value)
    assert isinstance(request, Missing)
    assert request.fields == ("header X-Subject",)


def test_digests_change_with_every_part_and_with_nothing_else() -> None:
    base = rendered(action(protection=KEYED))
    assert rendered(action(protection=KEYED)) == base
    others = [
        rendered(action(protection=KEYED), subject="Rings"),
        rendered(action(protection=KEYED), queue="other"),
        rendered(action(protection=KEYED, request={"method": "PUT"})),
        rendered(action(protection=KEYED, request={"headers": {"X-Operation": "x"}})),
        rendered(action(protection=KEYED), total="1.10"),
        rendered(action(protection=KEYED), total=Exact("1.1")),
    ]
    assert len({base.digest, *(other.digest for other in others)}) == 7
    assert len({base.content_digest, *(other.content_digest for other in others)}) == 7


def test_the_content_digest_leaves_the_key_out() -> None:
    for place in ("header:Idempotency-Key", "body:key", "body:meta.key"):
        of = action(
            protection=KEYED | {"key_in": place}, request={"body": {"meta": {"a": "{params.subject}"}}}
        )
        first, second = rendered(of, "key-1"), rendered(of, "key-2")
        assert first.digest != second.digest
        assert first.content_digest == second.content_digest
        assert (first.header("idempotency-key") or first.body.decode()).count("key-1") == 1


def test_parts_of_a_digest_do_not_lend_each_other_bytes() -> None:
    def of(headers: dict[str, str]) -> str:
        return rendered(action(request={"headers": headers})).digest

    assert of({"A": "bc"}) != of({"Ab": "c"})
    assert of({"A": "b", "C": "d"}) != of({"A": "bCd"})


def test_no_key_is_sent_without_protection() -> None:
    request = rendered(action())
    assert b"key-1" not in request.body
    assert request.header("Idempotency-Key") is None
    assert request.digest == request.content_digest


def test_a_key_that_does_not_fit_is_refused() -> None:
    request = render(action(protection=KEYED | {"key_length_max": 4}), "key-1")
    assert isinstance(request, Missing)
    assert request.fields == ("key",)


def test_a_request_without_a_body_has_none() -> None:
    request = rendered(action(request={"method": "DELETE", "body": None, "headers": {}}))
    assert (request.body, request.headers) == (b"", ())


def test_lookups_are_rendered_from_identity_and_reference() -> None:
    lookup = {
        "settles": "positive_only",
        "quiet_seconds": 1,
        "delays_seconds": [1],
        "last_look_seconds": 9,
        "identity": "external_id",
        "by_reference": True,
    }
    of = action(
        lookup=lookup,
        search={"path": "/tasks", "query": {"e": "{step.identity}"}},
        read={"path": "/t/{reference}"},
    )
    search = render_search(of, "op_1-2", "http://crm.example")
    read = render_read(of, "T-1/2", "http://crm.example")
    assert isinstance(search, RenderedRequest)
    assert isinstance(read, RenderedRequest)
    assert (search.method, search.url) == ("GET", "http://crm.example/tasks?e=op_1-2")
    assert read.url == "http://crm.example/t/T-1%2F2"
    assert isinstance(render_read(of, "", "http://crm.example"), Missing)
    with pytest.raises(ValueError, match="no search"):
        render_search(action(), "op_1-2", "http://crm.example")


def test_a_record_page_is_the_records_else_a_search() -> None:
    both = destination(record_url="/t/{reference}.html", search_url="https://s.example/?q={identity}")
    assert record_page(both, "T-1/x", "op_1-2") == "http://crm.example/v1/t/T-1%2Fx.html"
    assert record_page(both, "", "op_1&2") == "https://s.example/?q=op_1%262"
    assert record_page(both) == ""
    assert record_page(destination(), "T-1") == ""


def test_titles_show_values_and_gaps() -> None:
    values = {"params": {"a": "{params.b}", "n": Exact("1.10")}}
    assert render_text("Call {params.a}: {params.n} {params.x}", values) == "Call {params.b}: 1.10 …"


@pytest.mark.parametrize(
    "template", ["{", "a}", "{a", "{}", "{A}", "{a.}", "{a b}", "{a[0]}", "{a!r}", "{a:>9}"]
)
def test_a_template_that_is_none_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate, match="single brace at character"):
        parse(template)


def test_placeholders_are_found_everywhere() -> None:
    found = [one.name for one in placeholders({"a": ["{x.y}", {"b": "{z?} ${HOME} {{no}}"}], "c": 5})]
    assert found == ["x.y", "z"]


def test_values_are_never_reached_by_attribute() -> None:
    assert render_text("{params.__class__} {params.a.denominator}", {"params": {"a": 5}}) == "… …"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("4000000000004417", "••••4417"),
        ("1234567", "••••"),
        ("12345678", "••••5678"),
        ("", "••••"),
        (Exact("1.10"), "••••"),
        ("ACC-4417", "••••4417"),
        ("DE89 3704 0044", "••••"),
        ("+49 170 5550123", "••••0123"),
        ("cus_9f8a/77ab12", "••••ab12"),
        ("contact@customers.example", "••••"),
        ("order77@customers.example", "••••"),
        ("We will call you.", "••••"),
        ("Room 4417 at noon", "••••"),
        ("Johannes", "••••"),
        ("Grün4417", "••••"),
        ({"account": 12345678}, "••••"),
    ],
)
def test_sensitive_values_are_masked(value: Any, shown: str) -> None:
    assert mask(value) == shown


def test_masked_fields_leave_their_neighbours_and_the_original() -> None:
    body = {"to": {"mail": "jo@mail.example", "name": "Jo"}, "x": 1}
    assert mask_fields(body, ["to.mail", "gone", "x.y"]) == {"to": {"mail": "••••", "name": "Jo"}, "x": 1}
    assert body["to"] == {"mail": "jo@mail.example", "name": "Jo"}


def test_text_of_values() -> None:
    assert [as_text(value) for value in (True, None, 5, 1.5, {"b": 1, "a": [2]})] == [
        "true",
        "null",
        "5",
        "1.5",
        '{"a":[2],"b":1}',
    ]
