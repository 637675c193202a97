"""What the shell shows on every page: who, where, what waits. Worked out when a whole page is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.accounts.models import Person
from opsledger.accounts.roles import Permission, Role, allowed
from opsledger.console.permissions import everything_allowed
from opsledger.ledger.queries import nav


@dataclass(frozen=True, slots=True)
class NavItem:
    key: str  # of `nav.counts`, where it counts this
    path: str
    icon: str
    label: str
    counted: str = ""  # what the number counts, for those who hear it
    gap: bool = False
    count: int | None = None
    current: bool = False


_NAV = (
    NavItem("inbox", "/", "n-inbox", noop("Inbox"), noop("open")),
    NavItem("approvals", "/approvals/", "n-approvals", noop("Approvals"), noop("wait for you")),
    NavItem("replays", "/replays/", "n-replays", noop("Replays"), noop("open")),
    NavItem("operations", "/operations/", "n-operations", noop("Operations"), gap=True),
    NavItem("destinations", "/destinations/", "n-destinations", noop("Destinations"), noop("need a look")),
    NavItem("audit", "/audit/", "n-audit", noop("Audit"), gap=True),
    NavItem("settings", "/settings/", "n-settings", noop("Settings"), gap=True),
)


# reached from the inbox, and shown as a part of it
_OF_INBOX = ("/inbox/", "/holds/", "/incidents/", "/selections/", "/views/")


def shell(request: HttpRequest) -> dict[str, Any]:
    """The context of every template: the person, the team, what is allowed, and the navigation if drawn."""
    person = getattr(request, "user", None)
    context: dict[str, Any] = {
        "environment": settings.ENVIRONMENT_NAME,
        "now": timezone.now(),
        "person": None,
        "theme": "system",
        "shortcuts_on": True,
    }
    if not isinstance(person, Person) or not hasattr(request, "teams"):
        return context
    team = request.team  # type: ignore[attr-defined]
    roles = request.roles  # type: ignore[attr-defined]
    return context | {
        "person": person,
        "theme": person.theme,
        "shortcuts_on": person.shortcuts_on,
        "team": team,
        "teams": list(request.teams),
        "roles": [_(role.value) for role in Role if role in roles],
        "may": everything_allowed(roles),
        "shell": SimpleLazyObject(
            lambda: _shell(
                getattr(request, "shown_under", request.path),
                [team.pk] if team else [],
                person.pk,
                approver=allowed(roles, Permission.APPROVE_CONTENT),
            )
        ),
    }


@dataclass(frozen=True, slots=True)
class Shell:
    nav: list[NavItem]
    checks_scheduled: int | None
    checks_late: int | None
    unread: int  # notices, at most UNREAD_MAX + 1


def _shell(path: str, team_ids: Sequence[UUID], person_id: UUID, *, approver: bool) -> Shell:
    """`approver`: whether what waits for an approval can wait for this person."""
    known = nav.counts(team_ids, person_id, approver=approver) if team_ids else {}
    items = [
        replace(
            item,
            label=_(item.label),
            counted=_(item.counted) if item.counted else "",
            count=known.get(item.key),
            current=_is_current(item.path, path),
        )
        for item in _NAV
    ]
    return Shell(items, known.get("checks_scheduled"), known.get("checks_late"), known.get("unread", 0))


def _is_current(path: str, here: str) -> bool:
    return here == "/" or here.startswith(_OF_INBOX) if path == "/" else here.startswith(path)
