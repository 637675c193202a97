"""What scans the large tables: without a transaction of its own, so that recording and sending go on meanwhile."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0005_approvals'),
    ]

    operations = [
        ValidateConstraint('step', 'step_is_frozen_and_sent_only_when_approved'),
        ValidateConstraint('step', 'step_approved_iff_until_a_time'),
        ValidateConstraint('step', 'step_revision_needs_approval'),
        AddIndexConcurrently(
            model_name='operation',
            index=models.Index(condition=models.Q(('content__isnull', False), ('ended_at__isnull', True)), fields=['content', 'id'], name='operation_open_by_content'),
        ),
    ]
