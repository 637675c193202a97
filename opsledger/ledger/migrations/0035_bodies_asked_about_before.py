"""Bodies that were asked about before this was kept: each question has the digest of its body. What nobody was asked about waits.

Without a transaction of its own, so that deliveries are taken meanwhile; may be run again.
"""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

ASKED = """
UPDATE ledger_delivery d SET hold_id = h.id
  FROM (SELECT id, event_id, facts::json ->> 'other_body' AS other_body FROM ledger_hold
         WHERE event_id IS NOT NULL AND reason = 'event_conflict' AND facts LIKE '%"other_body"%') h
  JOIN ledger_event e ON e.id = h.event_id
  JOIN ledger_rawbody b ON b.source_id = e.source_id AND b.digest = decode(h.other_body, 'hex')
 WHERE d.event_id = h.event_id AND d.body_id = b.id AND d.conflict AND d.hold_id IS NULL
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0034_bodies_asked_about")]
    operations = [
        ValidateConstraint("delivery", "only_another_body_is_asked_about"),
        migrations.RunSQL(ASKED, migrations.RunSQL.noop),
        AddIndexConcurrently(
            "delivery",
            models.Index(
                fields=["event", "id"],
                condition=Q(conflict=True, hold__isnull=True),
                name="body_waits_to_be_asked_about",
            ),
        ),
    ]
