"""What scans the holds: without a transaction of its own, so that recording and sending go on meanwhile."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0010_incidents'),
    ]

    operations = [
        ValidateConstraint('hold', 'hold_of_incident_is_about_a_step'),
        AddIndexConcurrently(
            model_name='hold',
            index=models.Index(condition=models.Q(('closed_at__isnull', True), ('incident__isnull', True), ('step__isnull', False)), fields=['opened_at', 'id'], name='hold_to_be_grouped'),
        ),
        AddIndexConcurrently(
            model_name='hold',
            index=models.Index(condition=models.Q(('closed_at__isnull', True), ('incident__isnull', False)), fields=['team', 'incident', 'due_at', 'id'], include=('owner',), name='hold_open_by_incident'),
        ),
        AddIndexConcurrently(
            model_name='hold',
            index=models.Index(condition=models.Q(('incident__isnull', False)), fields=['incident', 'opened_at'], include=('closed_by',), name='hold_of_incident'),
        ),
    ]
