"""Saved views: filters of the inbox that a person or a team keeps under a name."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from opsledger.accounts.models import Team
from opsledger.lib.ids import new_id

VIEWS_MAX = 30  # of one person in one team, and of one team
NAME_LENGTH_MAX = 60
QUERY_LENGTH_MAX = 2000


class SavedView(models.Model):
    """A person's own, or without a person the team's. `query` is an address of the inbox in its canonical form."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    holder_id = models.UUIDField()  # the person, or the team: among whose views name and place are its own
    name = models.TextField()
    query = models.TextField()  # "" shows every hold
    position = models.IntegerField()  # 1, 2, 3 … among those of the same person, or of the team
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "holder_id", "name"], name="view_has_a_name_of_its_own"),
            models.UniqueConstraint(
                fields=["team", "holder_id", "position"],
                deferrable=models.Deferrable.DEFERRED,  # places are changed several at once
                name="view_has_a_place_of_its_own",
            ),
            models.CheckConstraint(
                condition=Q(position__gte=1, position__lte=VIEWS_MAX), name="thirty_views_are_kept_at_most"
            ),
            models.CheckConstraint(condition=~Q(name=""), name="view_has_a_name"),
            models.CheckConstraint(
                condition=Q(person__isnull=True) | Q(person=models.F("author")),
                name="personal_view_is_its_author_s",
            ),
            models.CheckConstraint(
                condition=Q(person__isnull=True, holder_id=models.F("team"))
                | Q(person__isnull=False, holder_id=models.F("person")),
                name="view_is_held_by_its_person_else_its_team",
            ),
        ]

    def __str__(self) -> str:
        return self.name
