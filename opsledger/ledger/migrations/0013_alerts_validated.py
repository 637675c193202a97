"""What scans the holds: without a transaction of its own, so that recording and sending go on meanwhile."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0012_alerts'),
    ]

    operations = [
        ValidateConstraint('hold', 'hold_escalation_is_set_by_its_reminder'),
        ValidateConstraint('hold', 'hold_escalates_only_after_a_reminder'),
        AddIndexConcurrently(
            model_name='hold',
            index=models.Index(condition=models.Q(('closed_at__isnull', True), ('reminded_at__isnull', True)), fields=['due_at', 'id'], name='hold_to_remind'),
        ),
        AddIndexConcurrently(
            model_name='hold',
            index=models.Index(condition=models.Q(('closed_at__isnull', True), ('escalate_at__isnull', False), ('escalated_at__isnull', True)), fields=['escalate_at', 'id'], name='hold_to_escalate'),
        ),
        AddIndexConcurrently(
            model_name='hold',
            index=models.Index(condition=models.Q(('closed_at__isnull', True), ('told_at__isnull', True), models.Q(('owner__isnull', False), ('reason__in', ['approval_needed', 'disputed', 'paused', 'access_refused', 'circuit_open']), _connector='OR')), fields=['id'], name='hold_to_tell'),
        ),
    ]
