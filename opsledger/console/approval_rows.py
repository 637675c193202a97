"""Rows of the list of approvals: what waits, and what was decided lately."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from opsledger.console import desk
from opsledger.console.addresses import address
from opsledger.console.approval_pages import author_words
from opsledger.console.wording import approvers
from opsledger.ledger import approvals as rules_of_approval
from opsledger.ledger.queries import approvals
from opsledger.ledger.queries.content import WaitingRevision, WaitingVersion
from opsledger.lib import ids
from opsledger.rules.content import VersionState


def version_row(one: WaitingVersion, names: dict[str, str], me: UUID, now: Any) -> dict[str, Any]:
    version = one.version
    barred = rules_of_approval.barred_by_version(version.author_person_id, version.requested_by_person_id)
    recorded = approvers.RECORDED_ALL if one.recorded_by == f"person:{me}" else ""
    waits = ngettext("One operation waits", "%(count)s operations wait", one.operation_count)
    return {
        "url": address("approval", ids.public("cv", version.id)),
        "title": _("Content version %(number)s") % {"number": version.number},
        "text_id": version.content_id,
        "author": author_words(version, names),
        "origin": version.origin,
        "asked_by": names.get(version.requested_by, ""),
        "waits": waits % {"count": one.operation_count}
        if one.operation_count
        else _("Nothing waits for it yet"),
        "state": version.state.value,
        "why_not": approvers.why_not_you(barred.get(me, "") or recorded),
        "nobody": one.nobody_may_approve,
        **_times(one.opened_at, one.due_at, now),
    }


def revision_row(one: WaitingRevision, names: dict[str, str], barred: str, now: Any) -> dict[str, Any]:
    return {
        "url": address("approval_of_request", ids.public("stp", one.step_id)),
        "title": one.title,
        "text_id": one.operation_text_id,
        "author": names.get(one.author, "") or _("The workflow"),
        "origin": _("Revision %(number)s of “%(step)s”") % {"number": one.revision, "step": one.step_title},
        "asked_by": names.get(one.author, ""),
        "waits": _("One request"),
        "state": VersionState.PROPOSED.value,
        "why_not": approvers.why_not_you(barred),
        "nobody": one.nobody_may_approve,
        **_times(one.opened_at, one.due_at, now),
    }


def _times(opened_at: Any, due_at: Any, now: Any) -> dict[str, Any]:
    late = due_at is not None and due_at < now
    return {
        "opened_at": opened_at,
        "due_at": due_at,
        "age": desk.open_for(opened_at, now),
        "late": late,
        "due_in": desk.open_for(*((due_at, now) if late else (now, due_at))) if due_at else "",
    }


def decided_row(one: approvals.Decided) -> dict[str, Any]:
    if one.version_id is not None:
        url = address("approval", ids.public("cv", one.version_id))
        title = _("Version %(number)s of %(content)s") % {"number": one.number, "content": one.content_id}
    else:
        url = address("approval_of_request", ids.public("stp", one.step_id)) if one.step_id else ""
        title = _("Revision %(number)s: %(title)s") % {"number": one.revision, "title": one.title}
    requests = ngettext("one request", "%(count)s requests", one.count or 0) % {"count": one.count}
    return {
        "at": one.at,
        "state": one.state,
        "url": url,
        "title": title,
        "count": requests if one.count is not None else "",
        "name": one.name,
    }
