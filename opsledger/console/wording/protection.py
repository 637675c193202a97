"""Protection in words, beside every verb that may send, and what sending again risks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.rules.profile import ActionProfile, ProtectionKind
from opsledger.rules.protection import Protected
from opsledger.rules.states import HoldReason


@dataclass(frozen=True, slots=True)
class ProtectionWords:
    """`state` is a key of the vocabulary's protection rows."""

    state: str
    text: str


_KIND_WORDS: Mapping[ProtectionKind, str] = {
    ProtectionKind.NONE: noop("None"),
    ProtectionKind.IDEMPOTENCY_KEY: noop("Idempotency key"),
    ProtectionKind.CLIENT_ID: noop("Own id, unique there"),
    ProtectionKind.UPSERT: noop("Upsert, while nobody changes the record"),
    ProtectionKind.CONDITIONAL: noop("Conditional: a repeat is refused"),
}
_UNPROTECTED: Mapping[str, str] = {
    "none_documented": noop("None: a resend may duplicate"),
    "bytes_differ": noop("None: the bytes differ from the first ones"),
    "record_unread": noop("None: somebody may have changed the record"),
    "record_changed": noop("None: somebody has changed the record"),
    "error_not_kept": noop("None: the key is not kept after an error"),
    "forgotten": noop("None: a restored backup has forgotten what was sent"),
    "window_unpublished": noop("None: how long it lasts is not published"),
}


def protection(
    protected: Protected, *, attempts: int, may_have_had_effect: bool, left: str = "", since: str = ""
) -> ProtectionWords:
    """Whether sending again is safe, in a few words. `left` and `since` are spans as text: until it ends, since it did."""
    if not attempts:
        return ProtectionWords("protected", _("Nothing was sent"))
    if not may_have_had_effect:
        return ProtectionWords("protected", _("No attempt took effect"))
    if protected.protected:
        kind = _(_KIND_WORDS[protected.kind])
        if not left:
            return ProtectionWords("protected", kind)
        own = (
            _("%(kind)s, your own window, %(left)s left")
            if protected.own_window
            else _("%(kind)s, %(left)s left")
        )
        return ProtectionWords("protected", own % {"kind": kind, "left": left})
    if protected.why == "expired":
        text = _("Expired %(since)s ago") % {"since": since} if since else _("Ends too soon for an attempt")
        return ProtectionWords("expired", text)
    return ProtectionWords("unprotected", _(_UNPROTECTED.get(protected.why, _UNPROTECTED["none_documented"])))


def accepted_protection() -> ProtectionWords:
    """What was taken over is not sent again, whatever protects it."""
    return ProtectionWords("protected", _("Taken over: never sent again"))


def undelivered_protection() -> ProtectionWords:
    """What was taken over and then not delivered had an effect all the same, and is not sent again."""
    return ProtectionWords("protected", _("Taken over, not delivered: never sent again"))


def sending_again(protected: Protected, *, may_have_had_effect: bool, until: str, ended: str) -> str:
    """What sending the same request again risks, in a sentence. `until` and `ended` are times as text, "" for none."""
    if not may_have_had_effect:
        return _("What was sent so far changed nothing, so it can’t happen twice.")
    if protected.protected and until:
        return _("The destination recognises the same request, if it is sent before %(until)s.") % {
            "until": until
        }
    if protected.why == "expired" and ended:
        return _("The destination recognised it until %(ended)s only: sent again, it may happen twice.") % {
            "ended": ended
        }
    return protected.sentence


def stopped_protection(reason: HoldReason) -> ProtectionWords:
    """While a destination is stopped, nothing is sent to it; an open circuit lets trials through."""
    if reason is HoldReason.CIRCUIT_OPEN:
        return ProtectionWords("protected", _("Only single trials are sent there"))
    return ProtectionWords("protected", _("Nothing is sent there now"))


def event_protection() -> ProtectionWords:
    """A question about an event comes before anything is sent for it."""
    return ProtectionWords("protected", _("Nothing was sent for it"))


def documented_protection(profile: ActionProfile, window: str) -> ProtectionWords:
    """What a profile documents, for the page of its destination: “Idempotency key, 1 d window”."""
    kind, source = profile.protection.kind, profile.protection.source
    if kind is ProtectionKind.NONE:
        return ProtectionWords("unprotected", _(_UNPROTECTED["none_documented"]))
    text = _(_KIND_WORDS[kind])
    if source is None or not source.confirmed:
        return ProtectionWords(
            "expired", _("%(kind)s: without a confirmed source, treated as none") % {"kind": text}
        )
    if window:
        text = _("%(kind)s, %(window)s window") % {"kind": text, "window": window}
    return ProtectionWords("protected", text)
