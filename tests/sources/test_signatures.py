"""Who may tell us something: whoever signed exactly these bytes, lately, with a secret that is still accepted."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from opsledger.rules.definition_types import SignatureDefinition
from opsledger.sources.profiles import PROFILES, completed
from opsledger.sources.refusals import Refusal
from opsledger.sources.signatures import Headers, Secret, Verified, configured_secrets, sign, verify

from .senders import KEY, NOW, delivery, secret, source

RAW = b'{"test": 2432232314}'
SHOP = completed(source())


def check(headers: Headers, raw: bytes = RAW, *secrets: Secret, of: Any = SHOP, now: Any = NOW) -> str:
    """The name of the secret that matched, or the reason of the refusal, which is always a 401 here."""
    answer = verify(of, headers, raw, now, secrets or [secret()])
    if isinstance(answer, Verified):
        return answer.secret_name
    assert answer.status == 401
    return answer.reason


def plain(**fields: Any) -> Any:
    return completed(source(delivery="", signature={"header": "X-Signature", **fields}, event_id="body:id"))


def test_a_standard_webhook_verifies_as_computed_by_hand() -> None:
    key = base64.b64decode(KEY.removeprefix("whsec_"))
    signed = b"msg_1.1793707200." + RAW
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    headers = [
        ("Webhook-Id", "msg_1"),
        ("Webhook-Timestamp", "1793707200"),
        ("Webhook-Signature", f"v1,{signature}"),
    ]
    assert NOW.timestamp() == 1793707200
    assert check(headers) == "SHOP_SECRET"
    assert check(headers, RAW + b" ") == "signature_mismatch"
    assert check([("webhook-id", "msg_2"), *headers[1:]]) == "signature_mismatch"


def test_the_digest_is_that_of_rfc_4231() -> None:
    raw = b"what do ya want for nothing?"
    header = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert check([("x-signature", header)], raw, secret("Jefe"), of=plain()) == "SHOP_SECRET"
    assert check([("x-signature", header.upper())], raw, secret("Jefe"), of=plain()) == "SHOP_SECRET"
    assert check([("x-signature", header)], raw, secret("jefe"), of=plain()) == "signature_mismatch"


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_verifies_what_it_signs_and_nothing_else(name: str) -> None:
    of = completed(source(delivery=name))
    headers = delivery(of, RAW)
    assert check(headers, RAW, of=of) == "SHOP_SECRET"
    assert check(headers, RAW.replace(b" ", b""), of=of) == "signature_mismatch"
    assert check(headers, RAW, secret("whsec_b3RoZXI="), of=of) == "signature_mismatch"


EXACT_BODIES = {
    "emoji in UTF-8": '{"a":"\U0001f600"}'.encode(),
    "upper-case hex escape": b'{"a":"\\u001B"}',
    "line separator": '{"a":"\u2028"}'.encode(),
    "odd spacing": b'{ "a"  :1 ,\r\n\t"b" : 2 }\n',
    "not JSON at all": b"\xff\x00",
    "empty": b"",
}


@pytest.mark.parametrize("raw", EXACT_BODIES.values(), ids=EXACT_BODIES.keys())
def test_the_signature_is_over_the_exact_bytes(raw: bytes) -> None:
    headers = delivery(SHOP, raw)
    assert check(headers, raw) == "SHOP_SECRET"
    assert check(headers, raw + b" ") == "signature_mismatch"


# Several signatures, rotating secrets

OLD, NEW = secret("whsec_b2xk", "OLD"), secret("whsec_bmV3", "NEW")
ENDED = Secret("OLD", OLD.value, NOW)


def entry(key: Secret, scheme: str = "v1") -> str:
    return sign(SHOP.signature, key.value, RAW, timestamp=int(NOW.timestamp()), event_id="evt_1")[  # type: ignore[arg-type]
        "webhook-signature"
    ].replace("v1,", f"{scheme},")


@pytest.mark.parametrize(
    "entries", [*permutations([entry(OLD), entry(NEW), "v0,garbage"])], ids=lambda e: e[0][:6] + e[1][:6]
)
@pytest.mark.parametrize(
    ("secrets", "matched"),
    [([NEW], "NEW"), ([OLD], "OLD"), ([OLD, NEW], "OLD"), ([ENDED], "secret_expired"), ([ENDED, NEW], "NEW")],
    ids=["new", "old", "both", "old ended", "old ended and new"],
)
def test_any_signature_of_any_active_secret_counts(entries: Any, secrets: list[Secret], matched: str) -> None:
    headers = dict(delivery(SHOP, RAW)) | {"webhook-signature": " ".join(entries)}
    assert check([*headers.items()], RAW, *secrets) == matched


def test_a_secret_is_accepted_up_to_its_end() -> None:
    headers = delivery(SHOP, RAW, key=OLD.value)
    until = Secret("OLD", OLD.value, NOW + timedelta(seconds=1))
    assert check(headers, RAW, until) == "OLD"
    assert check(headers, RAW, until, now=NOW + timedelta(seconds=1)) == "secret_expired"


def test_a_signature_of_an_unknown_scheme_does_not_count() -> None:
    for scheme in ("v2", "v1a", "V1", ""):
        headers = dict(delivery(SHOP, RAW)) | {"webhook-signature": entry(secret(), scheme)}
        assert check([*headers.items()]) == "signature_mismatch"


def test_a_stripe_header_may_hold_its_parts_in_any_order() -> None:
    of = completed(source(delivery="stripe"))
    first, second = dict(delivery(of, RAW))["Stripe-Signature"].split(",")
    for entries in permutations([first, second, "v0=5257", "v1=" + "0" * 64]):
        assert check([("stripe-signature", ",".join(entries))], of=of) == "SHOP_SECRET"
    assert check([("stripe-signature", f"{second},v0=1")], of=of) == "signature_mismatch"


def test_only_so_many_signatures_are_looked_at() -> None:
    headers = dict(delivery(SHOP, RAW))
    right = headers["webhook-signature"]
    headers["webhook-signature"] = " ".join([*["v1,AAAA"] * 19, right])
    assert check([*headers.items()]) == "SHOP_SECRET"
    headers["webhook-signature"] = " ".join([*["v1,AAAA"] * 20, right])
    assert check([*headers.items()]) == "signature_mismatch"


# Strangers

WRONG_HEADERS: dict[str, tuple[str, str | bytes, str]] = {
    "not ASCII as text": ("webhook-signature", "v1,\u00e9", "header_not_ascii"),
    "not ASCII as bytes": ("webhook-signature", b"v1,\xe9", "header_not_ascii"),
    "beyond Latin-1": ("webhook-signature", "v1,\u20ac", "header_not_ascii"),
    "empty": ("webhook-signature", "", "signature_missing"),
    "no scheme": ("webhook-signature", "abc", "signature_mismatch"),
    "not base64": ("webhook-signature", "v1,*", "signature_mismatch"),
    "cut base64": ("webhook-signature", "v1,abc", "signature_mismatch"),
    "only a scheme": ("webhook-signature", "v1,", "signature_mismatch"),
    "separators": ("webhook-signature", " , ,, v1", "signature_mismatch"),
    "NUL": ("webhook-signature", "v1,\x00", "signature_mismatch"),
    "very long": ("webhook-signature", "v1," + "A" * 100_000, "signature_mismatch"),
    "id not ASCII": ("webhook-id", "\u00e9", "header_not_ascii"),
    "id empty": ("webhook-id", b"", "signature_missing"),
    "timestamp not ASCII": ("webhook-timestamp", "\u0661", "header_not_ascii"),
    "timestamp empty": ("webhook-timestamp", "", "signature_missing"),
}


@pytest.mark.parametrize(("name", "value", "reason"), WRONG_HEADERS.values(), ids=WRONG_HEADERS.keys())
def test_a_header_that_makes_no_sense_is_a_plain_401(name: str, value: str | bytes, reason: str) -> None:
    headers: dict[str, str | bytes] = {**dict(delivery(SHOP, RAW)), name: value}
    assert check([*headers.items()]) == reason


@pytest.mark.parametrize("name", ["webhook-signature", "webhook-timestamp", "webhook-id"])
def test_a_missing_or_repeated_header_is_a_plain_401(name: str) -> None:
    headers = delivery(SHOP, RAW)
    assert check([pair for pair in headers if pair[0] != name]) == "signature_missing"
    assert check([*headers, (name.title(), dict(headers)[name])]) == "header_repeated"


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (-301, "timestamp_outside"),
        (-300, ""),
        (0, ""),
        (300, ""),
        (301, "timestamp_outside"),
        (-(10**9), "timestamp_outside"),
    ],
)
def test_the_timestamp_is_within_the_tolerance_both_ways(seconds: int, reason: str) -> None:
    headers = delivery(SHOP, RAW, at=NOW + timedelta(seconds=seconds))
    assert check(headers) == (reason or "SHOP_SECRET")


@pytest.mark.parametrize(
    "timestamp", ["-5", "1e9", "nan", "99999999999999", "1793707200.5", "0x6a", " 1793707200"]
)
def test_a_signed_timestamp_that_is_no_number_is_refused(timestamp: str) -> None:
    key = base64.b64decode(KEY.removeprefix("whsec_"))
    digest = hmac.digest(key, f"evt_1.{timestamp}.".encode() + RAW, "sha256")
    signature = f"v1,{base64.b64encode(digest).decode()}"
    headers = [("webhook-id", "evt_1"), ("webhook-timestamp", timestamp), ("webhook-signature", signature)]
    assert check(headers) == "timestamp_unreadable"


def test_a_stale_timestamp_is_told_only_to_who_could_sign() -> None:
    headers = delivery(SHOP, RAW, at=NOW - timedelta(days=1), key="whsec_b3RoZXI=")
    assert check(headers) == "signature_mismatch"


# Secrets


def test_without_a_configured_secret_the_sender_is_asked_to_come_again() -> None:
    answer = verify(SHOP, delivery(SHOP, RAW), RAW, NOW, [])
    assert isinstance(answer, Refusal)
    assert (answer.status, answer.reason) == (503, "secret_not_configured")


def test_a_secret_that_is_not_of_its_form_never_matches() -> None:
    for value in ("whsec_***", "whsec_", "not base64"):
        assert check(delivery(SHOP, RAW), RAW, secret(value)) == "signature_mismatch"
        assert check(delivery(SHOP, RAW), RAW, secret(value), secret()) == "SHOP_SECRET"


def test_secrets_come_from_the_environment_by_name() -> None:
    of = source(
        secrets=[
            {"environment": "OLD", "active_until": "2026-12-01T00:00:00Z"},
            {"environment": "NEW"},
            {"environment": "GONE"},
        ]
    )
    found = configured_secrets(of, {"OLD": "a", "NEW": "b", "GONE": ""}.__getitem__)
    assert [(one.name, one.value) for one in found] == [("OLD", "a"), ("NEW", "b")]
    assert found[0].active_until is not None
    assert found[1].active_until is None


def test_a_secret_does_not_show_itself() -> None:
    assert KEY not in repr(secret())


def test_sha1_and_sha512_are_known() -> None:
    for name in ("sha1", "sha512"):
        of = plain(hash=name, scheme=name)
        assert check(delivery(of, RAW), of=of) == "SHOP_SECRET"
        header = hmac.new(KEY.encode(), RAW, name).hexdigest()
        assert check([("X-Signature", f"{name}={header}")], of=of) == "SHOP_SECRET"


def test_a_definition_of_a_signature_has_safe_defaults() -> None:
    assert SignatureDefinition(header="X").signed == "{body}"
