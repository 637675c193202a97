"""Open holds by workflow, for views and rules: made without a transaction, so that holds open and end meanwhile."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0014_views_and_rules'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='hold',
            index=models.Index(condition=models.Q(('closed_at__isnull', True)), fields=['team', 'workflow_slug', 'due_at', 'id'], name='hold_open_by_workflow'),
        ),
    ]
