"""List pages as objects: each reads its address, says what to fetch, and makes the links to the next page.

An address that can't be read is an error that says so; nothing is silently left out of a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.ledger.queries import audit, inbox
from opsledger.ledger.queries.hold_lines import Place
from opsledger.ledger.queries.inbox import View
from opsledger.lib import ids
from opsledger.lib.places import place_text, read_place
from opsledger.rules.states import HoldReason

TEXT_MAX = 300

VIEWS: Mapping[View, str] = {
    View.MINE: noop("Mine"),
    View.UNOWNED: noop("Unowned"),
    View.OLD_UNKNOWN: noop("Unknown over 1 h"),
    View.AWAITING: noop("Awaiting my approval"),
    View.DISPUTED: noop("Disputed"),
    View.DESTINATIONS: noop("At destinations"),
    View.ALL: noop("All"),
}


def cursor_text(place: Place) -> str:
    """A place in the inbox as it stands in an address."""
    return place_text("hold", place.due_at, place.id)


def read_cursor(text: str) -> Place | None:
    if not text:
        return None
    found = read_place("hold", text)
    if found is None:
        raise not_a_page_of_the_list()
    return Place(*found)


def read_last(prefix: str, text: str) -> UUID | None:
    """The last one of the page before, by its public id; None for the first page."""
    found = ids.parse(prefix, text)
    if text and found is None:
        raise not_a_page_of_the_list()
    return found


def not_a_page_of_the_list() -> BadRequest:
    return BadRequest(
        _("This link to another page of the list can’t be read. Start again from the first page.")
    )


@dataclass(frozen=True, slots=True)
class InboxFilter:
    """`view`, `reason`, `destination`, `workflow`, `owner` (a person’s id, or `none`), `incident`, `after`, `before`."""

    wanted: inbox.Wanted
    after: Place | None = None
    before: Place | None = None
    saved: str = ""  # the public id of the saved view that this filter was read from

    @classmethod
    def read(cls, query: QueryDict | Mapping[str, str], team_id: UUID, person_id: UUID) -> InboxFilter:
        owner = query.get("owner", "")
        wanted = inbox.Wanted(
            team_id=team_id,
            person_id=person_id,
            view=_choice(View, query.get("view") or View.ALL.value, "view"),
            reason=_choice(HoldReason, _text(query, "reason"), "reason") if query.get("reason") else None,
            destination=_text(query, "destination"),
            workflow=_text(query, "workflow"),
            owner=_uuid(owner, "owner") if owner and owner != "none" else None,
            unowned=owner == "none",
            incident=_incident(query.get("incident", "")),
        )
        return cls(wanted, read_cursor(query.get("after", "")), read_cursor(query.get("before", "")))

    @property
    def narrowed(self) -> bool:
        """Whether something beyond the view was chosen."""
        return bool(self.chosen)

    @property
    def chosen(self) -> dict[str, str]:
        wanted = self.wanted
        values = {
            "reason": wanted.reason.value if wanted.reason else "",
            "destination": wanted.destination,
            "workflow": wanted.workflow,
            "owner": "none" if wanted.unowned else str(wanted.owner or ""),
            "incident": ids.public("inc", wanted.incident) if wanted.incident else "",
        }
        return {name: value for name, value in values.items() if value}

    def query(self, **changes: str) -> str:
        """The address’s query for this list, with changes; pages of a list are left behind."""
        values = {"view": self.wanted.view.value} | self.chosen | changes
        if values.get("view") == View.ALL.value:
            values.pop("view")
        return urlencode({name: value for name, value in values.items() if value})

    def address(self, **changes: str) -> str:
        """The same for links within the inbox: by the saved view where it is one."""
        if self.saved:
            return urlencode({"saved": self.saved} | changes)
        return self.query(**changes)

    def of_view(self, view: View) -> str:
        """The query of another view, with what was chosen kept."""
        return replace(self, wanted=replace(self.wanted, view=view)).query()


# Audit


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """`kind`, `actor`, `before`."""

    wanted: audit.Wanted
    before: audit.Place | None = None

    @classmethod
    def read(cls, query: QueryDict, team_id: UUID) -> AuditFilter:
        wanted = audit.Wanted(team_id, kind=_text(query, "kind"), actor=_text(query, "actor"))
        return cls(wanted, _read_audit_place(query.get("before", "")))

    @property
    def chosen(self) -> dict[str, str]:
        values = {"kind": self.wanted.kind, "actor": self.wanted.actor}
        return {name: value for name, value in values.items() if value}

    def query(self, following: audit.Place | None) -> str:
        place = f"{following.at.isoformat()}~{following.subject_id}~{following.seq}" if following else ""
        return urlencode(self.chosen | ({"before": place} if place else {}))


def _read_audit_place(text: str) -> audit.Place | None:
    if not text:
        return None
    parts = text.split("~")
    moment = _moment(parts[0])
    if len(parts) != 3 or moment is None or not _is_number(parts[2]):
        raise BadRequest(_("This link to older entries can’t be read. Start again from the newest."))
    return audit.Place(moment, _uuid(parts[1], "before"), min(int(parts[2]), 2**31 - 1))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10


# Reading single values


def _not_known(text: str, name: str) -> str:
    """`name`: of the value, as the address has it."""
    return _("“%(text)s” is not a %(name)s that this list knows.") % {"text": text[:60], "name": name}


def _choice(kind: Any, value: str, name: str) -> Any:
    try:
        return kind(value)
    except ValueError as why:
        raise BadRequest(_not_known(value, name)) from why


def _text(query: QueryDict | Mapping[str, str], name: str) -> str:
    text = str(query.get(name, ""))[:TEXT_MAX]
    if "\x00" in text:
        raise BadRequest(
            _("The %(name)s in this address can’t be read. Choose it again from the list.") % {"name": name}
        )
    return text


def _uuid(text: str, name: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as why:
        raise BadRequest(_not_known(text, name)) from why


def _incident(text: str) -> UUID | None:
    if not text:
        return None
    number = ids.parse("inc", text)
    if number is None:
        raise BadRequest(_("“%(text)s” is not an incident that this list knows.") % {"text": text[:60]})
    return number


def _moment(text: str) -> datetime | None:
    """In UTC; None for what is no moment, has no zone, or lies outside of all years there."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
