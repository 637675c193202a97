"""What happens to an open hold if nobody acts, with names and times: the rules' plan as people read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.ledger.queries.owners import Owners, name_of, owners_of_teams, policy_of
from opsledger.rules.escalation import Clock, Step, planned


class HoldTimes(Protocol):
    """A row of holds, as the ORM or a query gives it."""

    @property
    def owner_id(self) -> UUID | None: ...
    @property
    def due_at(self) -> datetime: ...
    @property
    def reminded_at(self) -> datetime | None: ...
    @property
    def escalated_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Prospect:
    """One thing that happens. `name` "": every owner of the team."""

    step: Step
    at: datetime
    name: str
    instead_of: str = ""  # the absent or gone owner
    stays: bool = False  # it is that person's already


@dataclass(frozen=True, slots=True)
class Outlook:
    """All that happens, in its order, and who has the hold when nothing more does."""

    prospects: tuple[Prospect, ...]
    owner_name: str
    now: datetime

    def sentence(self, clock: Callable[[datetime], str]) -> str:
        """“At 14:00 Maria is reminded; at 15:00 it goes to Jon.” `clock` writes a time that is still to come."""
        if not self.prospects:
            return _("Everybody who is told has been told; it waits for %(name)s.") % {
                "name": self.owner_name
            }
        text = "; ".join(self._clause(one, clock) for one in self.prospects)
        return f"{text[:1].upper()}{text[1:]}."

    def _clause(self, one: Prospect, clock: Callable[[datetime], str]) -> str:
        when = _("within seconds") if one.at <= self.now else _("at %(time)s") % {"time": clock(one.at)}
        says = _(_SAYS[one.step])
        if one.step is Step.REMIND and not one.name:
            says = _("%(when)s every owner of the team is reminded")
        elif one.step is Step.REMIND and one.instead_of:
            says = _("%(when)s %(name)s is reminded, who stands in for %(other)s")
        elif one.stays:
            says = _("%(when)s %(name)s is told again and keeps it")
        return says % {"when": when, "name": one.name, "other": one.instead_of}


_SAYS = {
    Step.HAND_OVER: noop("%(when)s it goes to %(name)s, as %(other)s is gone"),
    Step.REMIND: noop("%(when)s %(name)s is reminded"),
    Step.ESCALATE: noop("%(when)s it goes to %(name)s"),
}


def outlooks(team_id: UUID, holds: Iterable[tuple[HoldTimes, UUID | None]], now: datetime) -> list[Outlook]:
    """For open holds of one team, each with its workflow's version; four queries, however many holds."""
    wanted = list(holds)
    if not wanted:
        return []
    owners = owners_of_teams([team_id], now)[team_id]
    return [_outlook(hold, version_id, owners) for hold, version_id in wanted]


def _outlook(hold: HoldTimes, workflow_version_id: UUID | None, owners: Owners) -> Outlook:
    named, after_seconds = policy_of(workflow_version_id)
    standing = owners.standing(hold.owner_id, named)
    clock = Clock(hold.due_at, after_seconds, hold.reminded_at, hold.escalated_at)
    owner_name = name_of(hold.owner_id, owners) if hold.owner_id else _("the owners of the team")
    keeper, prospects = hold.owner_id, []
    for one in planned(standing, clock, owners.now):
        instead = one.to != hold.owner_id and hold.owner_id is not None
        prospects.append(
            Prospect(
                one.step,
                one.at,
                name_of(one.to, owners) if one.to else "",
                instead_of=owner_name if instead and _tells_instead(one.step, standing.owner_gone) else "",
                stays=one.step is Step.ESCALATE and one.to == keeper,
            )
        )
        if one.step is not Step.REMIND:
            keeper = one.to
    return Outlook(tuple(prospects), owner_name, owners.now)


def _tells_instead(step: Step, owner_gone: bool) -> bool:
    """Whether the owner is named beside who is told: who is gone once, who is away with the reminder."""
    return step is Step.HAND_OVER or (step is Step.REMIND and not owner_gone)
