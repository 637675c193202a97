"""Holds: open questions that wait for a person."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.destinations import Destination
from opsledger.ledger.models.events import Event
from opsledger.ledger.models.incidents import Incident
from opsledger.ledger.models.operations import Operation, Step
from opsledger.lib.ids import new_id
from opsledger.rules.states import HoldReason

# Reasons that concern more people than the hold's owner: they are told of it also when nobody owns it.
TOLD_TO_MANY = [
    HoldReason.APPROVAL_NEEDED.value,
    HoldReason.DISPUTED.value,
    HoldReason.PAUSED.value,
    HoldReason.ACCESS_REFUSED.value,
    HoldReason.CIRCUIT_OPEN.value,
]


class Hold(models.Model):
    """About a step, a destination or an event. The columns that the inbox sorts and filters by are copied here."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    operation = models.ForeignKey(
        Operation, null=True, on_delete=models.PROTECT, related_name="holds", db_index=False
    )
    step = models.ForeignKey(Step, null=True, on_delete=models.PROTECT, related_name="holds")
    destination = models.ForeignKey(Destination, null=True, on_delete=models.PROTECT, related_name="holds")
    event = models.ForeignKey(Event, null=True, on_delete=models.PROTECT, related_name="holds")
    reason = models.TextField()
    version = models.IntegerField(default=1)  # decisions carry it
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_by = models.TextField(default="")  # "evidence", "person:…", "superseded"
    answer = models.TextField(default="")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    facts = models.TextField(default="{}")  # JSON for the page: looks, found records, both statements
    if_nobody = models.TextField(default="")  # what happens if nobody acts
    title = models.TextField(default="")
    operation_text_id = models.TextField(default="")
    destination_slug = models.TextField(default="")
    action = models.TextField(default="")
    workflow_slug = models.TextField(default="")
    # The sweep's, once. It groups; it is no part of what a decision is made on, so the version does not count it.
    incident = models.ForeignKey(
        Incident, null=True, on_delete=models.PROTECT, related_name="holds", db_index=False
    )
    # What happens when nobody acts (rules.escalation); a moved due time empties the first three.
    reminded_at = models.DateTimeField(null=True)
    escalate_at = models.DateTimeField(null=True)  # set by the reminder
    escalated_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)  # when those whom it concerns were told of it

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(reason__in=[r.value for r in HoldReason]), name="hold_reason_is_known"
            ),
            models.CheckConstraint(
                condition=Q(
                    step__isnull=False, operation__isnull=False, destination__isnull=True, event__isnull=True
                )
                | Q(step__isnull=True, operation__isnull=True, destination__isnull=False, event__isnull=True)
                | Q(step__isnull=True, operation__isnull=True, destination__isnull=True, event__isnull=False),
                name="hold_is_about_one_thing",
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closed_by="")
                | (Q(closed_at__isnull=False) & ~Q(closed_by="")),
                name="hold_closed_iff_by_somebody",
            ),
            models.CheckConstraint(
                condition=Q(reminded_at__isnull=True, escalate_at__isnull=True)
                | Q(reminded_at__isnull=False, escalate_at__isnull=False),
                name="hold_escalation_is_set_by_its_reminder",
            ),
            models.CheckConstraint(
                condition=Q(escalated_at__isnull=True) | Q(reminded_at__isnull=False),
                name="hold_escalates_only_after_a_reminder",
            ),
            models.UniqueConstraint(
                fields=["step"],
                condition=Q(closed_at__isnull=True, step__isnull=False),
                name="one_open_hold_per_step",
            ),
            models.UniqueConstraint(
                fields=["destination", "reason"],
                condition=Q(closed_at__isnull=True, destination__isnull=False),
                name="one_open_hold_per_destination_and_reason",
            ),
            models.UniqueConstraint(
                fields=["event"],
                condition=Q(closed_at__isnull=True, event__isnull=False),
                name="one_open_hold_per_event",
            ),
            models.CheckConstraint(
                condition=Q(incident__isnull=True) | Q(step__isnull=False),
                name="hold_of_incident_is_about_a_step",
            ),
        ]
        indexes = [
            models.Index(
                fields=["team", "due_at", "id"], condition=Q(closed_at__isnull=True), name="hold_open_by_due"
            ),
            models.Index(
                fields=["team", "owner", "due_at", "id"],
                condition=Q(closed_at__isnull=True),
                name="hold_open_by_owner",
            ),
            models.Index(
                fields=["team", "reason", "due_at", "id"],
                condition=Q(closed_at__isnull=True),
                name="hold_open_by_reason",
            ),
            models.Index(
                fields=["team", "destination_slug", "due_at", "id"],
                condition=Q(closed_at__isnull=True),
                name="hold_open_by_destination",
            ),
            models.Index(
                fields=["team", "workflow_slug", "due_at", "id"],
                condition=Q(closed_at__isnull=True),
                name="hold_open_by_workflow",
            ),
            models.Index(fields=["operation"], name="hold_of_operation"),
            models.Index(
                fields=["opened_at", "id"],
                condition=Q(closed_at__isnull=True, incident__isnull=True, step__isnull=False),
                name="hold_to_be_grouped",
            ),
            models.Index(
                fields=["team", "incident", "due_at", "id"],
                condition=Q(closed_at__isnull=True, incident__isnull=False),
                include=["owner"],
                name="hold_open_by_incident",
            ),
            models.Index(
                fields=["incident", "opened_at"],
                condition=Q(incident__isnull=False),
                include=["closed_by"],
                name="hold_of_incident",
            ),
            models.Index(
                fields=["due_at", "id"],
                condition=Q(closed_at__isnull=True, reminded_at__isnull=True),
                name="hold_to_remind",
            ),
            models.Index(
                fields=["escalate_at", "id"],
                condition=Q(closed_at__isnull=True, escalate_at__isnull=False, escalated_at__isnull=True),
                name="hold_to_escalate",
            ),
            models.Index(
                fields=["id"],
                condition=Q(closed_at__isnull=True, told_at__isnull=True)
                & (Q(owner__isnull=False) | Q(reason__in=TOLD_TO_MANY)),
                name="hold_to_tell",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.id}"
