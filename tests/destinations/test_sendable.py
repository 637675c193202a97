"""What the rules let through can be sent: no attempt is opened for a request that the transport would refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.destinations.credentials import CredentialMissing, credential_headers
from opsledger.destinations.transport import WireRequest, request_problem
from opsledger.lib.env import Env
from opsledger.rules.definitions import DestinationDefinition, build_definition
from opsledger.rules.rendering import Missing, RenderedRequest, render_request
from opsledger.rules.sendable import unsendable

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DOCUMENTED = {"url": "https://crm.example/docs", "checked": "2026-03-01"}


def destination(base_url: str = "http://crm.example", **headers: str) -> DestinationDefinition:
    action = {
        "title": "T",
        "request": {
            "method": "POST",
            "path": "/q/{params.a}",
            "query": {"b": "{params.b}"},
            "headers": {"X-C": "{params.c}", **headers},
            "body": {"d": "{params.d}"},
        },
        "protection": {"kind": "idempotency_key", "key_in": "header:Idempotency-Key", "source": DOCUMENTED},
    }
    credential = {"environment": "CRM_TOKEN", "header": "Authorization: Bearer {secret}"}
    table = {"name": "D", "base_url": base_url, "credential": credential, "actions": {"a": action}}
    found, problems = build_definition("destination", "d", table)
    assert problems == []
    assert isinstance(found, DestinationDefinition)
    return found


def render(of: DestinationDefinition, **params: Any) -> RenderedRequest | Missing:
    given = {"a": "a", "b": "b", "c": "c", "d": "d", **params}
    return render_request(of.actions["a"], given, "ol_1", {}, "key-1", of.base_url, operation_id="op_1")


NEVER_SENT: dict[str, tuple[str, dict[str, Any], str]] = {
    "a line break in a header": ("http://crm.example", {"c": "x\r\nY: z"}, "header X-C"),
    "a blank before a header's value": ("http://crm.example", {"c": " x"}, "header X-C"),
    "a blank after it": ("http://crm.example", {"c": "x "}, "header X-C"),
    "nothing but a tab": ("http://crm.example", {"c": "\t"}, "header X-C"),
    "a letter beyond ASCII": ("http://crm.example", {"c": "é"}, "header X-C"),
    "NUL": ("http://crm.example", {"c": "\0"}, "header X-C"),
    "a host of two dots": ("http://crm..example", {}, "address"),
    "no host": ("http://:80", {}, "address"),
    "a host beyond ASCII": ("http://bücher.example", {}, "address"),
    "a name and a password": ("http://me:pw@crm.example", {}, "address"),
    "a port that is none": ("http://crm.example:0", {}, "address"),
    "a port beyond all": ("http://crm.example:99999", {}, "address"),
    "half an address in brackets": ("http://[::1", {}, "address"),
}


@pytest.mark.parametrize(("base_url", "params", "where"), NEVER_SENT.values(), ids=NEVER_SENT.keys())
def test_a_request_that_can_not_be_sent_is_not_rendered_and_quotes_no_value(
    base_url: str, params: dict[str, Any], where: str
) -> None:
    found = render(destination(base_url), **params)
    assert isinstance(found, Missing)
    assert found.fields == (where,)
    assert not [why for _, why in found.problems if "pw" in why or "bücher" in why]


@UNHURRIED
@given(st.text(), st.text(), st.text(), st.text())
def test_what_is_rendered_can_be_sent_whatever_the_values_are(a: str, b: str, c: str, d: str) -> None:
    found = render(destination(), a=a, b=b, c=c, d=d)
    if isinstance(found, RenderedRequest):
        assert request_problem(WireRequest(found.method, found.url, found.headers, found.body)) == ""


HEADERS = st.sampled_from(
    ["Host", "host", "Connection", "Content-Length", "Accept-Encoding", "TE", "Upgrade", "X-A", "X A", ""]
)
VALUES = st.sampled_from(
    ["crm.example", "close", "keep-alive", "2", "identity", "", "x y", " x", "x\t", "é", "a\nb"]
)


@UNHURRIED
@given(
    st.sampled_from(["POST", "GET", "post", "TRACE", "PO ST", ""]),
    st.sampled_from(["http://crm.example/", "http://crm.example/é", "ftp://crm.example/", "http://a@b/"]),
    st.lists(st.tuples(HEADERS, VALUES), max_size=3).map(tuple),
    st.sampled_from([b"", b"{}"]),
)
def test_the_rules_and_the_transport_refuse_the_same(
    method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    refused = request_problem(WireRequest(method, url, headers, body)) != ""
    assert bool(unsendable(method, url, headers, body)) == refused


@pytest.mark.parametrize("secret", ["a\nb", "a\x00b", "clé", "a\x7fb"], ids=ascii)
def test_a_credential_that_no_header_can_carry_is_as_good_as_none_and_not_shown(secret: str) -> None:
    with pytest.raises(CredentialMissing, match=r"^CRM_TOKEN can’t be sent to d") as why:
        credential_headers(destination(), Env({"CRM_TOKEN": secret}))
    assert secret not in str(why.value)


def test_a_credential_is_put_into_its_header() -> None:
    found = credential_headers(destination(), Env({"CRM_TOKEN": "s3cret"}))
    assert found == (("Authorization", "Bearer s3cret"),)
