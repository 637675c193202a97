"""What the machine does next, without a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.ledger.queries.page import OperationView
from opsledger.rules.record import Act


@dataclass(frozen=True, slots=True)
class Planned:
    """What the machine does next, above *Now*."""

    at: datetime | None
    title: str
    text: str
    step: int
    checks: bool


def planned_of(view: OperationView) -> list[Planned]:
    """What happens next without a person, soonest first."""
    found = []
    for step in view.steps:
        words = _PLANNED.get(step.step.act)
        if words is None:
            continue
        title, text = words
        shown = {
            "step": step.step.number,
            "title": step.title,
            "destination": step.step.destination,
            "number": step.step.looks + 1,
        }
        checks = step.step.act in {Act.LOOK, Act.AWAIT}
        found.append(Planned(step.step.act_at, _(title) % shown, _(text) % shown, step.step.number, checks))
    return sorted(found, key=lambda one: (one.at is None, one.at or view.now))


_PLANNED: Mapping[Act, tuple[str, str]] = {
    Act.SEND: (noop("Next: send “%(title)s” to %(destination)s"), noop("Its attempt is recorded first.")),
    Act.OFFER: (
        noop("Offered to automations until then: “%(title)s”"),
        noop("Unclaimed by then, it becomes a hold."),
    ),
    Act.LEASE: (
        noop("An answer from %(destination)s is waited for until then"),
        noop("Silence until then means unknown, never failed."),
    ),
    Act.LOOK: (
        noop("Next: lookup %(number)s at %(destination)s"),
        noop("Reads only; nothing is sent."),
    ),
    Act.AWAIT: (
        noop("A proof of the final effect of “%(title)s” is waited for until then"),
        noop("Without one by then, it becomes a hold. It is never sent again."),
    ),
}
