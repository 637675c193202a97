"""Absences: who is away, and who stands in. Written by `add_absence` and `call_off_absence` only."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.accounts.actions import Refused
from opsledger.accounts.models import Absence, Membership, Person, Team
from opsledger.accounts.permissions import Permission, Role, allowed
from opsledger.accounts.roles import roles_of
from opsledger.journal.actor import current_actor
from opsledger.journal.append import Line, append, body
from opsledger.rules.absences import LINKS_MAX, Away, Fault, fault_of, stand_in

ABSENCE_DAYS_MAX = 366
ABSENCE_AHEAD_DAYS_MAX = 3_660
# What a deputy must be allowed to do if the absent person is; managing people and definitions is nobody's to take over.
TAKEN_OVER = tuple(one for one in Permission if one is not Permission.ADMINISTER)


# Reading


def stand_in_for(person_id: UUID, team_id: UUID, now: datetime) -> UUID | None:
    """Who acts for this person in the team now: themselves, or while they are away the first deputy who is there.

    Two queries. None when nobody of the chain is there: deactivated, or no longer somebody who may own a hold.
    """
    return stand_ins_for([person_id], team_id, now)[person_id]


def stand_ins_for(person_ids: Iterable[UUID], team_id: UUID, now: datetime) -> dict[UUID, UUID | None]:
    """The same for several people, in the same two queries."""
    away, there = away_now(team_id, now), owners_there(team_id)
    return {person: stand_in(person, away, now, there.__contains__) for person in set(person_ids)}


def away_now(team_id: UUID, now: datetime) -> list[Away]:
    live = Absence.objects.filter(team_id=team_id, called_off_at__isnull=True)
    return [_away(row) for row in live.filter(begins_at__lte=now, ends_at__gt=now)]


def owners_there(team_id: UUID) -> frozenset[UUID]:
    """Everybody who may be given a hold of this team: active, with a role that works on holds."""
    working = Membership.objects.filter(
        team_id=team_id, role__in=[Role.OPERATOR.value, Role.OWNER.value], person__is_active=True
    )
    return frozenset(working.values_list("person_id", flat=True))


def absences_of(team: Team, now: datetime) -> list[Absence]:
    """Those that are or will be, soonest first, with their people."""
    live = Absence.objects.filter(team=team, called_off_at__isnull=True, ends_at__gt=now)
    return list(live.select_related("person", "deputy").order_by("begins_at", "id"))


def possible_deputies(person: Person, team: Team) -> list[Person]:
    """Active members who may do in the team whatever the person may, by name."""
    members = Person.objects.filter(is_active=True, memberships__team=team).exclude(pk=person.pk).distinct()
    mine = roles_of(person, team)
    return [one for one in members.order_by("display_name", "id") if _may_stand_in(mine, roles_of(one, team))]


def _may_stand_in(mine: frozenset[Role], theirs: frozenset[Role]) -> bool:
    return all(allowed(theirs, one) for one in TAKEN_OVER if allowed(mine, one))


def _away(row: Absence) -> Away:
    return Away(row.person_id, row.deputy_id, row.begins_at, row.ends_at)


# Writing


def add_absence(
    person: Person, team: Team, deputy: Person, *, begins_at: datetime, ends_at: datetime
) -> Absence:
    """The person is away from `begins_at` up to `ends_at`; the deputy gets meanwhile what would go to them.

    1. Locks the team, so that two absences can't make a circle of each other.
    2. Refused: a span that is over, turned round, longer than a year or ten years off; a deputy who may do less; an
       overlap, a circle, or a chain of more than three.
    """
    with transaction.atomic(durable=True):
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        _check_span(begins_at, ends_at)
        _check_deputy(person, team, deputy)
        _check_chain(Away(person.pk, deputy.pk, begins_at, ends_at), team)
        row = Absence.objects.create(
            team=team, person=person, deputy=deputy, begins_at=begins_at, ends_at=ends_at
        )
        span = {"begins_at": begins_at.isoformat(), "ends_at": ends_at.isoformat()}
        _note(row, "absence_added", deputy=str(deputy.pk), **span)
        return row


def call_off_absence(absence_id: UUID, team: Team) -> bool:
    """The person is back, or stays. False when it had ended before."""
    with transaction.atomic(durable=True):
        live = Absence.objects.filter(pk=absence_id, team=team, called_off_at__isnull=True, ends_at__gt=Now())
        row = live.select_for_update(of=("self",)).first()
        if row is None:
            return False
        Absence.objects.filter(pk=row.pk).update(called_off_at=Now())
        _note(row, "absence_called_off", deputy=str(row.deputy_id))
        return True


def _check_span(begins_at: datetime, ends_at: datetime) -> None:
    if ends_at <= begins_at:
        raise Refused(_("The absence ends before it begins. Choose a later end."), "ends_at")
    if ends_at <= timezone.now():
        raise Refused(
            _("This absence would be over already. Choose an end that is still to come."), "ends_at"
        )
    if ends_at - begins_at > timedelta(days=ABSENCE_DAYS_MAX):
        raise Refused(
            _("An absence lasts at most %(count)s days. Choose an earlier end.")
            % {"count": ABSENCE_DAYS_MAX},
            "ends_at",
        )
    if ends_at > timezone.now() + timedelta(days=ABSENCE_AHEAD_DAYS_MAX):
        raise Refused(
            _("An absence ends within %(count)s days from now. Choose an earlier end.")
            % {"count": ABSENCE_AHEAD_DAYS_MAX},
            "ends_at",
        )


def _check_deputy(person: Person, team: Team, deputy: Person) -> None:
    mine, theirs = roles_of(person, team), roles_of(deputy, team)
    if not mine:
        raise Refused(
            _("%(name)s has no role in %(team)s.") % {"name": person.display_name, "team": team.name},
            "person",
        )
    if deputy.pk == person.pk:
        raise Refused(_("Choose somebody else as the deputy."), "deputy")
    if not theirs:
        raise Refused(
            _("%(name)s is not an active member of %(team)s.")
            % {"name": deputy.display_name, "team": team.name},
            "deputy",
        )
    if not _may_stand_in(mine, theirs):
        raise Refused(
            _(
                "%(name)s may do less in %(team)s than %(person)s. Choose somebody with at least the same roles."
            )
            % {"name": deputy.display_name, "team": team.name, "person": person.display_name},
            "deputy",
        )


_WHY = {
    Fault.OVERLAPS: noop("An absence at that time is known already. End it first, or choose another time."),
    Fault.CIRCLE: noop("The deputies would stand in for each other at that time. Choose another deputy."),
    Fault.TOO_LONG: noop(
        "At most %(count)s people may stand in one behind the other. Choose a deputy who is there."
    ),
}


def _check_chain(new: Away, team: Team) -> None:
    live = Absence.objects.filter(team=team, called_off_at__isnull=True)
    meeting = live.filter(begins_at__lt=new.ends_at, ends_at__gt=new.begins_at)
    fault = fault_of(new, [_away(row) for row in meeting])
    if fault is not None:
        raise Refused(
            _(_WHY[fault]) % {"count": LINKS_MAX}, "begins_at" if fault is Fault.OVERLAPS else "deputy"
        )


def _note(row: Absence, kind: str, **facts: str) -> None:
    about = {"absence": str(row.pk), "person": str(row.person_id)}
    append([Line("team", row.team_id, kind, current_actor(), body({**about, **facts}))])
