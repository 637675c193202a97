"""Incidents, and the column that gives a hold to one. The indexes over all holds come apart, without blocking anybody."""

import django.db.models.deletion
import opsledger.lib.ids
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
        ('ledger', '0009_lists'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='IncidentAct',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('acted_at', models.DateTimeField()),
                ('newest_hold', models.UUIDField()),
            ],
        ),
        migrations.CreateModel(
            name='IncidentNote',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('actor', models.TextField()),
                ('written_at', models.DateTimeField()),
                ('note', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='Incident',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('destination_slug', models.TextField()),
                ('action', models.TextField()),
                ('reason', models.TextField()),
                ('started_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
                ('hold_count', models.IntegerField()),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='accounts.team')),
            ],
        ),
        migrations.AddField(
            model_name='hold',
            name='incident',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='holds', to='ledger.incident'),
        ),
        AddConstraintNotValid(
            model_name='hold',
            constraint=models.CheckConstraint(condition=models.Q(('incident__isnull', True), ('step__isnull', False), _connector='OR'), name='hold_of_incident_is_about_a_step'),
        ),
        migrations.AddField(
            model_name='incidentact',
            name='incident',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='acts', to='ledger.incident'),
        ),
        migrations.AddField(
            model_name='incidentact',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='incidentnote',
            name='incident',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='notes', to='ledger.incident'),
        ),
        migrations.AddIndex(
            model_name='incident',
            index=models.Index(fields=['team', 'destination_slug', 'action', 'reason', 'last_at'], name='incident_of_group'),
        ),
        migrations.AddConstraint(
            model_name='incident',
            constraint=models.CheckConstraint(condition=models.Q(('reason__in', ['outcome_unknown', 'protection_expired', 'integrity_alarm', 'record_differs', 'duplicate_found', 'disputed', 'rejected_by_destination', 'attempts_exhausted', 'nobody_claimed', 'too_late', 'delivery_not_proven', 'delivery_failed', 'data_missing', 'approval_needed', 'access_refused', 'paused', 'circuit_open', 'event_conflict'])), name='incident_reason_is_known'),
        ),
        migrations.AddConstraint(
            model_name='incident',
            constraint=models.CheckConstraint(condition=models.Q(('last_at__gte', models.F('started_at'))), name='incident_ends_after_it_began'),
        ),
        migrations.AddConstraint(
            model_name='incident',
            constraint=models.CheckConstraint(condition=models.Q(('hold_count__gte', 1)), name='incident_has_a_hold'),
        ),
        migrations.AddConstraint(
            model_name='incidentact',
            constraint=models.UniqueConstraint(fields=('incident', 'person'), name='one_last_act_per_incident_and_person'),
        ),
        migrations.AddIndex(
            model_name='incidentnote',
            index=models.Index(fields=['incident', 'id'], name='incident_note_by_age'),
        ),
    ]
