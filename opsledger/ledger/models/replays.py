"""Replays: planned, scoped continuations. Their items are the frozen list that was planned, one per step."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.definitions import Definition, DefinitionVersion
from opsledger.ledger.models.operations import Operation, Step
from opsledger.lib.ids import new_id
from opsledger.rules.replay_words import OPEN_ITEMS, OPEN_REPLAYS, ItemResult, ItemState, ReplayState

# Every item is counted once: by its result where it has ended, else by its state.
COUNTED = tuple(
    f"{word}_count"
    for word in (
        *(result.value for result in ItemResult),
        *(state.value for state in ItemState if state is not ItemState.ENDED),
    )
)
_OPEN = sorted(state.value for state in OPEN_REPLAYS)
_OPEN_ITEMS = sorted(state.value for state in OPEN_ITEMS)


class Replay(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id)  # chosen when it was planned
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    name = models.TextField()
    scope = models.TextField()  # what was asked for, in words
    reason = models.TextField()  # JSON: where the journal keeps the text, and its digest
    state = models.TextField(default=ReplayState.RUNNING)
    version = models.IntegerField(default=1)  # decisions carry it; items do not move it
    plan_digest = models.TextField()
    statement = models.ForeignKey(  # of a provider, which its plan rests on
        "ProviderStatement", null=True, on_delete=models.PROTECT, related_name="replays", db_index=False
    )
    actor = models.TextField()  # the starter, as the journal writes it
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    started_at = models.DateTimeField()
    resumed_by = models.ForeignKey(  # the last one; what it begins from then on is theirs
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    changed_by = models.TextField(default="")  # the name of who paused, resumed or aborted it last
    ended_at = models.DateTimeField(null=True)
    stop_after = models.SmallIntegerField(
        null=True
    )  # unknown outcomes, at which it pauses by itself; null: it does not
    running_since = models.DateTimeField(null=True)  # when it was resumed last; null: since it was started
    stopped_after = models.SmallIntegerField(
        null=True
    )  # unknown outcomes at which it paused by itself, while it is so
    item_count = models.IntegerField()
    recovered_count = models.IntegerField(default=0)
    accepted_count = models.IntegerField(default=0)
    held_count = models.IntegerField(default=0)
    closed_unknown_count = models.IntegerField(default=0, db_default=0)
    failed_count = models.IntegerField(default=0)
    cancelled_count = models.IntegerField(default=0)
    behind_count = models.IntegerField(default=0)
    waiting_count = models.IntegerField(default=0)
    started_count = models.IntegerField(default=0)
    skipped_count = models.IntegerField(default=0)
    aborted_count = models.IntegerField(default=0)
    kept_count = models.IntegerField(default=0)
    refused_count = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in ReplayState]), name="replay_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state__in=_OPEN, ended_at__isnull=True)
                | (~Q(state__in=_OPEN) & Q(ended_at__isnull=False)),
                name="replay_ended_iff_state_is_final",
            ),
            models.CheckConstraint(
                condition=Q(stop_after__isnull=True) | Q(stop_after__gte=1),
                name="replay_stops_after_one_unknown_or_more",
            ),
            models.CheckConstraint(
                condition=Q(state__in=_OPEN) | Q(waiting_count=0, started_count=0),
                name="replay_ends_only_when_every_item_has",
            ),
            models.CheckConstraint(
                condition=Q(
                    item_count=F("recovered_count")
                    + F("accepted_count")
                    + F("held_count")
                    + F("closed_unknown_count")
                    + F("failed_count")
                    + F("cancelled_count")
                    + F("behind_count")
                    + F("waiting_count")
                    + F("started_count")
                    + F("skipped_count")
                    + F("aborted_count")
                    + F("kept_count")
                    + F("refused_count")
                ),
                name="replay_counts_every_item_once",
            ),
        ]
        indexes = [
            models.Index(fields=["team", "-id"], name="replay_newest_first"),
            models.Index(fields=["id"], condition=Q(state__in=_OPEN), name="replay_open"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def answers_for_id(self) -> Any:
        """The person in whose name it begins items."""
        return self.resumed_by_id or self.started_by_id


class ReplayDestination(models.Model):
    """How fast a replay may start items that touch a destination. The bucket holds one second's worth."""

    replay = models.ForeignKey(Replay, on_delete=models.PROTECT, related_name="destinations", db_index=False)
    destination = models.ForeignKey(Definition, on_delete=models.PROTECT, related_name="+", db_index=False)
    slug = models.TextField()
    per_second = models.FloatField()
    tokens = models.FloatField(default=1.0)
    tokens_at = models.DateTimeField()
    waiting_count = models.IntegerField()  # items that wait for a turn of their own

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["replay", "destination"], name="replay_paces_a_destination_once"),
            models.CheckConstraint(condition=Q(per_second__gt=0), name="replay_pace_is_above_zero"),
            models.CheckConstraint(condition=Q(waiting_count__gte=0), name="replay_pace_counts_from_zero"),
        ]
        indexes = [
            models.Index(fields=["replay"], condition=Q(waiting_count__gt=0), name="replay_pace_waiting")
        ]

    def __str__(self) -> str:
        return f"{self.slug}: {self.per_second:g} per second"


class ReplayItem(models.Model):
    id = models.BigAutoField(primary_key=True)
    replay = models.ForeignKey(Replay, on_delete=models.PROTECT, related_name="items", db_index=False)
    position = models.IntegerField()  # in the plan, from 1
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="+")
    operation_version = models.IntegerField()  # as it was planned
    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.SmallIntegerField()
    destination = models.ForeignKey(Definition, on_delete=models.PROTECT, related_name="+", db_index=False)
    # a newer version that was chosen for a request that is not frozen yet; null: the one it was recorded with
    rebound_to = models.ForeignKey(
        DefinitionVersion, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    verdict = models.TextField()
    reason = models.TextField()
    detail = models.TextField(default="")
    until = models.DateTimeField(null=True)  # of its protection
    mark = models.BinaryField(max_length=8)  # over what the plan's reader relied on
    leads = models.BooleanField()  # has a turn of its own; the others follow an earlier step
    state = models.TextField()
    result = models.TextField(default="")
    said = models.TextField(default="")  # one machine word more: the hold's reason, what moved
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["replay", "position"], name="replay_item_has_one_position"),
            models.UniqueConstraint(
                fields=["step"],
                condition=Q(state__in=_OPEN_ITEMS),
                name="step_is_in_one_open_replay",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in ItemState]), name="replay_item_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state="ended", result__in=[result.value for result in ItemResult])
                | (~Q(state="ended") & Q(result="")),
                name="replay_item_has_a_result_iff_ended",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["started", "ended"], started_at__isnull=False)
                | (~Q(state__in=["started", "ended"]) & Q(started_at__isnull=True)),
                name="replay_item_started_iff_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["ended", "skipped", "aborted"], ended_at__isnull=False)
                | (~Q(state__in=["ended", "skipped", "aborted"]) & Q(ended_at__isnull=True)),
                name="replay_item_over_iff_at_a_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["replay", "destination", "position"],
                condition=Q(state="waiting", leads=True),
                name="replay_item_to_be_started",
            ),
            models.Index(fields=["replay"], condition=Q(state="started"), name="replay_item_under_way"),
        ]

    def __str__(self) -> str:
        return f"{self.replay_id} {self.position}"
