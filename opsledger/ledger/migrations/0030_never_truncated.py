"""What is kept is not emptied at once either: TRUNCATE passes by every trigger that looks after single rows.

`STAYING` is each table that no earlier migration looks after, but those whose rows may go by themselves (settings that people
remove, what was told long ago, signs of life): tests/ledger/test_rows_that_stay.py lists these and compares with the models.

Without a transaction of its own: each trigger is a statement that holds its table for a moment, and may be made again.
"""

from django.db import migrations

STAYING = (
    'person', 'team', 'api_token', 'absence', 'journal_text',
    'ledger_definition', 'ledger_definitionversion', 'ledger_destination', 'ledger_recovery', 'ledger_sendingswitch',
    'ledger_event', 'ledger_rawbody', 'ledger_delivery', 'ledger_refusal',
    'ledger_operationparams', 'ledger_operationevent', 'ledger_heldreference', 'ledger_hold', 'ledger_proposal',
    'ledger_content', 'ledger_contentversion', 'ledger_revision', 'ledger_approval', 'ledger_approvedrequest', 'ledger_rejection',
    'ledger_incident', 'ledger_incidentact', 'ledger_incidentnote',
    'ledger_selection', 'ledger_selectionitem', 'ledger_bulkrun', 'ledger_bulkitem',
    'ledger_referencelist', 'ledger_readreference', 'ledger_providerstatement', 'ledger_statementcover',
    'ledger_replay', 'ledger_replaydestination', 'ledger_replayitem',
    'ledger_channel', 'ledger_noticechoice',
)  # fmt: skip

REFUSE = """
CREATE OR REPLACE FUNCTION refuse_emptying() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % stay: TRUNCATE refused, nothing was removed', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END
$$;
"""
STAYS = """
CREATE OR REPLACE TRIGGER {name}_is_never_truncated BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_emptying();
"""


def _stays(table):
    name = table.removeprefix('ledger_')
    return migrations.RunSQL(
        STAYS.format(name=name, table=table), f'DROP TRIGGER IF EXISTS {name}_is_never_truncated ON {table}'
    )


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('accounts', '0002_absences'),
        ('journal', '0006_content_subject_validated'),
        ('ledger', '0029_keys_per_statement'),
    ]

    operations = [
        migrations.RunSQL(REFUSE, 'DROP FUNCTION IF EXISTS refuse_emptying()'),
        *[_stays(table) for table in STAYING],
    ]
