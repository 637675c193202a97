"""Refusals are counted per team: two teams may have a source of the same name, and every team has an API."""

from django.db import migrations, models

NAME = "refusals_are_counted_per_source_reason_and_day"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_refusals")]
    operations = [
        migrations.RemoveConstraint(model_name="refusal", name=NAME),
        migrations.AddConstraint(
            model_name="refusal",
            constraint=models.UniqueConstraint(
                fields=("team", "source_slug", "reason", "day"), name=NAME, nulls_distinct=False
            ),
        ),
    ]
