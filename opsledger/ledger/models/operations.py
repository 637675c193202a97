"""The operation record: operation, steps, frozen requests, attempts, evidence.

Hot rows are narrow; parameters, requests and replies have tables of their own. Every constraint's name is a sentence.
"""

from typing import Any

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.content import Content
from opsledger.ledger.models.definitions import Definition, DefinitionVersion
from opsledger.ledger.models.events import Event
from opsledger.lib.ids import new_id
from opsledger.rules import record
from opsledger.rules.states import NoChange, OperationState, Outcome, StepState

OPEN_STATES = [
    OperationState.RUNNING.value,
    OperationState.RECONCILING.value,
    OperationState.AWAITING_APPROVAL.value,
    OperationState.HELD.value,
]

# A key to a row that never goes, on a hot one (docs/decisions/0023-plans.md): the database refuses to remove or renumber
# that row instead of looking it up for every new one. What is asked by it has an index that begins with it.
LASTING: Any = {"db_constraint": False, "db_index": False}
# A key to an operation, a step or an attempt, on a row of which there are many (docs/decisions/0030-keys-per-statement.md):
# those stay, too, and the statement that adds rows looks up what they name, by a trigger, once for all of them.
LOOKED_UP: Any = {"db_constraint": False}


class Operation(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, **LASTING)
    operation_id = models.CharField(max_length=200)  # the caller's own, byte-exact
    title = models.TextField()  # the intended action in plain words; no sensitive value
    workflow_version = models.ForeignKey(
        DefinitionVersion, on_delete=models.PROTECT, related_name="+", **LASTING
    )
    workflow_slug = models.TextField()
    digest = models.BinaryField(max_length=32)  # over workflow, params and content
    state = models.TextField(default=OperationState.RUNNING)
    version = models.IntegerField(default=1)  # grows with every write
    cancelled = models.BooleanField(default=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    first_event = models.ForeignKey(
        Event, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    content = models.ForeignKey(
        Content, null=True, on_delete=models.PROTECT, related_name="operations", db_index=False
    )
    replaces = models.ForeignKey(
        "self", null=True, on_delete=models.PROTECT, related_name="replaced_by", db_index=False
    )
    not_after = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    unknown_at = models.DateTimeField(null=True)  # when an outcome first became unknown
    step_count = models.SmallIntegerField()
    attempt_count = models.IntegerField(default=0)
    confirmed_count = models.SmallIntegerField(default=0)
    event_count = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "operation_id"], name="operation_id_is_unique_in_team"),
            models.UniqueConstraint(
                fields=["replaces"], condition=Q(replaces__isnull=False), name="an_operation_is_replaced_once"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in OperationState]),
                name="operation_state_is_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=OPEN_STATES, ended_at__isnull=True)
                | (~Q(state__in=OPEN_STATES) & Q(ended_at__isnull=False)),
                name="operation_ended_iff_state_is_final",
            ),
            models.CheckConstraint(
                condition=Q(confirmed_count__gte=0) & Q(confirmed_count__lte=F("step_count")),
                name="operation_confirms_no_more_steps_than_it_has",
            ),
        ]
        indexes = [
            models.Index(fields=["team", "-id"], name="operation_newest_first"),
            models.Index(fields=["team", "state", "-id"], name="operation_by_state"),
            models.Index(fields=["team", "workflow_slug", "-id"], name="operation_by_workflow"),
            models.Index(
                fields=["team", "owner", "-id"],
                condition=Q(ended_at__isnull=True),
                name="operation_open_by_owner",
            ),
            models.Index(
                fields=["content", "id"],
                condition=Q(ended_at__isnull=True, content__isnull=False),
                name="operation_open_by_content",
            ),
            models.Index(fields=["content"], condition=Q(content__isnull=False), name="operation_by_content"),
            models.Index(
                fields=["team", "operation_id"],
                opclasses=["uuid_ops", "varchar_pattern_ops"],
                name="operation_id_prefix",
            ),
            BrinIndex(fields=["updated_at"], name="operation_updated_brin", pages_per_range=32),
        ]

    def __str__(self) -> str:
        return self.operation_id


class OperationParams(models.Model):
    operation = models.OneToOneField(
        Operation, primary_key=True, on_delete=models.PROTECT, related_name="params_row", **LOOKED_UP
    )
    params = models.TextField()  # canonical JSON

    def __str__(self) -> str:
        return str(self.operation_id)


class OperationEvent(models.Model):
    """The events of an operation: the first one, and those of the same action that came later."""

    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, related_name="event_links", db_index=False
    )
    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="operation_links")
    added_at = models.DateTimeField()
    # a delivery of the event asked for this operation, which somebody else had recorded
    started = models.BooleanField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["operation", "event"], name="event_is_added_once")]

    def __str__(self) -> str:
        return f"{self.operation_id} {self.event_id}"


REFERENCE_START_LENGTH = 120
REFERENCE_START = f'(left(%(expressions)s, {REFERENCE_START_LENGTH}) COLLATE "C")'


def reference_start(column: str) -> str:
    """The beginning of a reference as the index has it: who looks for a reference asks for it too."""
    return REFERENCE_START % {"expressions": column}


class Step(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, **LASTING)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, related_name="steps", db_index=False, **LOOKED_UP
    )
    number = models.SmallIntegerField()
    name = models.TextField()
    identity = models.TextField(null=True)  # noqa: DJ001  rules.identity; null: from before it was stored
    title = models.TextField()
    destination = models.ForeignKey(Definition, on_delete=models.PROTECT, related_name="+", **LASTING)
    destination_version = models.ForeignKey(
        DefinitionVersion, on_delete=models.PROTECT, related_name="+", **LASTING
    )
    destination_slug = models.TextField()
    action = models.TextField()
    performer = models.TextField(default=record.Performer.ENGINE)
    state = models.TextField(default=StepState.WAITING)
    revision = models.SmallIntegerField(default=1)
    request_digest = models.TextField(null=True)  # noqa: DJ001  null: not rendered yet
    reference = models.TextField(null=True)  # noqa: DJ001  null: none known
    tries_extra = models.IntegerField(default=0)
    not_before = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    unknown_at = models.DateTimeField(null=True)
    looks = models.IntegerField(default=0)
    looks_none = models.IntegerField(default=0)
    looked_at = models.DateTimeField(null=True)
    look_at = models.DateTimeField(null=True)
    rejection_waived = models.BooleanField(default=False)
    lateness_waived = models.BooleanField(default=False)
    final_waived = models.BooleanField(default=False)
    never_known = models.BooleanField(default=False)
    go_on_after = models.BooleanField(default=False)
    not_ours = models.JSONField(default=list)
    integrity_alarm = models.BooleanField(default=False)
    record_changed = models.BooleanField(null=True)
    answered_with_error = models.BooleanField(default=False)
    approval_needed = models.BooleanField(default=False)
    content_number = models.IntegerField(null=True)  # of the version that its request shows
    approved_digest = models.TextField(null=True)  # noqa: DJ001  null: this revision is not approved
    approved_until = models.DateTimeField(null=True)
    resend_asked = models.BooleanField(default=False, db_default=False)
    look_applies = models.BooleanField(default=False, db_default=False)
    # the plan (rules.next_step); `look_lease_until` keeps a lookup under way from being made twice
    act = models.TextField(default=record.Act.NONE)
    act_at = models.DateTimeField(null=True)
    send_until = models.DateTimeField(null=True)
    look_lease_until = models.DateTimeField(null=True)
    attempt_count = models.IntegerField(default=0)
    # how far a claim may go, copied from the profile so that a claim reads this row only
    tries_used = models.IntegerField(default=0)
    tries_max = models.IntegerField()
    lease_seconds = models.FloatField()
    total_seconds = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "number"], name="step_number_is_unique_in_operation"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in StepState]), name="step_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(act__in=[a.value for a in record.Act]), name="step_act_is_known"
            ),
            models.CheckConstraint(
                condition=Q(act="none", act_at__isnull=True) | (~Q(act="none") & Q(act_at__isnull=False)),
                name="step_acts_iff_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(reference__isnull=True) | Q(state__in=["accepted", "confirmed", "failed"]),
                name="step_has_a_reference_only_with_an_effect",
            ),
            models.CheckConstraint(
                condition=~Q(act="send") | Q(state__in=["ready", "unknown"]),
                name="step_sends_only_when_ready_or_unknown",
            ),
            models.CheckConstraint(
                condition=Q(approval_needed=False)
                | Q(approved_digest__isnull=False)
                | (Q(request_digest__isnull=True) & ~Q(state="in_flight") & ~Q(act__in=["send", "offer"])),
                name="step_is_frozen_and_sent_only_when_approved",
            ),
            models.CheckConstraint(
                condition=Q(approved_digest__isnull=True, approved_until__isnull=True)
                | Q(approved_digest__isnull=False, approved_until__isnull=False),
                name="step_approved_iff_until_a_time",
            ),
            models.CheckConstraint(
                condition=Q(revision=1) | Q(approval_needed=True),
                name="step_revision_needs_approval",
            ),
        ]
        indexes = [
            models.Index(fields=["destination", "act_at"], condition=Q(act="send"), name="step_to_be_sent"),
            models.Index(
                fields=["destination", "act_at", "id"], condition=Q(act="look"), name="step_to_be_looked_up"
            ),
            models.Index(
                fields=["act", "act_at"],
                condition=Q(act__in=["offer", "lease", "look", "await"]),
                name="step_due",
            ),
            models.Index(
                fields=["destination", "state"],
                condition=Q(state__in=["ready", "in_flight", "accepted", "unknown"]),
                name="step_open_at_destination",
            ),
            models.Index(  # a destination may name records as long as it likes: an index row holds their beginning
                models.F("team"),
                models.Func("reference", template=REFERENCE_START),
                condition=Q(reference__isnull=False),
                name="step_by_reference",
            ),
            models.Index(fields=["identity"], condition=Q(identity__isnull=False), name="step_by_identity"),
        ]

    def __str__(self) -> str:
        return f"{self.operation_id} step {self.number}"


class StepRequest(models.Model):
    """What a step sends: rendered once, frozen before the first attempt. A trigger refuses changes."""

    step = models.ForeignKey(
        Step, on_delete=models.PROTECT, related_name="requests", db_index=False, **LOOKED_UP
    )
    revision = models.SmallIntegerField()
    method = models.TextField()
    url = models.TextField()
    headers = models.TextField()  # JSON list of pairs; no credentials
    body = models.BinaryField()
    idempotency_key = models.TextField()
    digest = models.TextField()  # over method, url, headers and body, in hex
    content_digest = models.TextField()  # the same with the key left out
    rendered_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "revision"], name="request_is_rendered_once_per_revision")
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


class Attempt(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, related_name="attempts", db_index=False, **LOOKED_UP
    )
    step = models.ForeignKey(
        Step, on_delete=models.PROTECT, related_name="attempts", db_index=False, **LOOKED_UP
    )
    number = models.SmallIntegerField()
    revision = models.SmallIntegerField()
    worker = models.TextField()  # unique per process start; a token's id for an automation
    opened_at = models.DateTimeField()
    lease_ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    outcome = models.TextField(null=True)  # noqa: DJ001  null while it is open
    no_change = models.TextField(null=True)  # noqa: DJ001
    reference = models.TextField(null=True)  # noqa: DJ001
    known_by = models.TextField(null=True)  # noqa: DJ001
    # what the transport saw
    left_house = models.BooleanField(null=True)
    phase = models.TextField(default="")
    error = models.TextField(default="")
    status = models.SmallIntegerField(null=True)
    elapsed_seconds = models.FloatField(null=True)
    sentence = models.TextField(default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "number"], name="attempt_number_is_unique_in_step"),
            models.UniqueConstraint(
                fields=["step"], condition=Q(outcome__isnull=True), name="one_open_attempt_per_step"
            ),
            models.CheckConstraint(
                condition=Q(outcome__isnull=True, ended_at__isnull=True)
                | Q(outcome__isnull=False, ended_at__isnull=False),
                name="attempt_ended_iff_outcome",
            ),
            models.CheckConstraint(
                condition=Q(outcome__isnull=True) | Q(outcome__in=[o.value for o in Outcome]),
                name="attempt_outcome_is_known",
            ),
            models.CheckConstraint(
                condition=(Q(outcome="no_change") & Q(no_change__in=[n.value for n in NoChange]))
                | (~Q(outcome="no_change") & Q(no_change__isnull=True))
                | Q(outcome__isnull=True, no_change__isnull=True),
                name="no_change_iff_it_says_how",
            ),
            models.CheckConstraint(
                condition=Q(lease_ends_at__gt=F("opened_at")), name="attempt_lease_ends_after_it_begins"
            ),
        ]
        indexes = [models.Index(fields=["operation"], name="attempt_of_operation")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.step_id}"


class Evidence(models.Model):
    class Kind(models.TextChoices):
        REPLY = "reply"
        LOOKUP = "lookup"
        REPORT = "report"
        STATEMENT = "statement"
        LIST = "list"  # a row of a destination's list of references
        AUTOMATION = "automation"

    id = models.UUIDField(primary_key=True, default=new_id)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, related_name="evidence", db_index=False, **LOOKED_UP
    )
    step = models.ForeignKey(
        Step, null=True, on_delete=models.PROTECT, related_name="evidence", db_index=False, **LOOKED_UP
    )
    attempt = models.ForeignKey(
        Attempt, null=True, on_delete=models.PROTECT, related_name="evidence", db_index=False, **LOOKED_UP
    )
    kind = models.TextField(choices=Kind)
    origin = models.TextField()  # a destination's slug, a token's name, a person's id
    received_at = models.DateTimeField()
    occurred_at = models.DateTimeField(null=True)
    digest = models.BinaryField(max_length=32)  # over `content`
    says = models.TextField()  # one of our words: confirmed, none, duplicate, …
    sentence = models.TextField()  # for people, without personal data
    facts = models.TextField(default="{}")  # JSON: status, headers worth keeping, found records
    content = models.BinaryField(default=b"")  # the first bytes as received
    late = models.BooleanField(default=False)  # came after the attempt had ended

    class Meta:
        indexes = [models.Index(fields=["operation", "received_at"], name="evidence_of_operation")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.says}"


class HeldReference(models.Model):
    """A reference belongs to one create step at its destination."""

    destination = models.ForeignKey(Definition, on_delete=models.PROTECT, related_name="+", **LASTING)
    reference_key = models.BinaryField(max_length=32)  # digest: references may be longer than an index row
    step = models.ForeignKey(
        Step, on_delete=models.PROTECT, related_name="held_references", db_index=False, **LOOKED_UP
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["destination", "reference_key"], name="reference_belongs_to_one_create_step"
            )
        ]

    def __str__(self) -> str:
        return str(self.step_id)
