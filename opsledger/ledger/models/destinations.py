"""What changes about a destination while it is in use: whether we send, and what recovers by itself."""

from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from opsledger.accounts.models import Team
from opsledger.ledger.models.definitions import Definition


class Destination(models.Model):
    definition = models.OneToOneField(Definition, primary_key=True, on_delete=models.PROTECT)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    slug = models.TextField()
    version = models.IntegerField(default=1)
    # Nothing is sent while any of these is set; each has one open hold.
    paused_at = models.DateTimeField(null=True)
    access_refused_at = models.DateTimeField(null=True)
    circuit_opened_at = models.DateTimeField(null=True)
    circuit_trial_at = models.DateTimeField(null=True)  # when one step may try it again
    failures_in_a_row = models.IntegerField(default=0)
    # from the newest definition; the bucket holds one second's worth of sends
    sends_per_second = models.FloatField(default=10.0)
    in_flight_max = models.IntegerField(default=8)
    send_tokens = models.FloatField(default=1.0)
    tokens_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "slug"], name="destination_slug_is_unique_in_team"),
            models.CheckConstraint(
                condition=Q(circuit_trial_at__isnull=True) | Q(circuit_opened_at__isnull=False),
                name="circuit_trial_only_while_open",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Recovery(models.Model):
    """Automatic recovery of one action at one destination: off unless an owner turned it on."""

    destination = models.ForeignKey(
        Destination, on_delete=models.CASCADE, related_name="recoveries", db_index=False
    )
    action = models.TextField()
    enabled = models.BooleanField(default=False)
    drilled = models.BooleanField(default=False)  # False while enabled: shown as *not drilled*
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["destination", "action"], name="one_recovery_per_destination_and_action"
            )
        ]

    def __str__(self) -> str:
        return f"{self.destination_id} {self.action}"


SENDING_ID = UUID(int=1)  # the switch's chain in the journal


class SendingSwitch(models.Model):
    """One row: whether anything is sent at all (`manage.py sending off / on`). It equals the fold of its chain."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    sending = models.BooleanField(default=True)
    reason = models.TextField(default="")
    changed_by = models.TextField(default="")
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="there_is_one_sending_switch")]

    def __str__(self) -> str:
        return "on" if self.sending else "off"
