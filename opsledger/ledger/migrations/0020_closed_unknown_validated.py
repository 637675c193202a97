"""What scans the items of replays: apart, so that replays go on meanwhile."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ledger", "0019_closed_unknown_in_replays")]
    operations = [ValidateConstraint("replayitem", "replay_item_has_a_result_iff_ended")]
