"""Each delivery keeps what its body says, and the question that asked about it; a link keeps that its event started it."""

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("ledger", "0033_steps_in_selections_validated")]
    operations = [
        migrations.AddField("operationevent", "started", models.BooleanField(null=True)),
        migrations.AddField("delivery", "digest", models.BinaryField(max_length=32, null=True)),
        migrations.AddField(
            "delivery",
            "hold",
            models.ForeignKey(
                db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+",
                to="ledger.hold",
            ),
        ),
        AddConstraintNotValid(
            "delivery",
            models.CheckConstraint(
                condition=Q(hold__isnull=True) | Q(conflict=True), name="only_another_body_is_asked_about"
            ),
        ),
    ]  # fmt: skip
