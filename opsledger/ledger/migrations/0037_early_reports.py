"""What events tell of the final effect of records that no step is known to have made: kept until somebody records them."""

import django.db.models.deletion
import opsledger.lib.ids
from django.db import migrations, models

STAYS = """
CREATE TRIGGER earlyreport_is_never_truncated BEFORE TRUNCATE ON ledger_earlyreport
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_absences'),
        ('ledger', '0036_replaced_once'),
    ]

    operations = [
        migrations.CreateModel(
            name='EarlyReport',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('action', models.TextField()),
                ('reference', models.TextField()),
                ('reference_key', models.BinaryField(max_length=32)),
                ('says', models.TextField()),
                ('occurred_at', models.DateTimeField(null=True)),
                ('told_at', models.DateTimeField()),
                ('destination', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definition')),
                ('event', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.event')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='accounts.team')),
            ],
            options={
                'indexes': [models.Index(fields=['destination', 'action', 'reference_key'], name='early_report_of_a_record'), models.Index(fields=['team', 'destination', '-id'], name='early_report_newest_first'), models.Index(fields=['told_at'], name='early_report_by_age')],
                'constraints': [models.UniqueConstraint(fields=('event', 'destination', 'action'), name='early_report_is_kept_once_per_event'), models.CheckConstraint(condition=models.Q(('says__in', ['delivered', 'not_delivered'])), name='early_report_is_of_a_final_effect')],
            },
        ),
        migrations.RunSQL(STAYS, 'DROP TRIGGER earlyreport_is_never_truncated ON ledger_earlyreport'),
    ]
