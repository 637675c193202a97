"""Selections and runs may be about steps that wait at a stopped destination, which have no hold of their own."""

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


FROZEN = """
DROP TRIGGER selection_item_is_frozen ON ledger_selectionitem;
CREATE TRIGGER selection_item_is_frozen BEFORE UPDATE OF selection_id, position, hold_id, step_id
    ON ledger_selectionitem FOR EACH ROW EXECUTE FUNCTION refuse_change();
DROP TRIGGER bulk_item_is_frozen ON ledger_bulkitem;
CREATE TRIGGER bulk_item_is_frozen BEFORE UPDATE OF run_id, position, hold_id, step_id, version, operation_id, given
    OR DELETE ON ledger_bulkitem FOR EACH ROW EXECUTE FUNCTION refuse_change();
"""
REMOVE = """
DROP TRIGGER selection_item_is_frozen ON ledger_selectionitem;
CREATE TRIGGER selection_item_is_frozen BEFORE UPDATE OF selection_id, position, hold_id
    ON ledger_selectionitem FOR EACH ROW EXECUTE FUNCTION refuse_change();
DROP TRIGGER bulk_item_is_frozen ON ledger_bulkitem;
CREATE TRIGGER bulk_item_is_frozen BEFORE UPDATE OF run_id, position, hold_id, version, operation_id, given
    OR DELETE ON ledger_bulkitem FOR EACH ROW EXECUTE FUNCTION refuse_change();
"""
# In the order of those who carry a run; each is held for a moment, as no row is looked at here but those of runs.
LOCKS = """
LOCK TABLE ledger_bulkrun IN ACCESS EXCLUSIVE MODE;
LOCK TABLE ledger_step IN SHARE ROW EXCLUSIVE MODE;
LOCK TABLE ledger_bulkitem, ledger_selectionitem IN ACCESS EXCLUSIVE MODE;
"""
VERBS = [
    "take", "assign", "check_now", "next_check", "note", "end_failed", "plan_replay", "happened", "absent", "cancel",
]  # fmt: skip


def _hold():
    return models.ForeignKey(
        db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="ledger.hold"
    )


def _step(**more):
    return models.ForeignKey(
        db_index=False,
        null=True,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="+",
        to="ledger.step",
        **more,
    )


def _named(table):
    """A step that is looked up from now on; the rows that are there name none."""
    name = f"ledger_{table}_names_a_step"
    return migrations.SeparateDatabaseAndState(
        state_operations=[migrations.AlterField(table, "step", _step())],
        database_operations=[
            migrations.RunSQL(
                f"ALTER TABLE ledger_{table} ADD CONSTRAINT {name} FOREIGN KEY (step_id) REFERENCES ledger_step (id)"
                " DEFERRABLE INITIALLY DEFERRED NOT VALID",
                f"ALTER TABLE ledger_{table} DROP CONSTRAINT {name}",
            )
        ],
    )


def _either(name):
    return models.CheckConstraint(
        condition=models.Q(hold__isnull=False, step__isnull=True)
        | models.Q(hold__isnull=True, step__isnull=False),
        name=name,
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0031_proposals_keys")]

    operations = [
        migrations.RunSQL(LOCKS, LOCKS),
        migrations.AlterField("selectionitem", "hold", _hold()),
        migrations.AddField("selectionitem", "step", _step(db_constraint=False)),
        _named("selectionitem"),
        AddConstraintNotValid("selectionitem", _either("selection_item_is_a_hold_or_a_step")),
        migrations.AlterField("bulkitem", "hold", _hold()),
        migrations.AddField("bulkitem", "step", _step(db_constraint=False)),
        _named("bulkitem"),
        AddConstraintNotValid("bulkitem", _either("bulk_item_is_a_hold_or_a_step")),
        migrations.RemoveConstraint("bulkrun", "bulk_run_verb_is_known"),
        migrations.AddConstraint(  # of few rows
            "bulkrun",
            models.CheckConstraint(condition=models.Q(verb__in=VERBS), name="bulk_run_verb_is_known"),
        ),
        migrations.RunSQL(FROZEN, REMOVE),
    ]
