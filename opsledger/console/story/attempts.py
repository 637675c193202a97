"""Attempts: their openings and ends, told as one item when nothing happened between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from opsledger.console.story.items import Item
from opsledger.console.story.telling import Telling
from opsledger.console.wording.phrases import lasted
from opsledger.ledger.queries.timeline import Told
from opsledger.lib import ids


def attempt_opened(telling: Telling, entry: Told) -> Item:
    attempt_id, facts = next(iter(entry.body["attempts"].items()))
    step, attempt = telling.attempt(attempt_id)
    title = _("Attempt %(number)s of step %(step)s") % {"number": facts["number"], "step": facts["step"]}
    ended = telling.ended.get(attempt_id)
    outcome = outcome_in(ended.body, attempt_id) if ended else None
    text = telling.said(ended) if ended else _("Opened and recorded; then the request was sent.")
    shown = [(_("Attempt id"), ids.public("att", UUID(attempt_id)))]
    if step is not None and step.record.idempotency_key:
        shown.append((_("Idempotency key"), step.record.idempotency_key))
    if attempt is not None and attempt.elapsed_seconds is not None:
        shown.append((_("Lasted"), lasted(attempt.elapsed_seconds)))
    return Item(
        entry.at,
        "attempt",
        title,
        about="attempts",
        state=outcome or "in-flight",
        badge=(outcome, "outcome") if outcome else ("in_flight", "step"),
        text=text,
        facts=tuple(shown),
        evidence_id=telling.evidence_id(ended) if ended else "",
        key=str(entry.seq),
    )


def attempt_ended(telling: Telling, entry: Told) -> Item:
    """The end of an attempt, told apart from its opening; late when it had ended before."""
    attempt_id = str(entry.body.get("attempt"))
    outcome = outcome_in(entry.body, attempt_id)
    _step, attempt = telling.attempt(attempt_id)
    number = attempt.number if attempt is not None else "?"
    title = _("Attempt %(number)s of step %(step)s ended") % {
        "number": number,
        "step": entry.body.get("step"),
    }
    if outcome is None:
        title = _("A late word on attempt %(number)s of step %(step)s") % {
            "number": number,
            "step": entry.body.get("step"),
        }
    return Item(
        entry.at,
        "attempt",
        title,
        about="attempts",
        state=outcome or "disputed",
        badge=(outcome, "outcome") if outcome else None,
        text=telling.said(entry),
        evidence_id=telling.evidence_id(entry),
        key=str(entry.seq),
    )


def opens(older: Told | None, entry: Told) -> bool:
    """Whether the entry before this one opened the very attempt that this one ends."""
    return (
        older is not None
        and older.kind == "attempt_opened"
        and str(entry.body.get("attempt")) in older.body.get("attempts", {})
    )


def outcome_in(body: Mapping[str, Any], attempt_id: str) -> str | None:
    """The outcome that an entry’s facts give to an attempt; None when they give none."""
    changed = (body.get("attempts") or {}).get(attempt_id) or {}
    outcome = changed.get("outcome")
    return str(outcome) if outcome else None
