"""The index of whole references goes: it refused steps whose reference was long, and 0027 has taken its place."""

from django.db import migrations

INDEX = (
    "CREATE INDEX CONCURRENTLY step_reference_prefix ON ledger_step (team_id, reference text_pattern_ops)"
    " WHERE reference IS NOT NULL"
)
NO_INDEX = "DROP INDEX CONCURRENTLY IF EXISTS step_reference_prefix"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0027_long_references")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL([NO_INDEX], [NO_INDEX, INDEX])],
            state_operations=[migrations.RemoveIndex("step", "step_reference_prefix")],
        )
    ]
