"""Holds by their ids: which exist for a person, and what they are about; and the deliveries of an event in question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from opsledger.ledger import definitions
from opsledger.ledger.models import Definition, Delivery, Event, Hold


def existing(hold_ids: Sequence[UUID], team_ids: Sequence[UUID]) -> list[UUID]:
    """Those of these holds that are open and belong to these teams, in the given order."""
    found = set(
        Hold.objects.filter(pk__in=hold_ids, team_id__in=team_ids, closed_at__isnull=True).values_list(
            "pk", flat=True
        )
    )
    return [hold_id for hold_id in dict.fromkeys(hold_ids) if hold_id in found]


def steps_of(hold_ids: Sequence[UUID]) -> list[tuple[UUID, int]]:
    """Operation and step number of the holds that are about a step."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.operation_id, s.number FROM ledger_hold h JOIN ledger_step s ON s.id = h.step_id"
            " WHERE h.id = ANY(%s) AND h.closed_at IS NULL ORDER BY h.operation_id, s.number",
            [list(hold_ids)],
        )
        return list(cursor.fetchall())


def hold_of(hold_id: UUID, team_ids: Sequence[UUID]) -> Hold | None:
    """A hold, open or closed; None when it does not exist for these teams."""
    rows = Hold.objects.select_related("step", "event", "owner", "destination", "operation")
    return rows.filter(pk=hold_id, team_id__in=team_ids).first()


DELIVERIES_MAX = 20


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    id: UUID
    received_at: datetime
    conflict: bool  # its body is another one than the first
    hold_id: UUID | None  # the question that asked about such a body; None while it waits to be asked about
    content_type: str
    content: bytes


def deliveries_of(event_id: UUID) -> list[DeliveryLine]:
    """The first deliveries of an event with their bytes, oldest first."""
    return [_line(row) for row in _deliveries(event_id)[:DELIVERIES_MAX]]


def asked_about(hold: Hold) -> DeliveryLine | None:
    """The first delivery of the body that this question is about, however late it came; None: it is about no other body."""
    if hold.event_id is None:
        return None
    row = _deliveries(hold.event_id).filter(hold_id=hold.pk).first()
    return _line(row) if row else None


def _deliveries(event_id: UUID) -> QuerySet[Delivery]:
    return Delivery.objects.select_related("body").filter(event_id=event_id).order_by("received_at", "pk")


def _line(row: Delivery) -> DeliveryLine:
    return DeliveryLine(
        row.pk, row.received_at, row.conflict, row.hold_id, row.body.content_type, bytes(row.body.content)
    )


def plain_paths(event: Event) -> frozenset[str]:
    """Dotted paths in an event's body that its workflow takes as parameters and does not call sensitive."""
    source = definitions.source(event.source_version_id)
    workflow = Definition.objects.filter(team_id=event.team_id, kind="workflow", slug=source.starts).first()
    if workflow is None or workflow.current_id is None:
        return frozenset()
    plain = {param.name for param in definitions.workflow(workflow.current_id).params if not param.sensitive}
    return frozenset(path.removeprefix("body:") for name, path in source.params if name in plain)
