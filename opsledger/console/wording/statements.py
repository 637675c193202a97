"""What somebody or something says about an outcome, and where that is known from."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop


def statement(outcome: str, known_by: str, reference: str | None) -> str:
    """One side of a dispute: “it happened as T-1 (a person)”."""
    return _("%(said)s (%(origin)s)") % {"said": said(outcome, reference), "origin": origin(known_by)}


def said(outcome: str, reference: str | None) -> str:
    """What a statement says, without who says it: “it happened as T-1”. Nothing is what it did not happen as."""
    words = _(_OUTCOMES.get(outcome, noop("nothing certain")))
    if not reference or outcome == "no_change":
        return words
    return _("%(said)s as %(reference)s") % {"said": words, "reference": reference}


_OUTCOMES = {
    "confirmed": noop("it happened"),
    "accepted": noop("it was taken over"),
    "no_change": noop("it did not happen"),
    "unknown": noop("not known"),
    "never_known": noop("it can’t be known"),
    "found": noop("it was found or named"),
}
_ORIGINS = {
    "transport": noop("our own transport"),
    "reply": noop("a reply"),
    "lease": noop("no word before the lease ended"),
    "lookup": noop("a lookup"),
    "report": noop("a delivery report"),
    "person": noop("a person"),
    "automation": noop("the automation that did the work"),
}


def origin(known_by: str) -> str:
    """Where an outcome is known from."""
    return _(_ORIGINS[known_by]) if known_by in _ORIGINS else known_by or _("not known")


_EVIDENCE_WORDS: Mapping[str, str] = {
    "reply": noop("What a send brought"),
    "lookup": noop("Lookup"),
    "report": noop("Delivery report"),
    "statement": noop("A person’s statement"),
    "list": noop("Row of the destination’s list"),
}


def evidence_word(kind: str) -> str:
    """A kind of evidence in words; one that has none yet is shown as it is written."""
    return _(_EVIDENCE_WORDS[kind]) if kind in _EVIDENCE_WORDS else kind.replace("_", " ").capitalize()
