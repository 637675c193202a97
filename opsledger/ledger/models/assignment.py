"""Assignment rules of a team: whom a hold is given to when it opens."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from opsledger.accounts.models import Team
from opsledger.lib.ids import new_id
from opsledger.rules.assignment import RULES_MAX
from opsledger.rules.states import HoldReason


class AssignmentRule(models.Model):
    """Empty workflow, destination and reason mean any. They are asked in the order of their positions."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    position = models.IntegerField()  # 1, 2, 3 … within its team
    workflow_slug = models.TextField(default="")
    destination_slug = models.TextField(default="")
    reason = models.TextField(default="")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    active = models.BooleanField(default=True)
    version = models.IntegerField(default=1)  # changes carry it
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "position"],
                deferrable=models.Deferrable.DEFERRED,  # places are changed several at once
                name="rule_has_a_place_of_its_own",
            ),
            models.CheckConstraint(
                condition=Q(position__gte=1, position__lte=RULES_MAX), name="team_has_a_hundred_rules_at_most"
            ),
            models.CheckConstraint(
                condition=Q(reason="") | Q(reason__in=[r.value for r in HoldReason]),
                name="rule_reason_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"rule {self.position} of {self.team_id}"
