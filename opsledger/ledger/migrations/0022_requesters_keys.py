"""A client key is its requester's own. The new index is built first; what the old one let in, it lets in too."""

from django.db import migrations, models

NEW = (
    "CREATE UNIQUE INDEX CONCURRENTLY content_version_is_proposed_once_per_requesters_key"
    " ON ledger_contentversion (of_id, requested_by, client_key) WHERE client_key IS NOT NULL"
)
NO_NEW = "DROP INDEX CONCURRENTLY IF EXISTS content_version_is_proposed_once_per_requesters_key"
NO_OLD = "DROP INDEX CONCURRENTLY IF EXISTS content_version_is_proposed_once_per_client_key"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0021_rejections")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL([NO_NEW, NEW], [NO_NEW]),
                migrations.RunSQL([NO_OLD], migrations.RunSQL.noop),
            ],
            state_operations=[
                migrations.RemoveConstraint(
                    "contentversion", "content_version_is_proposed_once_per_client_key"
                ),
                migrations.AddConstraint(
                    "contentversion",
                    models.UniqueConstraint(
                        fields=["of", "requested_by", "client_key"],
                        condition=models.Q(client_key__isnull=False),
                        name="content_version_is_proposed_once_per_requesters_key",
                    ),
                ),
            ],
        )
    ]
