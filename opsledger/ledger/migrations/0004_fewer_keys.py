"""Fewer keys on hot rows (docs/decisions/0023-plans.md).

Indexes go that another one begins with, or that only the removal of a row would use that is never removed. Foreign keys to
teams, definitions and their versions go, too; instead those rows refuse to be removed or renumbered. Nothing is rewritten.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


STEP_KEY = "ledger_attempt_step_id_482839ce"
LASTING = """
CREATE TRIGGER team_is_never_removed BEFORE DELETE OR UPDATE OF id ON team
    FOR EACH ROW EXECUTE FUNCTION refuse_removal();
CREATE TRIGGER definition_is_never_removed BEFORE DELETE OR UPDATE OF id ON ledger_definition
    FOR EACH ROW EXECUTE FUNCTION refuse_removal();
"""
FUNCTION = """
CREATE FUNCTION refuse_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.id = OLD.id THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'rows of % are referred to and stay: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
"""
REMOVE = """
DROP TRIGGER definition_is_never_removed ON ledger_definition;
DROP TRIGGER team_is_never_removed ON team;
DROP FUNCTION refuse_removal();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
        ('ledger', '0003_step_identities'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(FUNCTION + LASTING, REMOVE),
        migrations.AlterField(
            model_name='attempt',
            name='operation',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='attempts', to='ledger.operation'),
        ),
        # Django would drop every index of this column, `one_open_attempt_per_step` with it.
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(f"DROP INDEX {STEP_KEY}", f"CREATE INDEX {STEP_KEY} ON ledger_attempt (step_id)")],
            state_operations=[
                migrations.AlterField(
                    model_name='attempt',
                    name='step',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='attempts', to='ledger.step'),
                ),
            ],
        ),
        migrations.AlterField(
            model_name='evidence',
            name='attempt',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='evidence', to='ledger.attempt'),
        ),
        migrations.AlterField(
            model_name='evidence',
            name='operation',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='evidence', to='ledger.operation'),
        ),
        migrations.AlterField(
            model_name='evidence',
            name='step',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='evidence', to='ledger.step'),
        ),
        migrations.AlterField(
            model_name='heldreference',
            name='destination',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definition'),
        ),
        migrations.AlterField(
            model_name='heldreference',
            name='step',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='held_references', to='ledger.step'),
        ),
        migrations.AlterField(
            model_name='operation',
            name='first_event',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.event'),
        ),
        migrations.AlterField(
            model_name='operation',
            name='owner',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='operation',
            name='team',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
        ),
        migrations.AlterField(
            model_name='operation',
            name='workflow_version',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definitionversion'),
        ),
        migrations.AlterField(
            model_name='step',
            name='destination',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definition'),
        ),
        migrations.AlterField(
            model_name='step',
            name='destination_version',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definitionversion'),
        ),
        migrations.AlterField(
            model_name='step',
            name='operation',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='steps', to='ledger.operation'),
        ),
        migrations.AlterField(
            model_name='step',
            name='team',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
        ),
        migrations.AlterField(
            model_name='steprequest',
            name='step',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='requests', to='ledger.step'),
        ),
    ]
