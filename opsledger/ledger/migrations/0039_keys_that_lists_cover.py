"""Drops the indexes of keys whose column another index of the same table begins with or is.

They were written beside it for nothing, and PostgreSQL 15 read by them what the longer one finds at once: all
incidents of a team instead of those of a group. Dropped without stopping writes; what was interrupted may be run again.
"""

import django.db.models.deletion
from django.db import migrations, models

COVERED = (
    ("ledger_approval", "content_version_id", "ledger_approval_content_version_id_dac07c9f"),
    ("ledger_approval", "team_id", "ledger_approval_team_id_cc97824b"),
    ("ledger_approvedrequest", "step_id", "ledger_approvedrequest_step_id_4b15b231"),
    ("ledger_content", "team_id", "ledger_content_team_id_493c8aa2"),
    ("ledger_contentversion", "team_id", "ledger_contentversion_team_id_a5df33a5"),
    ("ledger_definition", "team_id", "ledger_definition_team_id_17b56182"),
    ("ledger_definitionversion", "definition_id", "ledger_definitionversion_definition_id_6a948b30"),
    ("ledger_destination", "team_id", "ledger_destination_team_id_7b9c626a"),
    ("ledger_event", "source_id", "ledger_event_source_id_aad04b20"),
    ("ledger_event", "team_id", "ledger_event_team_id_83920111"),
    ("ledger_hold", "operation_id", "ledger_hold_operation_id_331997ad"),
    ("ledger_incident", "team_id", "ledger_incident_team_id_25055c5e"),
    ("ledger_incidentact", "incident_id", "ledger_incidentact_incident_id_71bbe054"),
    ("ledger_operationevent", "operation_id", "ledger_operationevent_operation_id_a2e1e3a0"),
    ("ledger_rawbody", "source_id", "ledger_rawbody_source_id_db791eaf"),
    ("ledger_recovery", "destination_id", "ledger_recovery_destination_id_02d6b019"),
    ("ledger_replay", "team_id", "ledger_replay_team_id_df0d17d8"),
    ("ledger_revision", "step_id", "ledger_revision_step_id_8eae59f2"),
)
DROP = [f"DROP INDEX CONCURRENTLY IF EXISTS {name}" for _, _, name in COVERED]
CREATE = [f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table} ({column})" for table, column, name in COVERED]


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('accounts', '0003_tokens_stay'),
        ('ledger', '0038_what_never_changes'),
    ]

    operations = [
        # Django would drop every index of these columns, and look at each row's key again.
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(DROP, CREATE)],
            state_operations=[
                migrations.AlterField(
                    model_name='approval',
                    name='content_version',
                    field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='approvals', to='ledger.contentversion'),
                ),
                migrations.AlterField(
                    model_name='approval',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='approvedrequest',
                    name='step',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='approved_requests', to='ledger.step'),
                ),
                migrations.AlterField(
                    model_name='hold',
                    name='operation',
                    field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='holds', to='ledger.operation'),
                ),
                migrations.AlterField(
                    model_name='content',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='contentversion',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='definition',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='definitionversion',
                    name='definition',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='ledger.definition'),
                ),
                migrations.AlterField(
                    model_name='destination',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='event',
                    name='source',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definition'),
                ),
                migrations.AlterField(
                    model_name='event',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='incident',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='incidentact',
                    name='incident',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='acts', to='ledger.incident'),
                ),
                migrations.AlterField(
                    model_name='operationevent',
                    name='operation',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='event_links', to='ledger.operation'),
                ),
                migrations.AlterField(
                    model_name='rawbody',
                    name='source',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definition'),
                ),
                migrations.AlterField(
                    model_name='recovery',
                    name='destination',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='recoveries', to='ledger.destination'),
                ),
                migrations.AlterField(
                    model_name='replay',
                    name='team',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
                ),
                migrations.AlterField(
                    model_name='revision',
                    name='step',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='revisions', to='ledger.step'),
                ),
            ],
        ),
    ]
