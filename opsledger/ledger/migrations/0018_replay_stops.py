"""Replays that stop by themselves after so many unknown outcomes. Nullable columns; the constraint is of few rows."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("ledger", "0017_looks_by_destination")]
    operations = [
        migrations.AddField("replay", "stop_after", models.SmallIntegerField(null=True)),
        migrations.AddField("replay", "running_since", models.DateTimeField(null=True)),
        migrations.AddField("replay", "stopped_after", models.SmallIntegerField(null=True)),
        migrations.AddConstraint(
            "replay",
            models.CheckConstraint(
                condition=Q(stop_after__isnull=True) | Q(stop_after__gte=1),
                name="replay_stops_after_one_unknown_or_more",
            ),
        ),
    ]
