"""Sources, destinations and workflows: what they are called, and their immutable versions."""

from django.db import models
from django.db.models import Q

from opsledger.accounts.models import Team
from opsledger.lib.ids import new_id


class Definition(models.Model):
    class Kind(models.TextChoices):
        SOURCE = "source"
        DESTINATION = "destination"
        WORKFLOW = "workflow"

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    kind = models.TextField(choices=Kind)
    slug = models.TextField()
    # the newest version; what has started keeps the one that it started with
    current = models.ForeignKey("DefinitionVersion", null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "kind", "slug"], name="definition_slug_is_unique_in_team"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["source", "destination", "workflow"]), name="definition_kind_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.slug}"


class DefinitionVersion(models.Model):
    """Immutable: a trigger refuses changes."""

    id = models.UUIDField(primary_key=True, default=new_id)
    definition = models.ForeignKey(
        Definition, on_delete=models.PROTECT, related_name="versions", db_index=False
    )
    number = models.IntegerField()
    digest = models.BinaryField(max_length=32)
    body = models.TextField()  # canonical JSON
    loaded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["definition", "number"], name="definition_version_number_is_unique"
            )
        ]

    def __str__(self) -> str:
        return f"version {self.number}"
