"""What scans the items of selections and runs: apart, so that both go on meanwhile."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations, models

UNIQUE = """
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS selection_has_a_step_once
    ON ledger_selectionitem (selection_id, step_id) WHERE step_id IS NOT NULL
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0032_steps_in_selections")]

    operations = [
        ValidateConstraint("selectionitem", "selection_item_is_a_hold_or_a_step"),
        ValidateConstraint("bulkitem", "bulk_item_is_a_hold_or_a_step"),
        migrations.RunSQL(
            "ALTER TABLE ledger_selectionitem VALIDATE CONSTRAINT ledger_selectionitem_names_a_step", ""
        ),
        migrations.RunSQL("ALTER TABLE ledger_bulkitem VALIDATE CONSTRAINT ledger_bulkitem_names_a_step", ""),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddConstraint(
                    "selectionitem",
                    models.UniqueConstraint(
                        fields=["selection", "step"],
                        condition=models.Q(step__isnull=False),
                        name="selection_has_a_step_once",
                    ),
                ),
            ],
            database_operations=[
                migrations.RunSQL(UNIQUE, "DROP INDEX CONCURRENTLY IF EXISTS selection_has_a_step_once")
            ],
        ),
    ]
