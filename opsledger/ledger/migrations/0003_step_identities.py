"""A step keeps its identity. Steps that are there keep the one that their requests carry; nothing is rewritten.

The column costs no rewrite, and the index is built without stopping writes. What was interrupted may be run again.
"""

from django.db import migrations, models
from django.db.models import Q

ADD = "ALTER TABLE ledger_step ADD COLUMN IF NOT EXISTS identity text"
INDEX = "CREATE INDEX CONCURRENTLY step_by_identity ON ledger_step (identity) WHERE identity IS NOT NULL"
NO_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS step_by_identity"
REMOVE = "ALTER TABLE ledger_step DROP COLUMN IF EXISTS identity"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0002_refusals")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL([ADD, NO_INDEX, INDEX], [NO_INDEX, REMOVE])],
            state_operations=[
                migrations.AddField("step", "identity", models.TextField(null=True)),
                migrations.AddIndex(
                    "step",
                    models.Index(
                        fields=["identity"], condition=Q(identity__isnull=False), name="step_by_identity"
                    ),
                ),
            ],
        )
    ]
