"""What most operations don't have takes no place in an index: their content, and the operation that they replace.

Without a transaction of its own, so that recording and sending go on meanwhile; the new ones are there before the old ones go.
"""

import django.db.models.deletion
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


def _replaced_by_a_partial_index(field: str, to: str, related_name: str, old_index: str):
    """The field loses the index that its kind brings along."""
    return migrations.SeparateDatabaseAndState(
        state_operations=[
            migrations.AlterField(
                model_name='operation',
                name=field,
                field=models.ForeignKey(
                    db_index=False,
                    null=True,
                    on_delete=django.db.models.deletion.PROTECT,
                    related_name=related_name,
                    to=to,
                ),
            ),
        ],
        database_operations=[
            migrations.RunSQL(
                f'DROP INDEX CONCURRENTLY IF EXISTS "{old_index}"',
                f'CREATE INDEX CONCURRENTLY "{old_index}" ON ledger_operation ({field}_id)',
            ),
        ],
    )


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('ledger', '0025_removals'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='operation',
            index=models.Index(
                condition=models.Q(('content__isnull', False)), fields=['content'], name='operation_by_content'
            ),
        ),
        AddIndexConcurrently(
            model_name='operation',
            index=models.Index(
                condition=models.Q(('replaces__isnull', False)), fields=['replaces'], name='operation_by_replaced'
            ),
        ),
        _replaced_by_a_partial_index(
            'content', 'ledger.content', 'operations', 'ledger_operation_content_id_ee28659d'
        ),
        _replaced_by_a_partial_index(
            'replaces', 'ledger.operation', 'replaced_by', 'ledger_operation_replaces_id_7df2c846'
        ),
    ]
