"""Selections and bulk runs: what was chosen, frozen as it was seen, and one verb applied to all of it.

What is chosen are open holds, or steps that wait at a stopped destination and have no hold of their own.
"""

from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.holds import Hold
from opsledger.ledger.models.operations import Operation, Step
from opsledger.lib.ids import new_id
from opsledger.rules.bulk import HOLDS_MAX, BulkResult, BulkState, Verb


class Selection(models.Model):
    """A frozen set of open holds, or of steps that wait. Nothing joins it later."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    made_at = models.DateTimeField()
    words = models.TextField()  # what was chosen, as people read it
    query = models.TextField(default="")  # of the view's address; "" = ticked rows
    item_count = models.IntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(item_count__gte=1, item_count__lte=HOLDS_MAX),
                name="selection_is_neither_empty_nor_endless",
            ),
        ]

    def __str__(self) -> str:
        return self.words


class SelectionItem(models.Model):
    id = models.BigAutoField(primary_key=True)
    selection = models.ForeignKey(Selection, on_delete=models.PROTECT, related_name="items", db_index=False)
    position = models.IntegerField()  # soonest due first, from 1; of steps, the one that waits longest
    hold = models.ForeignKey(Hold, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    step = models.ForeignKey(Step, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    # of the hold, or of the step's operation, as it was seen; a hold's is raised by what a run of this selection did to it
    version = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["selection", "hold"], name="selection_has_a_hold_once"),
            models.UniqueConstraint(
                fields=["selection", "step"],
                condition=Q(step__isnull=False),
                name="selection_has_a_step_once",
            ),
            models.CheckConstraint(
                condition=Q(hold__isnull=False, step__isnull=True) | Q(hold__isnull=True, step__isnull=False),
                name="selection_item_is_a_hold_or_a_step",
            ),
            models.UniqueConstraint(fields=["selection", "position"], name="selection_item_has_one_position"),
        ]

    def __str__(self) -> str:
        return f"{self.selection_id} {self.position}"


class BulkRun(models.Model):
    """One verb over one selection."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    selection = models.ForeignKey(Selection, on_delete=models.PROTECT, related_name="runs", db_index=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    actor = models.TextField()  # as the journal writes it
    verb = models.TextField()
    facts = models.TextField(default="{}")  # JSON for the doer; free text only as the journal keeps it
    state = models.TextField(default=BulkState.RUNNING)
    version = models.IntegerField(default=1)  # decisions carry it; items do not move it
    once = models.UUIDField()  # posted with the form: a second press is the same run
    item_count = models.IntegerField()
    done_count = models.IntegerField(default=0)
    skipped_count = models.IntegerField(default=0)
    refused_count = models.IntegerField(default=0)
    left_count = models.IntegerField(default=0)
    made_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "once"], name="bulk_run_begins_once"),
            models.UniqueConstraint(
                fields=["selection"], condition=Q(state="running"), name="selection_has_one_open_run"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in BulkState]), name="bulk_run_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(verb__in=[verb.value for verb in Verb]), name="bulk_run_verb_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state="running", ended_at__isnull=True)
                | (~Q(state="running") & Q(ended_at__isnull=False)),
                name="bulk_run_ended_iff_state_is_final",
            ),
            models.CheckConstraint(
                condition=Q(
                    state="running",
                    item_count__gte=F("done_count")
                    + F("skipped_count")
                    + F("refused_count")
                    + F("left_count"),
                )
                | Q(
                    ~Q(state="running"),
                    item_count=F("done_count") + F("skipped_count") + F("refused_count") + F("left_count"),
                ),
                name="bulk_run_counts_every_item_once",
            ),
        ]
        indexes = [
            models.Index(fields=["team", "-id"], name="bulk_run_newest_first"),
            models.Index(fields=["selection", "-id"], name="bulk_run_of_selection"),
            models.Index(fields=["id"], condition=Q(state="running"), name="bulk_run_open"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.id}"


class BulkItem(models.Model):
    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(BulkRun, on_delete=models.PROTECT, related_name="items", db_index=False)
    position = models.IntegerField()  # the selection's
    hold = models.ForeignKey(Hold, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    step = models.ForeignKey(Step, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    version = models.IntegerField()  # of the hold, or of the step's operation, as it was decided on
    operation = models.ForeignKey(
        Operation, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    given = models.TextField(default="")  # JSON: what the verb says of this item alone, such as its reference
    result = models.TextField(default="")  # "" = still to come
    why = models.TextField(default="")  # a sentence, where it was not done
    said_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="bulk_item_has_one_position"),
            models.UniqueConstraint(fields=["run", "hold"], name="bulk_run_has_a_hold_once"),
            models.CheckConstraint(
                condition=Q(hold__isnull=False, step__isnull=True) | Q(hold__isnull=True, step__isnull=False),
                name="bulk_item_is_a_hold_or_a_step",
            ),
            models.CheckConstraint(
                condition=Q(result="", said_at__isnull=True)
                | Q(result__in=[result.value for result in BulkResult], said_at__isnull=False),
                name="bulk_item_has_a_result_iff_said_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(result__in=["", "done"], why="") | (~Q(result__in=["", "done"]) & ~Q(why="")),
                name="bulk_item_not_done_says_why",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "position"], condition=Q(result=""), name="bulk_item_open"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.position}"

    @property
    def thing_id(self) -> UUID:
        """What it is about: a hold, or a step."""
        found = self.hold_id or self.step_id
        assert found is not None
        return found
