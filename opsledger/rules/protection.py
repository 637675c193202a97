"""Whether the same request may be sent again without a second effect, and until when (rules.md, table 3).

`refuse_profile` says which profiles would make that untrue, so that they are never loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from opsledger.rules.identity import KEY_LENGTH_MIN
from opsledger.rules.profile import (
    ActionProfile,
    FinalEffectBy,
    Lookup,
    Meaning,
    Protection,
    ProtectionKind,
    ReplayMeaning,
    Settles,
)
from opsledger.rules.schedule import LOOKS_MAX, later, planned_look_count

_MEANING_WHEN = re.compile(r"[1-5][0-9]{2}(:[^=\s]+=.*)?", re.ASCII | re.DOTALL)
_KEYED = frozenset({ProtectionKind.IDEMPOTENCY_KEY, ProtectionKind.CLIENT_ID})


@dataclass(frozen=True, slots=True)
class Protected:
    kind: ProtectionKind
    protected: bool
    why: str  # one machine word
    sentence: str  # the same for people
    until: datetime | None = None  # the latest moment to start sending; None: no end, or not protected
    window_ends_at: datetime | None = None  # when the destination may forget, also when that is past
    own_window: bool = False  # the window is the operator's own, not a documented one
    integrity_alarm: bool = False


def protected_until(
    profile: ActionProfile,
    *,
    first_possible_at: datetime | None,
    now: datetime,
    same_bytes: bool,
    record_changed_since: bool | None = None,
    answered_with_error: bool = False,
) -> Protected:
    """Whether sending this request again at `now` is documented to have no second effect.

    `first_possible_at` is the earliest moment at which the destination may have seen the key (None: not yet, so
    the window would begin now). `record_changed_since` is for an upsert; None means that nobody has looked.
    `answered_with_error` says that an attempt under this key was answered with a server error. All times are
    aware and of one clock, the database's.
    """
    kind = profile.protection.kind
    if not same_bytes:
        sentence = "The bytes are not those that were sent first. Nothing may be sent."
        return Protected(kind, False, "bytes_differ", sentence, integrity_alarm=True)
    if kind is ProtectionKind.NONE:
        return _no(kind, "none_documented", _NONE_DOCUMENTED)
    if kind is ProtectionKind.UPSERT and record_changed_since is not False:
        return _overwrites(record_changed_since)
    if answered_with_error and profile.protection.replay is ReplayMeaning.FIRST_SUCCESS_ONLY:
        sentence = (
            "The destination keeps only successes under the key; after its error the same key acts again."
        )
        return _no(kind, "error_not_kept", sentence)
    window_seconds, own_window = _window(profile)
    if window_seconds is not None:
        return _within(profile, first_possible_at or now, now, window_seconds, own_window)
    if kind is ProtectionKind.IDEMPOTENCY_KEY or not is_documented(profile):
        return _no(kind, "window_unpublished", "How long the protection lasts is not published.")
    return Protected(kind, True, _WHY_ENDLESS[kind], _SENTENCE_ENDLESS[kind])


_NONE_DOCUMENTED = "The destination documents no protection for this action."
_WHY_ENDLESS = {
    ProtectionKind.CLIENT_ID: "unique_id",
    ProtectionKind.UPSERT: "record_unchanged",
    ProtectionKind.CONDITIONAL: "precondition",
}
_SENTENCE_ENDLESS = {
    ProtectionKind.CLIENT_ID: "Protected while the id that we gave stays unique there.",
    ProtectionKind.UPSERT: "Protected: a repeat writes the same record, and nobody has changed it since.",
    ProtectionKind.CONDITIONAL: "Protected: a repeat is refused by its own precondition. "
    "That refusal says nothing about the first attempt.",
}


def forgotten(profile: ActionProfile) -> Protected:
    """A restored backup has forgotten what was sent: perhaps a revision of the request, with another key."""
    kind = profile.protection.kind
    if kind is ProtectionKind.NONE:
        return _no(kind, "none_documented", _NONE_DOCUMENTED)
    sentence = (
        "A restored backup has forgotten what was sent: it may have been another request, under another key."
    )
    return _no(kind, "forgotten", sentence)


def is_documented(profile: ActionProfile) -> bool:
    """A source is named and was confirmed. Anything less never widens protection."""
    source = profile.protection.source
    return source is not None and source.confirmed


def _window(profile: ActionProfile) -> tuple[int | None, bool]:
    """Seconds, and whether they are the operator's own: where nothing is published, or where shorter."""
    protection = profile.protection
    published = protection.window_seconds if is_documented(profile) else None
    own = protection.operator_window_seconds
    if own is None or (published is not None and published <= own):
        return published, False
    return own, True


def _within(
    profile: ActionProfile, first: datetime, now: datetime, window_seconds: int, own_window: bool
) -> Protected:
    kind = profile.protection.kind
    ends_at = later(first, window_seconds)
    until = ends_at - timedelta(seconds=profile.timing.total_seconds + profile.protection.margin_seconds)
    whose = "The operator's own window" if own_window else "The documented window"
    if now < until:
        sentence = (
            f"{whose} lasts until {_shown(ends_at)}; the same request may be sent until {_shown(until)}."
        )
        return Protected(kind, True, "within_window", sentence, until, ends_at, own_window)
    left = "has ended" if now >= ends_at else "leaves no time for a whole attempt"
    sentence = (
        f"{whose} ({_shown(ends_at)}) {left}. Sent again, the key would be a new action at the destination."
    )
    return Protected(kind, False, "expired", sentence, None, ends_at, own_window)


def _overwrites(record_changed_since: bool | None) -> Protected:
    if record_changed_since is None:
        why, said = "record_unread", "Whether somebody has changed the record since is not known."
    else:
        why, said = "record_changed", "Somebody has changed the record since."
    return _no(ProtectionKind.UPSERT, why, f"{said} A repeat could overwrite a colleague's work.")


def _no(kind: ProtectionKind, why: str, sentence: str) -> Protected:
    return Protected(kind, False, why, sentence)


def _shown(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


# What is refused when a profile is loaded


def refuse_profile(profile: ActionProfile) -> list[str]:
    """Each reason, for people, beginning with the field it is about; empty when the profile can be used."""
    return [
        *_refuse_client(profile),
        *_refuse_timing(profile),
        *_refuse_retries(profile),
        *_refuse_protection(profile),
        *_refuse_window(profile),
        *_refuse_lookup(profile),
        *_refuse_reply(profile),
        *_refuse_final_effect(profile),
    ]


def _refuse_client(profile: ActionProfile) -> Iterator[str]:
    sends = profile.client_sends_max
    if sends != 1:
        yield f"client_sends_max: the client library may send {sends} times for one call; it must send once"


def _refuse_timing(profile: ActionProfile) -> Iterator[str]:
    timing = profile.timing
    if not 0 < timing.connect_seconds < timing.total_seconds < timing.lease_seconds:
        yield "timing: must nest, connect_seconds below total_seconds below lease_seconds"


def _refuse_retries(profile: ActionProfile) -> Iterator[str]:
    retries = profile.retries
    if retries.tries_max < 1:
        yield "retries.tries_max: must be 1 or more"
    if retries.tries_max > 1 and not retries.delays_seconds:
        yield "retries.delays_seconds: is empty, but more than one try is allowed"
    if _decreases(retries.delays_seconds):
        yield "retries.delays_seconds: must not decrease"
    if retries.delay_max_seconds < max(retries.delays_seconds, default=0):
        yield "retries.delay_max_seconds: is shorter than one of the delays"


def _refuse_protection(profile: ActionProfile) -> Iterator[str]:
    protection = profile.protection
    if protection.kind is ProtectionKind.NONE:
        if protection.window_seconds or protection.operator_window_seconds or protection.key_in:
            yield "protection.kind: is none, but a window or a key is named"
        return
    if protection.source is None:
        yield "protection.source: is missing; protection counts only where its documentation is named"
    if protection.kind in _KEYED and not protection.key_in:
        yield "protection.key_in: is missing; where does the key go?"
    if protection.kind in _KEYED and protection.key_length_max < KEY_LENGTH_MIN:
        length = protection.key_length_max
        yield f"protection.key_length_max: is {length}; a key needs {KEY_LENGTH_MIN} characters to be unique"
    if protection.kind is ProtectionKind.UPSERT and not protection.side_effects_again:
        yield "protection.side_effects_again: is missing; what does a repeat run again (“none” if nothing)?"
    if protection.margin_seconds < 0:
        yield "protection.margin_seconds: must be 0 or more"


def _refuse_window(profile: ActionProfile) -> Iterator[str]:
    protection, timing, lookup = profile.protection, profile.timing, profile.lookup
    published, own = protection.window_seconds, protection.operator_window_seconds
    if published is not None and own is not None and own > published:
        yield "protection.operator_window_seconds: is longer than the documented window"
    windows = [window for window in (published, own) if window is not None]
    if not windows:
        return
    attempt_seconds = timing.total_seconds + protection.margin_seconds
    if min(windows) <= attempt_seconds:
        yield f"protection.window_seconds: is over before one attempt and its margin ({attempt_seconds:g} s)"
    elif lookup and _last_look_is_over_after(profile, lookup) + attempt_seconds > min(windows):
        yield (
            "lookup.last_look_seconds: is too late; after the lease and the last look no protected attempt "
            f"would fit into the window of {min(windows)} s"
        )


def _last_look_is_over_after(profile: ActionProfile, lookup: Lookup) -> float:
    """Seconds from the first possible arrival to the end of the last look, the lease having ended first."""
    return profile.timing.lease_seconds + lookup.last_look_seconds + profile.timing.total_seconds


def _refuse_lookup(profile: ActionProfile) -> Iterator[str]:
    lookup = profile.lookup
    if lookup is None:
        return
    if lookup.looks_min < 2:
        yield "lookup.looks_min: must be 2 or more; one empty answer proves nothing"
    if not lookup.delays_seconds or min(lookup.delays_seconds) < 1 or _decreases(lookup.delays_seconds):
        yield "lookup.delays_seconds: must be delays of 1 second or more that do not decrease"
    elif planned_look_count(lookup) > LOOKS_MAX:
        yield f"lookup.delays_seconds: would ask more than {LOOKS_MAX} times until the last look"
    if lookup.last_look_seconds < lookup.quiet_seconds + lookup.looks_min - 1:
        yield f"lookup.last_look_seconds: leaves no room for {lookup.looks_min} looks after the quiet period"
    if not lookup.identity and not lookup.by_reference:
        yield "lookup.identity: is missing; a record without it is only alike"
    if not lookup.decisive:
        yield "lookup.decisive: is empty; which fields must be equal before a record confirms anything?"
    if not {ours for ours, _ in lookup.kinds} <= {ours for ours, _ in lookup.decisive}:
        yield "lookup.kinds: names a field that is not decisive"
    if lookup.settles is Settles.BOTH and lookup.source is None:
        yield "lookup.source: is missing; absence counts only where documentation says that it does"


def _refuse_reply(profile: ActionProfile) -> Iterator[str]:
    reply = profile.reply
    if reply.meanings and reply.source is None:
        yield "reply.source: is missing; a meaning may differ from the table only where it is documented"
    for when, meaning in reply.meanings:
        if not _MEANING_WHEN.fullmatch(when):
            yield f"reply.meanings: “{when}” must be a status such as 409, or 409:code.path=value"
        elif when[0] in "13" and meaning in {Meaning.CONFIRMED, Meaning.ACCEPTED}:
            yield f"reply.meanings: “{when}” can't be a success; a redirect is never one"
    if any(meaning is Meaning.EXISTS_NAMED for _, meaning in reply.meanings) and not (
        reply.exists_reference or reply.reference
    ):
        yield "reply.exists_reference: is missing; where does the reply name the record?"
    if _tells_mismatches(profile.protection) and all(
        meaning is not Meaning.KEY_MISMATCH for _, meaning in reply.meanings
    ):
        # read as an ordinary refusal it would end as *rejected*, and a changed request would get a new key
        yield (
            "reply.meanings: names no key_mismatch; how does the destination refuse a key that was used with other "
            "parameters? One that takes it says protection.replay = “answer_even_if_different”"
        )


def _tells_mismatches(protection: Protection) -> bool:
    keyed = protection.kind is ProtectionKind.IDEMPOTENCY_KEY
    return keyed and protection.replay is not ReplayMeaning.ANSWER_EVEN_IF_DIFFERENT


def _refuse_final_effect(profile: ActionProfile) -> Iterator[str]:
    final = profile.final_effect
    if final is None:
        return
    if final.deadline_seconds < 1:
        yield "final_effect.deadline_seconds: must be 1 or more"
    if final.by is FinalEffectBy.LOOKUP and not final.look_delays_seconds:
        yield "final_effect.look_delays_seconds: is empty, but the final effect is known by lookup"


def _decreases(delays: Sequence[int]) -> bool:
    return list(delays) != sorted(delays)
