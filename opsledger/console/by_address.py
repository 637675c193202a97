"""Operations and holds by the identifiers that addresses carry, and the addresses that lead to them."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from opsledger.console.http import ConsoleRequest
from opsledger.ledger.models import Hold
from opsledger.ledger.queries import holds
from opsledger.ledger.queries.names import find_named, read_name
from opsledger.ledger.queries.page import OperationView, operation_of
from opsledger.lib import ids


def view_of(request: ConsoleRequest, operation: str) -> OperationView:
    """The operation by its public id, or by its own where that is safe in a path; 404 when it does not exist here."""
    name = read_name(operation)
    number = name if isinstance(name, UUID) else _of_own(request, name)
    view = operation_of(number, request.team_ids) if number is not None else None
    if view is None:
        raise Http404(_("There is no such operation in your teams."))
    return view


def _of_own(request: ConsoleRequest, own: str) -> UUID | None:
    return None if own.startswith("op_") else find_named(request.team.pk, own)


def address_of(view: OperationView) -> str:
    return reverse("operation", args=[ids.public("op", view.record.id)])


def next_url(view: OperationView, post: QueryDict) -> str:
    """The operation’s page, with the inbox view that it was opened from kept."""
    query = post.get("list", "")
    return address_of(view) + (f"?{query}" if query else "")


def hold_or_404(request: ConsoleRequest, public: str) -> Hold:
    """The hold by its public id, open or not; 404 when it does not exist in the person’s teams."""
    number = ids.parse("hold", public)
    hold = holds.hold_of(number, request.team_ids) if number else None
    if hold is None:
        raise Http404(_("There is no such hold in your teams."))
    return hold
