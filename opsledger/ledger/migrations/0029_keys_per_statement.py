"""The keys of hot rows are looked up once for a statement, not once for a row (docs/decisions/0030-keys-per-statement.md).

1. Operations, steps and attempts stay: they are neither removed nor renumbered nor truncated.
2. A statement that adds rows ends by looking up what they name, and what a row names never changes.
3. Only then do the foreign keys go that did this row by row.

Without a transaction of its own: each part is a statement list that PostgreSQL takes whole or not at all, holds its locks for
a moment, and may be run again when it gave up waiting for one. A parent is locked before its children, as the product does.
"""

import django.db.models.deletion
from django.db import migrations, models


PARENTS = ('operation', 'step', 'attempt')

# Per table: the trigger that looks its keys up, and for each key its parent and the foreign key that goes, as Django named it.
KEYS = {
    'operationparams': (
        'params_belong_to_an_operation',
        {'operation': ('operation', 'ledger_operationpara_operation_id_b367614b_fk_ledger_op')},
    ),
    'step': (
        'step_belongs_to_an_operation',
        {'operation': ('operation', 'ledger_step_operation_id_e2cba9ef_fk_ledger_operation_id')},
    ),
    'steprequest': (
        'request_belongs_to_a_step',
        {'step': ('step', 'ledger_steprequest_step_id_38ec15cb_fk_ledger_step_id')},
    ),
    'attempt': (
        'attempt_belongs_to_a_step',
        {
            'operation': ('operation', 'ledger_attempt_operation_id_17496d15_fk_ledger_operation_id'),
            'step': ('step', 'ledger_attempt_step_id_482839ce_fk_ledger_step_id'),
        },
    ),
    'evidence': (
        'evidence_is_about_what_is_there',
        {
            'operation': ('operation', 'ledger_evidence_operation_id_4d6f96a2_fk_ledger_operation_id'),
            'step': ('step', 'ledger_evidence_step_id_3fbf0352_fk_ledger_step_id'),
            'attempt': ('attempt', 'ledger_evidence_attempt_id_15e61efb_fk_ledger_attempt_id'),
        },
    ),
    'heldreference': (
        'reference_is_held_by_a_step',
        {'step': ('step', 'ledger_heldreference_step_id_9bd5cb5b_fk_ledger_step_id')},
    ),
    'rejection': ('rejection_is_of_a_step', {'step': ('step', None)}),  # had none
}

# Rows of the other tables are frozen already.
STAYING = {
    'operationparams': ('params_stay_with_their_operation', ('operation',)),
    'step': ('step_stays_in_its_operation', ('operation',)),
    'attempt': ('attempt_stays_with_its_step', ('operation', 'step')),
    'heldreference': ('reference_stays_with_its_step', ('step',)),
    'rejection': ('rejection_stays_with_its_step', ('step',)),
}
FROZEN = {'steprequest': 'request_is_never_truncated', 'evidence': 'evidence_is_never_truncated'}

REFUSE_MOVE = """
CREATE OR REPLACE FUNCTION refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row of % stays with what it belongs to: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END
$$;
"""

# What refuses a change looks after it, not before: a trigger before an update locks each row once more, whatever changes in it.
LASTING = """
CREATE OR REPLACE TRIGGER {parent}_is_never_removed BEFORE DELETE ON ledger_{parent}
    FOR EACH ROW EXECUTE FUNCTION refuse_removal();
CREATE OR REPLACE TRIGGER {parent}_is_never_renumbered AFTER UPDATE OF id ON ledger_{parent}
    FOR EACH ROW WHEN (OLD.id IS DISTINCT FROM NEW.id) EXECUTE FUNCTION refuse_removal();
CREATE OR REPLACE TRIGGER {parent}_is_never_truncated BEFORE TRUNCATE ON ledger_{parent}
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
"""
NOT_LASTING = """
DROP TRIGGER IF EXISTS {parent}_is_never_truncated ON ledger_{parent};
DROP TRIGGER IF EXISTS {parent}_is_never_renumbered ON ledger_{parent};
DROP TRIGGER IF EXISTS {parent}_is_never_removed ON ledger_{parent};
"""
NEVER_TRUNCATED = """
CREATE OR REPLACE TRIGGER {name} BEFORE TRUNCATE ON ledger_{table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
"""

# The subquery is a value, which the planner can't turn into a join: each key is found by its index, whatever the tables' sizes
# were when the plan was made that a session keeps.
ORPHANED = "a.{key}_id IS NOT NULL AND (SELECT p.id FROM ledger_{parent} p WHERE p.id = a.{key}_id) IS NULL"
FIRST = "SELECT '{key}_id' AS key, a.{key}_id AS id, 'ledger_{parent}' AS parent FROM added a WHERE {orphaned}"
LOOKED_UP = """
CREATE OR REPLACE FUNCTION refuse_orphaned_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE lost record;
BEGIN
    IF EXISTS (SELECT FROM added a WHERE {any_orphaned}) THEN
        SELECT * INTO lost FROM ({all_orphaned}) orphan LIMIT 1;
        RAISE EXCEPTION '% of % names a row of % that is not there: nothing of this statement was written',
                lost.key, TG_TABLE_NAME, lost.parent
            USING ERRCODE = 'foreign_key_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = lost.key,
                  CONSTRAINT = TG_NAME, DETAIL = format('Key (%s)=(%s) is not present in table "%s".', lost.key, lost.id, lost.parent);
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER {trigger} AFTER INSERT ON ledger_{table} REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_orphaned_{table}();
"""
NOT_LOOKED_UP = """
DROP TRIGGER IF EXISTS {trigger} ON ledger_{table};
DROP FUNCTION IF EXISTS refuse_orphaned_{table}();
"""
STAYS = """
CREATE OR REPLACE TRIGGER {name} AFTER UPDATE OF {columns} ON ledger_{table}
    FOR EACH ROW WHEN ({moved}) EXECUTE FUNCTION refuse_move();
"""
FOREIGN_KEY = "FOREIGN KEY ({key}_id) REFERENCES ledger_{parent} (id) DEFERRABLE INITIALLY DEFERRED"


def _lasting(parent):
    return migrations.RunSQL(LASTING.format(parent=parent), NOT_LASTING.format(parent=parent))


def _never_truncated(table, name):
    return migrations.RunSQL(
        NEVER_TRUNCATED.format(table=table, name=name), f'DROP TRIGGER IF EXISTS {name} ON ledger_{table}'
    )


def _looked_up(table, trigger, keys):
    orphaned = {
        (key, parent): ORPHANED.format(key=key, parent=parent) for key, (parent, _) in keys.items()
    }
    return migrations.RunSQL(
        LOOKED_UP.format(
            table=table,
            trigger=trigger,
            any_orphaned=' OR '.join(f'({one})' for one in orphaned.values()),
            all_orphaned=' UNION ALL '.join(
                FIRST.format(key=key, parent=parent, orphaned=one) for (key, parent), one in orphaned.items()
            ),
        ),
        NOT_LOOKED_UP.format(table=table, trigger=trigger),
    )


def _stays(table, name, keys):
    return migrations.RunSQL(
        STAYS.format(
            table=table,
            name=name,
            columns=', '.join(f'{key}_id' for key in keys),
            moved=' OR '.join(f'OLD.{key}_id IS DISTINCT FROM NEW.{key}_id' for key in keys),
        ),
        f'DROP TRIGGER IF EXISTS {name} ON ledger_{table}',
    )


def _foreign_keys_go(table, keys):
    """Back again they are validated apart, while the product goes on writing."""
    foreign = {key: (parent, name) for key, (parent, name) in keys.items() if name}
    parents = [parent for parent in PARENTS if parent in {one for one, _ in foreign.values()}]
    lock = f"LOCK TABLE {', '.join(f'ledger_{one}' for one in (*parents, table))} IN ACCESS EXCLUSIVE MODE"
    dropped = ', '.join(f'DROP CONSTRAINT IF EXISTS {name}' for _, name in foreign.values())
    drop = f'ALTER TABLE ledger_{table} {dropped}'
    add = ', '.join(
        f'ADD CONSTRAINT {name} {FOREIGN_KEY.format(key=key, parent=parent)} NOT VALID'
        for key, (parent, name) in foreign.items()
    )
    validate = [f'ALTER TABLE ledger_{table} VALIDATE CONSTRAINT {name}' for _, name in foreign.values()]
    return migrations.RunSQL(
        [f'{lock}; {drop};'],
        [f'{lock}; {drop}; ALTER TABLE ledger_{table} {add};', *validate],
    )


def _unconstrained(model_name, name, **more):
    kind = models.OneToOneField if more.get('primary_key') else models.ForeignKey
    field = kind(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, **more)
    return migrations.AlterField(model_name=model_name, name=name, field=field)


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0028_whole_references_unindexed'),
    ]

    operations = [
        *[_lasting(parent) for parent in PARENTS],
        *[_never_truncated(table, name) for table, name in FROZEN.items()],
        migrations.RunSQL(REFUSE_MOVE, 'DROP FUNCTION IF EXISTS refuse_move()'),
        *[_stays(table, name, keys) for table, (name, keys) in STAYING.items()],
        *[_looked_up(table, trigger, keys) for table, (trigger, keys) in KEYS.items()],
        # Django would lock tables one by one, and would have the foreign keys back only after reading all rows.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                _foreign_keys_go(table, keys)
                for table, (_, keys) in KEYS.items()
                if any(name for _, name in keys.values())
            ],
            state_operations=[
                _unconstrained('operationparams', 'operation', primary_key=True, serialize=False, related_name='params_row', to='ledger.operation'),
                _unconstrained('step', 'operation', db_index=False, related_name='steps', to='ledger.operation'),
                _unconstrained('steprequest', 'step', db_index=False, related_name='requests', to='ledger.step'),
                _unconstrained('attempt', 'operation', db_index=False, related_name='attempts', to='ledger.operation'),
                _unconstrained('attempt', 'step', db_index=False, related_name='attempts', to='ledger.step'),
                _unconstrained('evidence', 'operation', db_index=False, related_name='evidence', to='ledger.operation'),
                _unconstrained('evidence', 'step', null=True, db_index=False, related_name='evidence', to='ledger.step'),
                _unconstrained('evidence', 'attempt', null=True, db_index=False, related_name='evidence', to='ledger.attempt'),
                _unconstrained('heldreference', 'step', db_index=False, related_name='held_references', to='ledger.step'),
            ],
        ),
    ]
