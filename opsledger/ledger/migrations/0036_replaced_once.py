"""An operation is replaced by one other only. Built without stopping writes; it stands for the index that it replaces.

Where an operation is replaced by several already, nothing is changed: only people know which of them stands.
"""

from django.db import migrations, models
from django.db.models import Q

TWICE = """
SELECT o.operation_id, string_agg(r.operation_id, ', ' ORDER BY r.id)
  FROM ledger_operation r JOIN ledger_operation o ON o.id = r.replaces_id
 GROUP BY o.id HAVING count(*) > 1 ORDER BY o.id LIMIT 20
"""
UNIQUE = (
    "CREATE UNIQUE INDEX CONCURRENTLY an_operation_is_replaced_once ON ledger_operation (replaces_id)"
    " WHERE replaces_id IS NOT NULL"
)
NOT_UNIQUE = (
    "CREATE INDEX CONCURRENTLY operation_by_replaced ON ledger_operation (replaces_id) WHERE replaces_id IS NOT NULL"
)


def none_is_replaced_twice(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(TWICE)
        found = cursor.fetchall()
    if found:
        named = "; ".join(f"{earlier} by {later}" for earlier, later in found)
        raise RuntimeError(
            f"Some operations are replaced by more than one other: {named}. Nothing was changed. Decide which one stands,"
            " set replaces_id of the others to NULL as the owner of the tables, and migrate again."
        )


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0035_bodies_asked_about_before")]
    operations = [
        migrations.RunPython(none_is_replaced_twice, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    ["DROP INDEX CONCURRENTLY IF EXISTS an_operation_is_replaced_once", UNIQUE],
                    ["DROP INDEX CONCURRENTLY IF EXISTS an_operation_is_replaced_once"],
                ),
                migrations.RunSQL(
                    ["DROP INDEX CONCURRENTLY IF EXISTS operation_by_replaced"],
                    ["DROP INDEX CONCURRENTLY IF EXISTS operation_by_replaced", NOT_UNIQUE],
                ),
            ],
            state_operations=[
                migrations.AddConstraint(
                    "operation",
                    models.UniqueConstraint(
                        fields=["replaces"],
                        condition=Q(replaces__isnull=False),
                        name="an_operation_is_replaced_once",
                    ),
                ),
                migrations.RemoveIndex("operation", "operation_by_replaced"),
            ],
        ),
    ]
