"""What happens to a hold when nobody acts, and what people are told, by which way."""

import datetime
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import opsledger.lib.ids
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_absences'),
        ('ledger', '0011_incidents_indexed'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('scheme', models.TextField()),
                ('host', models.TextField()),
                ('sealed', models.BinaryField()),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ('every_minutes', models.IntegerField(default=5)),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('removed_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Mailing',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('is_test', models.BooleanField(default=False)),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('state', models.TextField(default='waiting')),
                ('tries', models.IntegerField(default=0)),
                ('try_at', models.DateTimeField(null=True)),
                ('lease_ends_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('in_doubt', models.BooleanField(default=False)),
                ('said', models.TextField(default='')),
            ],
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('kind', models.TextField()),
                ('count', models.IntegerField(default=1)),
                ('facts', models.TextField(default='{}')),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('read_at', models.DateTimeField(null=True)),
                ('send_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='NoticeChoice',
            fields=[
                ('person', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, serialize=False, to=settings.AUTH_USER_MODEL)),
                ('mail_on', models.BooleanField(default=True)),
                ('every_minutes', models.IntegerField(default=5)),
                ('muted_at', models.DateTimeField(null=True)),
                ('muted_until', models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name='hold',
            name='escalate_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='hold',
            name='escalated_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='hold',
            name='reminded_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='hold',
            name='told_at',
            field=models.DateTimeField(null=True),
        ),
        AddConstraintNotValid(
            model_name='hold',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('escalate_at__isnull', True), ('reminded_at__isnull', True)), models.Q(('escalate_at__isnull', False), ('reminded_at__isnull', False)), _connector='OR'), name='hold_escalation_is_set_by_its_reminder'),
        ),
        AddConstraintNotValid(
            model_name='hold',
            constraint=models.CheckConstraint(condition=models.Q(('escalated_at__isnull', True), ('reminded_at__isnull', False), _connector='OR'), name='hold_escalates_only_after_a_reminder'),
        ),
        migrations.AddField(
            model_name='channel',
            name='made_by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='channel',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.team'),
        ),
        migrations.AddField(
            model_name='mailing',
            name='channel',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='mailings', to='ledger.channel'),
        ),
        migrations.AddField(
            model_name='mailing',
            name='person',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='mailing',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.team'),
        ),
        migrations.AddField(
            model_name='notice',
            name='channel',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.channel'),
        ),
        migrations.AddField(
            model_name='notice',
            name='hold',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.hold'),
        ),
        migrations.AddField(
            model_name='notice',
            name='mailing',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='notices', to='ledger.mailing'),
        ),
        migrations.AddField(
            model_name='notice',
            name='person',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='notice',
            name='replay',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.replay'),
        ),
        migrations.AddField(
            model_name='notice',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.team'),
        ),
        migrations.AddConstraint(
            model_name='noticechoice',
            constraint=models.CheckConstraint(condition=models.Q(('every_minutes__gte', 1), ('every_minutes__lte', 60)), name='person_is_told_within_the_hour'),
        ),
        migrations.AddConstraint(
            model_name='noticechoice',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('muted_at__isnull', True), ('muted_until__isnull', True)), models.Q(('muted_at__isnull', False), ('muted_until__lte', django.db.models.expressions.CombinedExpression(models.F('muted_at'), '+', models.Value(datetime.timedelta(days=7))))), _connector='OR'), name='mute_ends_within_seven_days'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('scheme', ''), _negated=True)), name='channel_has_a_name'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('kinds__contained_by', ['assigned', 'approval', 'reminder', 'escalated', 'disputed', 'destination_stopped', 'replay_ended', 'owner_gone']), ('kinds__len__gt', 0)), name='channel_is_told_something'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('every_minutes__gte', 1), ('every_minutes__lte', 60)), name='channel_is_told_within_the_hour'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(condition=models.Q(('removed_at__isnull', True)), fields=('team', 'name'), name='channel_name_is_unique_in_its_team'),
        ),
        migrations.AddIndex(
            model_name='mailing',
            index=models.Index(condition=models.Q(('state', 'waiting')), fields=['try_at'], name='mailing_to_try'),
        ),
        migrations.AddIndex(
            model_name='mailing',
            index=models.Index(condition=models.Q(('state', 'sending')), fields=['lease_ends_at'], name='mailing_leases'),
        ),
        migrations.AddIndex(
            model_name='mailing',
            index=models.Index(condition=models.Q(('channel__isnull', False)), fields=['channel', '-id'], name='mailing_of_channel'),
        ),
        migrations.AddIndex(
            model_name='mailing',
            index=models.Index(condition=models.Q(('person__isnull', False)), fields=['person', '-id'], name='mailing_of_person'),
        ),
        migrations.AddConstraint(
            model_name='mailing',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('channel__isnull', False), ('person__isnull', True)), models.Q(('channel__isnull', True), ('person__isnull', False)), _connector='OR'), name='mailing_has_one_addressee'),
        ),
        migrations.AddConstraint(
            model_name='mailing',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('lease_ends_at__isnull', True), ('state', 'waiting'), ('try_at__isnull', False)), models.Q(('ended_at__isnull', True), ('lease_ends_at__isnull', False), ('state', 'sending'), ('tries__gte', 1), ('try_at__isnull', True)), models.Q(('ended_at__isnull', False), ('lease_ends_at__isnull', True), ('state__in', ['failed', 'sent', 'unknown']), ('try_at__isnull', True)), _connector='OR'), name='mailing_waits_is_sent_or_has_ended'),
        ),
        migrations.AddConstraint(
            model_name='mailing',
            constraint=models.CheckConstraint(condition=models.Q(('tries__gte', 0), ('tries__lte', 3)), name='mailing_is_tried_so_often_at_most'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('person__isnull', False)), fields=['person', 'team', '-id'], name='notice_of_person'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('person__isnull', False), ('read_at__isnull', True)), fields=['person', 'team'], name='notice_unread'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('send_at__isnull', False)), fields=['send_at'], name='notice_to_send'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('mailing__isnull', False)), fields=['mailing'], name='notice_of_mailing'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('channel__isnull', False), ('person__isnull', True)), models.Q(('channel__isnull', True), ('person__isnull', False)), _connector='OR'), name='notice_has_one_addressee'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['assigned', 'approval', 'reminder', 'escalated', 'disputed', 'destination_stopped', 'replay_ended', 'owner_gone'])), name='notice_kind_is_known'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(('count', 1), models.Q(('count__gt', 1), ('hold__isnull', True), ('replay__isnull', True)), _connector='OR'), name='notice_names_one_hold_or_counts_several'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.CheckConstraint(condition=models.Q(('send_at__isnull', True), ('mailing__isnull', True), _connector='OR'), name='notice_waits_or_was_sent'),
        ),
    ]
