"""Due lookups by destination, so that none waits behind another destination's. Built without stopping writes."""

from django.db import migrations, models
from django.db.models import Q

INDEX = (
    "CREATE INDEX CONCURRENTLY step_to_be_looked_up ON ledger_step (destination_id, act_at, id) WHERE act = 'look'"
)
NO_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS step_to_be_looked_up"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0016_proposals")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL([NO_INDEX, INDEX], [NO_INDEX])],
            state_operations=[
                migrations.AddIndex(
                    "step",
                    models.Index(
                        fields=["destination", "act_at", "id"],
                        condition=Q(act="look"),
                        name="step_to_be_looked_up",
                    ),
                ),
            ],
        )
    ]
