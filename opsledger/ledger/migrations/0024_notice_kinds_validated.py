"""What scans the notices: apart, so that people are told meanwhile."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0023_replays_answered_for")]
    operations = [ValidateConstraint("notice", "notice_kind_is_known")]
