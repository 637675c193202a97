"""What sources told us: events, each time we were told (deliveries), the bytes, and what was refused at the door."""

from django.db import models
from django.db.models import Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.definitions import Definition, DefinitionVersion
from opsledger.lib.ids import new_id


class RawBody(models.Model):
    """The bytes of a delivery exactly as received, kept once per digest and source."""

    source = models.ForeignKey(Definition, on_delete=models.PROTECT, related_name="+", db_index=False)
    digest = models.BinaryField(max_length=32)
    content = models.BinaryField()
    content_type = models.TextField()
    content_encoding = models.TextField(default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "digest"], name="body_is_kept_once_per_source")
        ]

    def __str__(self) -> str:
        return f"{len(self.content)} bytes"


class Event(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    source = models.ForeignKey(Definition, on_delete=models.PROTECT, related_name="+", db_index=False)
    source_version = models.ForeignKey(DefinitionVersion, on_delete=models.PROTECT, related_name="+")
    event_id = models.TextField()  # the source's own, byte-exact
    event_key = models.BinaryField(max_length=32)  # digest of it: ids may be longer than an index row
    digest = models.BinaryField(max_length=32)  # of the body that was taken
    topic = models.TextField(default="")
    occurred_at = models.DateTimeField(null=True)
    occurred_text = models.TextField(default="")  # as the source wrote it
    occurred_flagged = models.BooleanField(default=False)  # implausible: left out of metrics
    received_at = models.DateTimeField()
    delivery_count = models.IntegerField(default=1)
    projection = models.TextField(default="")  # the searchable copy, with visible replacements

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "event_key"], name="event_is_unique_at_its_source"),
            models.CheckConstraint(
                condition=Q(delivery_count__gte=1), name="event_was_delivered_at_least_once"
            ),
        ]
        indexes = [
            models.Index(fields=["team", "-id"], name="event_newest_first"),
            models.Index(
                models.F("team"),
                models.Func("event_id", models.Value(120), function="left"),
                name="event_id_prefix",
            ),
        ]

    def __str__(self) -> str:
        return self.event_id


class Delivery(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id)
    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="deliveries")
    received_at = models.DateTimeField()
    body = models.ForeignKey(RawBody, on_delete=models.PROTECT, related_name="+")
    # of what its body says, whatever its blanks and packing; null: from before it was kept
    digest = models.BinaryField(null=True, max_length=32)
    secret_name = models.TextField(default="")  # which of the source's secrets matched
    conflict = models.BooleanField(default=False)  # same event id, other body
    # the question that asked a person about this other body; null: it waits behind another question
    hold = models.ForeignKey(
        "ledger.Hold", null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(hold__isnull=True) | Q(conflict=True), name="only_another_body_is_asked_about"
            )
        ]
        indexes = [
            models.Index(
                fields=["event", "id"],
                condition=Q(conflict=True, hold__isnull=True),
                name="body_waits_to_be_asked_about",
            )
        ]

    def __str__(self) -> str:
        return f"{self.event_id} at {self.received_at}"


class EarlyReport(models.Model):
    """What an event tells of the final effect of a record that no step is known to have made.

    Whoever records the reference takes it away, and keeps it as evidence of that step.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    event = models.ForeignKey(Event, on_delete=models.PROTECT, db_index=False, related_name="+")
    destination = models.ForeignKey(Definition, on_delete=models.PROTECT, db_index=False, related_name="+")
    action = models.TextField()
    reference = models.TextField()  # byte for byte
    reference_key = models.BinaryField(max_length=32)  # digest of it: it may be longer than an index row
    says = models.TextField()
    occurred_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["event", "destination", "action"], name="early_report_is_kept_once_per_event"
            ),
            models.CheckConstraint(
                condition=Q(says__in=["delivered", "not_delivered"]), name="early_report_is_of_a_final_effect"
            ),
        ]
        indexes = [
            models.Index(fields=["destination", "action", "reference_key"], name="early_report_of_a_record"),
            models.Index(fields=["team", "destination", "-id"], name="early_report_newest_first"),
            models.Index(fields=["told_at"], name="early_report_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.says}: {self.reference}"


class Refusal(models.Model):
    """What was refused at the door, counted per source, reason and day, so that operators see it."""

    source_slug = models.TextField()  # "" for the API
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT)
    reason = models.TextField()
    day = models.DateField()
    count = models.BigIntegerField(default=1)
    last_at = models.DateTimeField()
    last_sentence = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "source_slug", "reason", "day"],
                condition=Q(team__isnull=False),
                name="refusals_are_counted_per_source_reason_and_day",
            ),
            models.UniqueConstraint(
                fields=["source_slug", "reason", "day"],
                condition=Q(team__isnull=True),
                name="refusals_of_nobody_known_are_counted_per_reason_and_day",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source_slug} {self.reason}: {self.count}"
