"""Table 3: whether the same request may be sent again, until when; and which profiles are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.rules.profile import (
    ActionProfile,
    FieldKind,
    FinalEffect,
    FinalEffectBy,
    Lookup,
    Meaning,
    Protection,
    ProtectionKind,
    ReplayMeaning,
    Reply,
    Retries,
    Settles,
    Source,
    Timing,
)
from opsledger.rules.protection import protected_until, refuse_profile

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
T0 = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DOCUMENTED = Source("https://crm.example/docs", "2026-03-01")
DOUBTFUL = Source("https://blog.example/post", "2026-03-01", confirmed=False)
KEYED = Protection(
    kind=ProtectionKind.IDEMPOTENCY_KEY,
    window_seconds=86_400,
    key_in="header:Idempotency-Key",
    margin_seconds=30,
    source=DOCUMENTED,
)
LOOKUP = Lookup(
    settles=Settles.BOTH,
    quiet_seconds=60,
    delays_seconds=(10, 60, 300),
    last_look_seconds=3600,
    identity="external_id",
    decisive=(("subject", "subject"),),
    source=DOCUMENTED,
)


MISMATCH = ("422:code=key_reused", Meaning.KEY_MISMATCH)
TELLS = Reply(meanings=(MISMATCH,), source=DOCUMENTED)


def profile(protection: Protection = KEYED, **more: Any) -> ActionProfile:
    timing = Timing(connect_seconds=5, total_seconds=30, lease_seconds=60)
    return ActionProfile(
        "crm", "create_task", protection=protection, **{"timing": timing, "reply": TELLS, **more}
    )


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def judged(protection: Protection, seconds: float = 0.0, **facts: Any) -> tuple[bool, str]:
    found = protected_until(
        profile(protection), **{"first_possible_at": T0, "now": at(seconds), "same_bytes": True, **facts}
    )
    return found.protected, found.why


def kind(word: str, **more: Any) -> Protection:
    return Protection(**{"kind": ProtectionKind(word), "source": DOCUMENTED, **more})


OWN = replace(KEYED, window_seconds=None, operator_window_seconds=600)
UPSERT = kind("upsert", side_effects_again="none")

TABLE = {
    "kind none": (Protection(), {}, (False, "none_documented")),
    "same key, same bytes, at once": (KEYED, {}, (True, "within_window")),
    "same key, same bytes, just before the deadline and margin": (
        KEYED,
        {"seconds": 86_400 - 60 - 0.001},
        (True, "within_window"),
    ),
    "past that: expired, with no time for a whole attempt": (
        KEYED,
        {"seconds": 86_400 - 60},
        (False, "expired"),
    ),
    "past that: expired": (KEYED, {"seconds": 90_000}, (False, "expired")),
    "the key was not seen yet": (KEYED, {"first_possible_at": None}, (True, "within_window")),
    "window unpublished": (replace(KEYED, window_seconds=None), {}, (False, "window_unpublished")),
    "window unpublished, the operator set one": (OWN, {}, (True, "within_window")),
    "window unpublished, the operator's is over": (OWN, {"seconds": 541}, (False, "expired")),
    "window only unconfirmed": (replace(KEYED, source=DOUBTFUL), {}, (False, "window_unpublished")),
    "window without a source": (replace(KEYED, source=None), {}, (False, "window_unpublished")),
    "window unconfirmed, the operator set one": (
        replace(KEYED, source=DOUBTFUL, operator_window_seconds=600),
        {"seconds": 541},
        (False, "expired"),
    ),
    "the operator's window is the shorter one": (
        replace(KEYED, operator_window_seconds=600),
        {"seconds": 541},
        (False, "expired"),
    ),
    "the operator's window never widens a documented one": (
        replace(KEYED, operator_window_seconds=172_800),
        {"seconds": 90_000},
        (False, "expired"),
    ),
    "bytes differ": (KEYED, {"same_bytes": False}, (False, "bytes_differ")),
    "bytes differ, kind none": (Protection(), {"same_bytes": False}, (False, "bytes_differ")),
    "bytes differ, upsert": (UPSERT, {"same_bytes": False}, (False, "bytes_differ")),
    "client_id": (kind("client_id"), {"seconds": 1e8}, (True, "unique_id")),
    "client_id that stays unique for a time": (
        kind("client_id", window_seconds=600),
        {"seconds": 541},
        (False, "expired"),
    ),
    "client_id, unconfirmed": (kind("client_id", source=DOUBTFUL), {}, (False, "window_unpublished")),
    "upsert, nobody changed the record since": (
        UPSERT,
        {"record_changed_since": False},
        (True, "record_unchanged"),
    ),
    "upsert, somebody changed the record since": (
        UPSERT,
        {"record_changed_since": True},
        (False, "record_changed"),
    ),
    "upsert, nobody has looked": (UPSERT, {"record_changed_since": None}, (False, "record_unread")),
    "upsert, unconfirmed": (
        replace(UPSERT, source=DOUBTFUL),
        {"record_changed_since": False},
        (False, "window_unpublished"),
    ),
    "conditional": (kind("conditional"), {"seconds": 1e8}, (True, "precondition")),
    "conditional, unconfirmed": (kind("conditional", source=DOUBTFUL), {}, (False, "window_unpublished")),
    "only successes are kept, and the first answer was an error": (
        replace(KEYED, replay=ReplayMeaning.FIRST_SUCCESS_ONLY),
        {"answered_with_error": True},
        (False, "error_not_kept"),
    ),
    "only successes are kept, and nothing was heard": (
        replace(KEYED, replay=ReplayMeaning.FIRST_SUCCESS_ONLY),
        {},
        (True, "within_window"),
    ),
    "failed work is run again, and the first answer was an error": (
        replace(KEYED, replay=ReplayMeaning.RERUNS_FAILED),
        {"answered_with_error": True},
        (True, "within_window"),
    ),
}


@pytest.mark.parametrize(("protection", "facts", "expected"), TABLE.values(), ids=TABLE.keys())
def test_protected(protection: Protection, facts: dict[str, Any], expected: tuple[bool, str]) -> None:
    assert judged(protection, **facts) == expected


def test_protected_until_the_last_moment_at_which_a_whole_attempt_fits() -> None:
    found = protected_until(profile(), first_possible_at=T0, now=at(3600), same_bytes=True)
    assert (found.until, found.window_ends_at) == (at(86_400 - 60), at(86_400))
    assert not found.own_window
    assert found.sentence == (
        "The documented window lasts until 2026-03-02 12:00:00 UTC; "
        "the same request may be sent until 2026-03-02 11:59:00 UTC."
    )


def test_the_window_counts_from_the_first_possible_arrival() -> None:
    found = protected_until(profile(), first_possible_at=at(-50_000), now=T0, same_bytes=True)
    assert found.window_ends_at == at(36_400)


def test_the_operators_window_is_shown_as_the_operators_own() -> None:
    found = protected_until(profile(OWN), first_possible_at=T0, now=T0, same_bytes=True)
    assert (found.own_window, found.until) == (True, at(540))
    assert found.sentence.startswith("The operator's own window")


def test_an_expired_key_says_that_it_would_be_a_new_action() -> None:
    found = protected_until(profile(), first_possible_at=T0, now=at(90_000), same_bytes=True)
    assert (found.until, found.window_ends_at) == (None, at(86_400))
    assert "would be a new action at the destination" in found.sentence


def test_protection_without_end_has_no_until() -> None:
    found = protected_until(profile(kind("client_id")), first_possible_at=T0, now=T0, same_bytes=True)
    assert (found.protected, found.until, found.window_ends_at) == (True, None, None)


@pytest.mark.parametrize("protection", [KEYED, UPSERT, Protection()], ids=lambda one: one.kind.value)
def test_only_different_bytes_are_an_integrity_alarm(protection: Protection) -> None:
    different = protected_until(profile(protection), first_possible_at=T0, now=T0, same_bytes=False)
    same = protected_until(profile(protection), first_possible_at=T0, now=T0, same_bytes=True)
    assert (different.integrity_alarm, same.integrity_alarm) == (True, False)


def test_a_window_of_ages_does_not_overflow() -> None:
    assert judged(replace(KEYED, window_seconds=10**12)) == (True, "within_window")


@UNHURRIED
@given(
    st.sampled_from(ProtectionKind),
    st.none() | st.integers(0, 10**12),
    st.none() | st.integers(0, 10**6),
    st.sampled_from([None, DOUBTFUL]),
    st.integers(0, 10**6),
)
def test_what_is_not_documented_is_protected_by_an_operators_window_only(
    protection_kind: ProtectionKind, window: int | None, own: int | None, source: Source | None, seconds: int
) -> None:
    protection = Protection(
        kind=protection_kind, window_seconds=window, operator_window_seconds=own, source=source
    )
    found = protected_until(
        profile(protection),
        first_possible_at=T0,
        now=at(seconds),
        same_bytes=True,
        record_changed_since=False,
    )
    if found.protected:
        assert found.own_window
        assert own is not None
        assert seconds < own - 60


# Refused when loaded


def test_a_sound_profile_is_not_refused() -> None:
    sound = profile(
        lookup=LOOKUP,
        final_effect=FinalEffect(FinalEffectBy.LOOKUP, 600, (60, 120)),
        reply=Reply(
            reference="id",
            meanings=(MISMATCH, ("409:code=used", Meaning.EXISTS_NAMED), ("503", Meaning.NOT_SENT)),
            source=DOCUMENTED,
        ),
    )
    assert refuse_profile(sound) == []
    assert refuse_profile(ActionProfile("crm", "create_task")) == []
    assert refuse_profile(profile(UPSERT)) == []
    takes_it = replace(KEYED, replay=ReplayMeaning.ANSWER_EVEN_IF_DIFFERENT)
    assert refuse_profile(profile(takes_it, reply=Reply())) == []


REFUSED = {
    "the client library would re-send by itself": (
        {"client_sends_max": 3},
        "client_sends_max: the client library may send 3 times for one call; it must send once",
    ),
    "connect is not below total": (
        {"timing": Timing(connect_seconds=30, total_seconds=30, lease_seconds=60)},
        "timing: must nest, connect_seconds below total_seconds below lease_seconds",
    ),
    "total is not below lease": (
        {"timing": Timing(connect_seconds=5, total_seconds=60, lease_seconds=60)},
        "timing: must nest, connect_seconds below total_seconds below lease_seconds",
    ),
    "connect is nothing": (
        {"timing": Timing(connect_seconds=0, total_seconds=30, lease_seconds=60)},
        "timing: must nest, connect_seconds below total_seconds below lease_seconds",
    ),
    "no try at all": ({"retries": Retries(tries_max=0)}, "retries.tries_max: must be 1 or more"),
    "tries without delays": (
        {"retries": Retries(delays_seconds=())},
        "retries.delays_seconds: is empty, but more than one try is allowed",
    ),
    "delays that decrease": (
        {"retries": Retries(delays_seconds=(30, 5))},
        "retries.delays_seconds: must not decrease",
    ),
    "a delay longer than the longest": (
        {"retries": Retries(delays_seconds=(7200,))},
        "retries.delay_max_seconds: is shorter than one of the delays",
    ),
    "kind none with a key": (
        {"protection": Protection(key_in="header:Idempotency-Key")},
        "protection.kind: is none, but a window or a key is named",
    ),
    "protection without a source": (
        {"protection": replace(KEYED, source=None)},
        "protection.source: is missing; protection counts only where its documentation is named",
    ),
    "a key without a place": (
        {"protection": replace(KEYED, key_in="")},
        "protection.key_in: is missing; where does the key go?",
    ),
    "a key that is too short to be unique": (
        {"protection": replace(KEYED, key_length_max=25)},
        "protection.key_length_max: is 25; a key needs 26 characters to be unique",
    ),
    "upsert that does not say what runs again": (
        {"protection": replace(UPSERT, side_effects_again="")},
        "protection.side_effects_again: is missing; what does a repeat run again (“none” if nothing)?",
    ),
    "a margin below nothing": (
        {"protection": replace(KEYED, margin_seconds=-1)},
        "protection.margin_seconds: must be 0 or more",
    ),
    "an operator's window that widens": (
        {"protection": replace(KEYED, operator_window_seconds=86_401)},
        "protection.operator_window_seconds: is longer than the documented window",
    ),
    "a window without room for one attempt": (
        {"protection": replace(KEYED, window_seconds=60)},
        "protection.window_seconds: is over before one attempt and its margin (60 s)",
    ),
    "a last look too late for one protected attempt": (
        {"protection": replace(KEYED, window_seconds=3749), "lookup": LOOKUP},
        (
            "lookup.last_look_seconds: is too late; after the lease and the last look no protected attempt "
            "would fit into the window of 3749 s"
        ),
    ),
    "fewer than two looks": (
        {"lookup": replace(LOOKUP, looks_min=1)},
        "lookup.looks_min: must be 2 or more; one empty answer proves nothing",
    ),
    "no delays between looks": (
        {"lookup": replace(LOOKUP, delays_seconds=())},
        "lookup.delays_seconds: must be delays of 1 second or more that do not decrease",
    ),
    "looks without a pause": (
        {"lookup": replace(LOOKUP, delays_seconds=(0, 60))},
        "lookup.delays_seconds: must be delays of 1 second or more that do not decrease",
    ),
    "too many looks": (
        {"lookup": replace(LOOKUP, delays_seconds=(1,))},
        "lookup.delays_seconds: would ask more than 100 times until the last look",
    ),
    "no look after the quiet period": (
        {"lookup": replace(LOOKUP, quiet_seconds=3600)},
        "lookup.last_look_seconds: leaves no room for 2 looks after the quiet period",
    ),
    "a lookup without identity": (
        {"lookup": replace(LOOKUP, identity="")},
        "lookup.identity: is missing; a record without it is only alike",
    ),
    "a lookup without decisive fields": (
        {"lookup": replace(LOOKUP, decisive=())},
        "lookup.decisive: is empty; which fields must be equal before a record confirms anything?",
    ),
    "a kind for a field that is not decisive": (
        {"lookup": replace(LOOKUP, kinds=(("amount", FieldKind.NUMBER),))},
        "lookup.kinds: names a field that is not decisive",
    ),
    "absence without a source": (
        {"lookup": replace(LOOKUP, source=None)},
        "lookup.source: is missing; absence counts only where documentation says that it does",
    ),
    "meanings without a source": (
        {"reply": Reply(meanings=(MISMATCH, ("503", Meaning.NOT_SENT)))},
        "reply.source: is missing; a meaning may differ from the table only where it is documented",
    ),
    "a meaning of no status": (
        {"reply": Reply(meanings=(MISMATCH, ("5xx", Meaning.NOT_SENT)), source=DOCUMENTED)},
        "reply.meanings: “5xx” must be a status such as 409, or 409:code.path=value",
    ),
    "a meaning of half a condition": (
        {"reply": Reply(meanings=(MISMATCH, ("409:code", Meaning.REJECTED)), source=DOCUMENTED)},
        "reply.meanings: “409:code” must be a status such as 409, or 409:code.path=value",
    ),
    "a redirect as a success": (
        {"reply": Reply(meanings=(MISMATCH, ("302", Meaning.CONFIRMED)), source=DOCUMENTED)},
        "reply.meanings: “302” can't be a success; a redirect is never one",
    ),
    "a mismatch of the key that nobody would see": (
        {"reply": Reply()},
        (
            "reply.meanings: names no key_mismatch; how does the destination refuse a key that was used with "
            "other parameters? One that takes it says protection.replay = “answer_even_if_different”"
        ),
    ),
    "a record named nowhere": (
        {"reply": Reply(meanings=(MISMATCH, ("409", Meaning.EXISTS_NAMED)), source=DOCUMENTED)},
        "reply.exists_reference: is missing; where does the reply name the record?",
    ),
    "a final effect without a deadline": (
        {"final_effect": FinalEffect(FinalEffectBy.REPORT, 0)},
        "final_effect.deadline_seconds: must be 1 or more",
    ),
    "a final effect by lookup that is never looked for": (
        {"final_effect": FinalEffect(FinalEffectBy.LOOKUP, 600)},
        "final_effect.look_delays_seconds: is empty, but the final effect is known by lookup",
    ),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_profile_is_refused_for(change: dict[str, Any], reason: str) -> None:
    assert refuse_profile(replace(profile(), **change)) == [reason]


def test_a_last_look_just_in_time_and_a_lookup_by_reference_only_are_not_refused() -> None:
    assert refuse_profile(profile(replace(KEYED, window_seconds=3750), lookup=LOOKUP)) == []
    assert refuse_profile(profile(lookup=replace(LOOKUP, identity="", by_reference=True))) == []
