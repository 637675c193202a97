"""A proposed answer names a hold, a team and a person that are there: foreign keys, as every other relation to a hold has.

Without a transaction of its own: a key is added NOT VALID, which looks at no row and holds both tables for a moment, the named one
first, as the product does; then the rows are looked at while holds and proposals are written. Each part may be run again.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# For each key its table and its name, as Django names it.
KEYS = {
    'team_id': ('team', 'ledger_proposal_team_id_fd35b7f5_fk_team_id'),
    'hold_id': ('ledger_hold', 'ledger_proposal_hold_id_14e5b763_fk_ledger_hold_id'),
    'proposer_person_id': ('person', 'ledger_proposal_proposer_person_id_cd1789a4_fk_person_id'),
}

ADD = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'ledger_proposal'::regclass AND conname = '{name}') THEN
        LOCK TABLE {parent}, ledger_proposal IN SHARE ROW EXCLUSIVE MODE;
        ALTER TABLE ledger_proposal ADD CONSTRAINT {name}
            FOREIGN KEY ({column}) REFERENCES {parent} (id) DEFERRABLE INITIALLY DEFERRED NOT VALID;
    END IF;
END
$$;
"""
REMOVE = """
LOCK TABLE {parent}, ledger_proposal IN ACCESS EXCLUSIVE MODE; ALTER TABLE ledger_proposal DROP CONSTRAINT IF EXISTS {name};
"""
VALIDATE = 'ALTER TABLE ledger_proposal VALIDATE CONSTRAINT {name}'


def _added(column, parent, name):
    return migrations.RunSQL(
        ADD.format(column=column, parent=parent, name=name), REMOVE.format(parent=parent, name=name)
    )


def _key(name, **more):
    return migrations.AlterField(
        model_name='proposal',
        name=name,
        field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, **more),
    )


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0030_never_truncated'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # Django would look at all rows while it holds both tables.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                *[_added(column, parent, name) for column, (parent, name) in KEYS.items()],
                *[migrations.RunSQL(VALIDATE.format(name=name), migrations.RunSQL.noop) for _, name in KEYS.values()],
            ],
            state_operations=[
                _key('team', to='accounts.team'),
                _key('hold', related_name='proposals', to='ledger.hold'),
                _key('proposer_person', null=True, related_name='+', to=settings.AUTH_USER_MODEL),
            ],
        ),
    ]
