"""Incidents: holds that ask the same about the same action at one destination and were opened close together.

Nothing here is a state: who has the holds, what is asked and what was answered stands with the holds alone. The sweep is the
only one that groups.
"""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from opsledger.accounts.models import Team
from opsledger.lib.ids import new_id
from opsledger.rules.states import HoldReason


class Incident(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    destination_slug = models.TextField()
    action = models.TextField()
    reason = models.TextField()
    started_at = models.DateTimeField()  # when its first hold was opened
    last_at = models.DateTimeField()  # when its last one was
    hold_count = models.IntegerField()  # all that were ever given to it, open and closed

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(reason__in=[r.value for r in HoldReason]), name="incident_reason_is_known"
            ),
            models.CheckConstraint(
                condition=Q(last_at__gte=F("started_at")), name="incident_ends_after_it_began"
            ),
            models.CheckConstraint(condition=Q(hold_count__gte=1), name="incident_has_a_hold"),
        ]
        indexes = [
            models.Index(
                fields=["team", "destination_slug", "action", "reason", "last_at"], name="incident_of_group"
            )
        ]

    def __str__(self) -> str:
        return f"{self.destination_slug} {self.reason} {self.started_at}"


class IncidentAct(models.Model):
    """The last time a person did something about an incident, and the newest hold that they had before them then."""

    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="acts", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    acted_at = models.DateTimeField()
    newest_hold = models.UUIDField()  # later ids are new since

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["incident", "person"], name="one_last_act_per_incident_and_person"
            )
        ]


class IncidentNote(models.Model):
    """A note about an incident as a whole. Its text is the journal's; here stands where to find it."""

    id = models.UUIDField(primary_key=True, default=new_id)
    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="notes", db_index=False)
    actor = models.TextField()  # as the journal writes it
    written_at = models.DateTimeField()
    note = models.TextField()  # JSON: where the journal keeps the text, and its digest

    class Meta:
        indexes = [models.Index(fields=["incident", "id"], name="incident_note_by_age")]
