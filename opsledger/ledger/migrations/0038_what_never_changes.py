"""What a row was recorded with never changes, and a trigger refuses who tries (opsledger/ledger/column_words.py).

A trigger looks only where a statement names one of its columns, and after the change: one that looks before an update locks
each row once more. No statement of the hot ones names any of them.

Without a transaction of its own: each trigger is a statement that PostgreSQL takes whole or not at all, locks one table for a
moment, and may be run again when it gave up waiting for it.
"""

from django.db import migrations

REFUSE_REWRITE = """
CREATE OR REPLACE FUNCTION refuse_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what a row of % was recorded with never changes: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END
$$;
"""
STAYS = """
CREATE OR REPLACE TRIGGER {name} AFTER UPDATE OF {columns} ON {table}
    FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refuse_rewrite();
"""

ALWAYS = 'true'
# Per trigger: its table, its columns, and of which rows.
TRIGGERS = {
    'operation_stays_as_recorded': (
        'ledger_operation',
        'team_id operation_id title workflow_version_id workflow_slug digest owner_id first_event_id replaces_id created_at'
        ' step_count',
        ALWAYS,
    ),
    'operation_keeps_its_content': ('ledger_operation', 'content_id', 'OLD.content_id IS NOT NULL'),
    'params_stay_as_recorded': ('ledger_operationparams', 'params', ALWAYS),
    'event_of_an_operation_stays': ('ledger_operationevent', 'id operation_id event_id added_at', ALWAYS),
    'event_that_started_an_operation_stays_so': ('ledger_operationevent', 'started', 'OLD.started'),
    'step_stays_as_recorded': (
        'ledger_step',
        'team_id number name identity title destination_id destination_slug action performer',
        ALWAYS,
    ),
    # A replay may choose a newer definition for what was neither rendered nor tried.
    'step_keeps_its_definition': (
        'ledger_step',
        'destination_version_id',
        'OLD.request_digest IS NOT NULL OR OLD.attempt_count > 0',
    ),
    'attempt_stays_with_its_worker': ('ledger_attempt', 'worker', ALWAYS),
    'evidence_stays_as_received': (
        'ledger_evidence', 'id occurred_at sentence facts content late', ALWAYS
    ),
    'hold_stays_with_its_question': (
        'ledger_hold',
        'team_id operation_id step_id destination_id event_id reason title operation_text_id destination_slug action'
        ' workflow_slug',
        ALWAYS,
    ),
    'hold_that_ended_stays_ended': ('ledger_hold', 'closed_at closed_by answer', 'OLD.closed_at IS NOT NULL'),
    'event_stays_as_received': (
        'ledger_event', 'id team_id source_id event_id event_key received_at', ALWAYS
    ),
    # One that was only named is filled in by its first delivery.
    'event_keeps_its_body': (
        'ledger_event',
        'source_version_id digest topic occurred_at occurred_text occurred_flagged projection',
        "OLD.digest <> decode(repeat('00', 32), 'hex')",
    ),
    'delivery_stays_as_received': (
        'ledger_delivery', 'id event_id received_at body_id secret_name conflict', ALWAYS
    ),
    # Deliveries of earlier releases are given the digests of their bodies when they are asked about.
    'delivery_keeps_its_digest': ('ledger_delivery', 'digest', 'OLD.digest IS NOT NULL'),
    'delivery_keeps_its_question': ('ledger_delivery', 'hold_id', 'OLD.hold_id IS NOT NULL'),
    'early_report_stays_as_told': (
        'ledger_earlyreport',
        'id team_id event_id destination_id action reference reference_key says occurred_at told_at',
        ALWAYS,
    ),
    'definition_keeps_its_name': ('ledger_definition', 'team_id kind slug', ALWAYS),
    'destination_keeps_its_name': ('ledger_destination', 'definition_id team_id slug', ALWAYS),
    'recovery_stays_with_its_action': ('ledger_recovery', 'id destination_id action', ALWAYS),
    'content_keeps_its_name': ('ledger_content', 'id team_id content_id created_at', ALWAYS),
    'rejection_stays_as_made': (
        'ledger_rejection',
        'id team_id content_version_id revision rejected_by_id rejected_at rejected_count',
        ALWAYS,
    ),
    'bulk_run_stays_as_begun': (
        'ledger_bulkrun', 'id team_id selection_id person_id actor verb facts once item_count made_at', ALWAYS
    ),
    'replay_stays_as_started': (
        'ledger_replay',
        'id team_id name scope plan_digest statement_id actor started_by_id started_at stop_after item_count',
        ALWAYS,
    ),
    'replay_keeps_its_reason': ('ledger_replay', 'reason', "OLD.reason <> ''"),
    'replay_keeps_its_pace': (
        'ledger_replaydestination', 'id replay_id destination_id slug per_second', ALWAYS
    ),
}  # fmt: skip


def _stays(name, table, columns, of_rows):
    changed = ' OR '.join(f'OLD.{one} IS DISTINCT FROM NEW.{one}' for one in columns.split())
    when = changed if of_rows == ALWAYS else f'({of_rows}) AND ({changed})'
    return migrations.RunSQL(
        STAYS.format(name=name, table=table, columns=', '.join(columns.split()), when=when),
        f'DROP TRIGGER IF EXISTS {name} ON {table}',
    )


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0037_early_reports'),
    ]

    operations = [
        migrations.RunSQL(REFUSE_REWRITE, 'DROP FUNCTION IF EXISTS refuse_rewrite()'),
        *[_stays(name, *what) for name, what in TRIGGERS.items()],
    ]
