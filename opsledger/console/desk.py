"""What is known about a hold, put together for sentences and rows. Times become text in the viewer's zone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from opsledger.console.templatetags.ops import day_of, words_of_span
from opsledger.console.wording.knowledge import Known
from opsledger.console.wording.protection import (
    ProtectionWords,
    accepted_protection,
    protection,
    undelivered_protection,
)
from opsledger.console.wording.statements import statement
from opsledger.ledger.queries.comparison import findings, label_of
from opsledger.ledger.queries.hold_lines import HoldLine
from opsledger.ledger.queries.if_nobody import Outlook
from opsledger.rules.protection import Protected
from opsledger.rules.states import StepState


def clock(moment: datetime | None, now: datetime) -> str:
    """The time of day; with the day when it is not today's; "" for None."""
    if moment is None:
        return ""
    zone = timezone.get_current_timezone()
    here, today = moment.astimezone(zone), now.astimezone(zone)
    time = f"{here.hour:02}:{here.minute:02}"
    if here.date() == today.date():
        return time
    return f"{day_of(here, with_year=here.year != today.year)}, {time}"


def open_for(since: datetime, now: datetime) -> str:
    """How long it is from the one moment to the other, in words."""
    return words_of_span((now - since).total_seconds())


def if_nobody(base: str, outlook: Outlook | None, now: datetime, *, about_step: bool = True) -> str:
    """The workflow’s sentence, and while the hold is open who is told and when, in the viewer’s zone."""
    said = outlook.sentence(lambda at: clock(at, now)) if outlook else ""
    sends = _("Nothing is sent meanwhile.") if outlook and about_step else ""
    return " ".join(filter(None, [base, said, sends]))


def known_of(line: HoldLine, now: datetime) -> Known:
    """The facts of one open hold as sentences need them."""
    facts, found = line.facts, findings(line.facts)
    return Known(
        reason=line.reason,
        destination=line.destination_slug,
        step=line.step_title,
        state=StepState(line.state) if line.state else None,
        attempts=line.attempts,
        looks=line.looks,
        looks_found_nothing=line.looks_found_nothing,
        looks_failed=line.looks_failed,
        settles=line.profile.lookup.settles if line.profile and line.profile.lookup else None,
        next_look=clock(line.next_look_at, now) if line.next_look_at and line.next_look_at > now else "",
        last_sentence=line.last_sentence,
        accepted_at=clock(line.accepted_at, now),
        not_after=clock(line.not_after, now),
        looked=found.looked,
        references=found.references,
        differing=found.differing,
        taken=found.taken,
        missing=tuple(label_of(str(field).rpartition(".")[2]) for field in _list(facts, "missing")),
        statements=statements_in(facts),
        restored="restored_until" in facts,
        waiting=line.waiting,
        event=line.event_text_id,
        content_number=_number(facts.get("content_number")),
        revision=_number(facts.get("revision")) or 1,
        nobody_may_approve=bool(facts.get("nobody_may_approve")),
    )


def statements_in(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Both sides of a dispute as sentences, oldest first."""
    return tuple(
        statement(str(one.get("outcome")), str(one.get("known_by") or ""), one.get("reference"))
        for one in _list(facts, "statements")
        if one
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _list(facts: Mapping[str, Any], name: str) -> list[Any]:
    found = facts.get(name)
    return list(found) if isinstance(found, list | tuple) else []


def protection_words(
    protected: Protected | None,
    *,
    state: str | None,
    attempts: int,
    may_have_had_effect: bool,
    accepted: bool,
    now: datetime,
) -> ProtectionWords | None:
    """Protection now, in words; None where nothing is sent for a hold (at a destination, at an event)."""
    if protected is None:
        return None
    if state in {StepState.ACCEPTED, StepState.CONFIRMED}:
        return accepted_protection()
    if state == StepState.FAILED and accepted:
        return undelivered_protection()
    left = since = ""
    if protected.until is not None:
        left = words_of_span((protected.until - now).total_seconds())
    if protected.window_ends_at is not None and protected.window_ends_at <= now:
        since = words_of_span((now - protected.window_ends_at).total_seconds())
    return protection(
        protected, attempts=attempts, may_have_had_effect=may_have_had_effect, left=left, since=since
    )
