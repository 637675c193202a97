"""Items of replays that a person closed as never known, counted apart. Code from before counts none of them; both may run."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import F, Q

RESULTS = ["recovered", "accepted", "held", "closed_unknown", "failed", "cancelled", "behind"]


class Migration(migrations.Migration):
    dependencies = [("ledger", "0018_replay_stops")]
    operations = [
        migrations.AddField(
            "replay", "closed_unknown_count", models.IntegerField(default=0, db_default=0)
        ),
        migrations.RemoveConstraint("replay", "replay_counts_every_item_once"),
        migrations.AddConstraint(  # of few rows
            "replay",
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
        ),
        migrations.RemoveConstraint("replayitem", "replay_item_has_a_result_iff_ended"),
        AddConstraintNotValid(
            "replayitem",
            models.CheckConstraint(
                condition=Q(state="ended", result__in=RESULTS) | (~Q(state="ended") & Q(result="")),
                name="replay_item_has_a_result_iff_ended",
            ),
        ),
    ]
