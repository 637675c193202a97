"""Content versions with their decisions, revisions of requests, and approvals of exactly what is sent."""

import django.db.models.deletion
import opsledger.lib.ids
import opsledger.rules.content
import uuid
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


REFUSALS = """
CREATE TRIGGER content_version_is_immutable BEFORE UPDATE OF id, team_id, of_id, content_id, workflow_id, number, digest, body,
    author_kind, author, author_person_id, origin, requested_by, requested_by_person_id, client_key, created_at
    OR DELETE ON ledger_contentversion FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER revision_is_kept BEFORE UPDATE OR DELETE ON ledger_revision
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER approval_is_kept BEFORE UPDATE OR DELETE ON ledger_approval
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER approved_request_is_kept BEFORE UPDATE OF id, approval_id, step_id, revision, request_digest, approved_until
    OR DELETE ON ledger_approvedrequest FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER void_approval_stays_void BEFORE UPDATE ON ledger_approvedrequest
    FOR EACH ROW WHEN (OLD.voided_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

-- A decision over content, and an approval of a request, come only with a line of the journal. Checked at commit.
CREATE FUNCTION refuse_unjournaled_content() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM journal_chain c JOIN journal_entry e ON e.subject_id = c.subject_id AND e.seq = c.length
      WHERE c.subject_id = NEW.of_id AND e.at = now();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'content % changed without a line in the journal: refused', NEW.of_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER content_version_state_is_journaled AFTER INSERT OR UPDATE ON ledger_contentversion
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_unjournaled_content();
CREATE CONSTRAINT TRIGGER step_approval_is_journaled AFTER UPDATE ON ledger_step
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.approved_digest IS DISTINCT FROM NEW.approved_digest OR OLD.revision IS DISTINCT FROM NEW.revision)
    EXECUTE FUNCTION refuse_unjournaled();
"""

REMOVE = """
DROP TRIGGER step_approval_is_journaled ON ledger_step;
DROP TRIGGER content_version_state_is_journaled ON ledger_contentversion;
DROP FUNCTION refuse_unjournaled_content();
DROP TRIGGER void_approval_stays_void ON ledger_approvedrequest;
DROP TRIGGER approved_request_is_kept ON ledger_approvedrequest;
DROP TRIGGER approval_is_kept ON ledger_approval;
DROP TRIGGER revision_is_kept ON ledger_revision;
DROP TRIGGER content_version_is_immutable ON ledger_contentversion;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
        ('journal', '0005_content_subject'),
        ('ledger', '0004_fewer_keys'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Approval',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('revision', models.SmallIntegerField(null=True)),
                ('approved_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('covered_digest', models.TextField()),
                ('covered_count', models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='ApprovedRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('revision', models.SmallIntegerField()),
                ('request_digest', models.TextField()),
                ('approved_until', models.DateTimeField()),
                ('voided_at', models.DateTimeField(null=True)),
                ('void_reason', models.TextField(default='')),
            ],
        ),
        migrations.CreateModel(
            name='Content',
            fields=[
                ('id', models.UUIDField(default=opsledger.lib.ids.new_id, primary_key=True, serialize=False)),
                ('content_id', models.TextField()),
                ('latest_number', models.IntegerField(default=0)),
                ('target_number', models.IntegerField(null=True)),
                ('moving', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Revision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.SmallIntegerField()),
                ('kind', models.TextField(choices=[('moved', 'Moved'), ('revised', 'Revised')])),
                ('params', models.TextField(default='{}')),
                ('content_number', models.IntegerField(null=True)),
                ('author', models.TextField()),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='contentversion',
            name='author_person',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='client_key',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='decided_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='decided_by',
            field=models.TextField(default=''),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='decision_text',
            field=models.UUIDField(null=True),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='origin',
            field=models.TextField(default=''),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='requested_by',
            field=models.TextField(default=''),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='requested_by_person',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='state',
            field=models.TextField(default=opsledger.rules.content.VersionState['PROPOSED']),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='version',
            field=models.IntegerField(default=1),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='workflow',
            field=models.ForeignKey(default=uuid.UUID('00000000-0000-0000-0000-000000000000'), on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definition'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='step',
            name='approved_digest',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='step',
            name='approved_until',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='step',
            name='content_number',
            field=models.IntegerField(null=True),
        ),
        AddConstraintNotValid(
            model_name='step',
            constraint=models.CheckConstraint(condition=models.Q(('approval_needed', False), ('approved_digest__isnull', False), models.Q(('request_digest__isnull', True), models.Q(('state', 'in_flight'), _negated=True), models.Q(('act__in', ['send', 'offer']), _negated=True)), _connector='OR'), name='step_is_frozen_and_sent_only_when_approved'),
        ),
        AddConstraintNotValid(
            model_name='step',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('approved_digest__isnull', True), ('approved_until__isnull', True)), models.Q(('approved_digest__isnull', False), ('approved_until__isnull', False)), _connector='OR'), name='step_approved_iff_until_a_time'),
        ),
        AddConstraintNotValid(
            model_name='step',
            constraint=models.CheckConstraint(condition=models.Q(('revision', 1), ('approval_needed', True), _connector='OR'), name='step_revision_needs_approval'),
        ),
        migrations.AddField(
            model_name='approval',
            name='approved_by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='approval',
            name='content_version',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='approvals', to='ledger.contentversion'),
        ),
        migrations.AddField(
            model_name='approval',
            name='step',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='approvals', to='ledger.step'),
        ),
        migrations.AddField(
            model_name='approval',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
        ),
        migrations.AddField(
            model_name='approvedrequest',
            name='approval',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='requests', to='ledger.approval'),
        ),
        migrations.AddField(
            model_name='approvedrequest',
            name='step',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='approved_requests', to='ledger.step'),
        ),
        migrations.AddField(
            model_name='content',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='accounts.team'),
        ),
        migrations.AddField(
            model_name='content',
            name='workflow',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.definition'),
        ),
        migrations.AddField(
            model_name='contentversion',
            name='of',
            field=models.ForeignKey(default=uuid.UUID('00000000-0000-0000-0000-000000000000'), on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='ledger.content'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='operation',
            name='content',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='operations', to='ledger.content'),
        ),
        migrations.AddIndex(
            model_name='contentversion',
            index=models.Index(condition=models.Q(('state', 'proposed')), fields=['team', '-created_at'], name='content_version_to_be_decided'),
        ),
        migrations.AddConstraint(
            model_name='contentversion',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['proposed', 'approved', 'rejected', 'superseded'])), name='content_version_state_is_known'),
        ),
        migrations.AddConstraint(
            model_name='contentversion',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', True), ('decided_by', '')), models.Q(('decided_at__isnull', False), models.Q(('decided_by', ''), _negated=True)), _connector='OR'), name='content_version_decided_iff_by_somebody'),
        ),
        migrations.AddConstraint(
            model_name='contentversion',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', False), ('state', 'proposed'), _negated=True), models.Q(('decided_at__isnull', True), ('state__in', ['approved', 'rejected']), _negated=True)), name='content_version_is_approved_or_rejected_by_a_decision'),
        ),
        migrations.AddConstraint(
            model_name='contentversion',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('author_kind', 'person'), _negated=True), ('author_person__isnull', False), _connector='OR'), name='content_by_a_person_says_whom'),
        ),
        migrations.AddConstraint(
            model_name='contentversion',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'proposed')), fields=('of',), name='one_proposed_version_per_content'),
        ),
        migrations.AddConstraint(
            model_name='contentversion',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'approved')), fields=('of',), name='one_approved_version_per_content'),
        ),
        migrations.AddConstraint(
            model_name='contentversion',
            constraint=models.UniqueConstraint(condition=models.Q(('client_key__isnull', False)), fields=('of', 'client_key'), name='content_version_is_proposed_once_per_client_key'),
        ),
        migrations.AddField(
            model_name='revision',
            name='author_person',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='revision',
            name='step',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='revisions', to='ledger.step'),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(fields=['content_version', '-approved_at'], name='approval_of_version'),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(fields=['team', '-approved_at'], name='approval_newest_first'),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('content_version__isnull', False), ('revision__isnull', True), ('step__isnull', True)), models.Q(('content_version__isnull', True), ('revision__isnull', False), ('step__isnull', False)), _connector='OR'), name='approval_is_of_a_version_or_of_a_revision'),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(condition=models.Q(('expires_at__gt', models.F('approved_at'))), name='approval_ends_after_it_begins'),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(condition=models.Q(('covered_count__gte', 0)), name='approval_covers_no_less_than_nothing'),
        ),
        migrations.AddIndex(
            model_name='approvedrequest',
            index=models.Index(fields=['step'], name='approved_request_of_step'),
        ),
        migrations.AddConstraint(
            model_name='approvedrequest',
            constraint=models.UniqueConstraint(condition=models.Q(('voided_at__isnull', True)), fields=('step', 'revision'), name='one_live_approval_per_revision'),
        ),
        migrations.AddConstraint(
            model_name='approvedrequest',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('void_reason', ''), ('voided_at__isnull', True)), models.Q(('voided_at__isnull', False), models.Q(('void_reason', ''), _negated=True)), _connector='OR'), name='approval_voided_iff_it_says_why'),
        ),
        migrations.AddIndex(
            model_name='content',
            index=models.Index(condition=models.Q(('moving', True)), fields=['id'], name='content_moving'),
        ),
        migrations.AddConstraint(
            model_name='content',
            constraint=models.UniqueConstraint(fields=('team', 'content_id'), name='content_id_is_unique_in_team'),
        ),
        migrations.AddConstraint(
            model_name='content',
            constraint=models.CheckConstraint(condition=models.Q(('target_number__isnull', True), ('target_number__lte', models.F('latest_number')), _connector='OR'), name='content_targets_a_version_it_has'),
        ),
        migrations.AddConstraint(
            model_name='content',
            constraint=models.CheckConstraint(condition=models.Q(('moving', False), ('target_number__isnull', False), _connector='OR'), name='content_moves_only_to_a_version'),
        ),
        migrations.AddConstraint(
            model_name='revision',
            constraint=models.UniqueConstraint(fields=('step', 'number'), name='revision_number_is_unique_in_step'),
        ),
        migrations.AddConstraint(
            model_name='revision',
            constraint=models.CheckConstraint(condition=models.Q(('number__gte', 2)), name='revision_follows_the_first_request'),
        ),
        migrations.AddConstraint(
            model_name='revision',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['moved', 'revised'])), name='revision_kind_is_known'),
        ),
        migrations.RunSQL(REFUSALS, REMOVE),
    ]
