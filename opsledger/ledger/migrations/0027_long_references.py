"""Steps by the beginning of their reference: a long one has no room in an index row. Built without stopping writes."""

from django.db import migrations, models
from django.db.models import Q

INDEX = (
    'CREATE INDEX CONCURRENTLY step_by_reference ON ledger_step (team_id, (left(reference, 120) COLLATE "C"))'
    " WHERE reference IS NOT NULL"
)
NO_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS step_by_reference"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0026_fewer_indexes")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL([NO_INDEX, INDEX], [NO_INDEX])],
            state_operations=[
                migrations.AddIndex(
                    "step",
                    models.Index(
                        models.F("team"),
                        models.Func("reference", template='(left(%(expressions)s, 120) COLLATE "C")'),
                        condition=Q(reference__isnull=False),
                        name="step_by_reference",
                    ),
                ),
            ],
        )
    ]
