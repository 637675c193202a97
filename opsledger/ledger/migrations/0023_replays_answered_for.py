"""Who answers for a replay that somebody resumed, and the notice that one paused by itself. Few rows but the notices'."""

import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q

KINDS = [
    "assigned", "approval", "reminder", "escalated", "disputed", "destination_stopped", "replay_ended", "replay_stopped",
    "owner_gone",
]  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0022_requesters_keys"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AddField(
            "replay",
            "resumed_by",
            models.ForeignKey(
                db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RemoveConstraint("channel", "channel_is_told_something"),
        migrations.AddConstraint(
            "channel",
            models.CheckConstraint(
                condition=Q(kinds__contained_by=KINDS, kinds__len__gt=0), name="channel_is_told_something"
            ),
        ),
        migrations.RemoveConstraint("notice", "notice_kind_is_known"),
        AddConstraintNotValid(
            "notice", models.CheckConstraint(condition=Q(kind__in=KINDS), name="notice_kind_is_known")
        ),
    ]  # fmt: skip
