"""Proposed answers: what somebody who may not settle thinks the answer is. A proposal decides nothing and is no evidence."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.holds import Hold
from opsledger.lib.ids import new_id


class Proposal(models.Model):
    """One answer to a hold about a step, as a form. Free texts are kept apart, and the row names them by id and digest."""

    class Ending(models.TextChoices):
        ACCEPTED = "accepted"
        DISMISSED = "dismissed"
        WITHDRAWN = "withdrawn"  # by whoever made it
        REPLACED = "replaced"  # by a newer one of the same proposer
        HOLD_ENDED = "hold_ended"  # the question was settled without it

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    hold = models.ForeignKey(Hold, on_delete=models.PROTECT, related_name="proposals", db_index=False)
    hold_version = models.IntegerField()  # as it was read by the proposer
    proposer = models.TextField()  # as the journal writes it: person:…, token:…
    proposer_person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    author_kind = models.TextField()  # person, automation or model: whose thought it is
    author_name = models.TextField(default="")  # of a model or an automation, by the proposer's word
    answer = models.TextField()
    form = models.TextField(
        default="{}"
    )  # JSON: what the answer needs, without free text and without parameters
    texts = models.TextField(default="{}")  # JSON: id and digest of each kept text, by what it is
    made_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ended_how = models.TextField(default="")
    ended_by = models.TextField(default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, ended_how="", ended_by="")
                | (
                    Q(
                        ended_at__isnull=False,
                        ended_how__in=["accepted", "dismissed", "withdrawn", "replaced", "hold_ended"],
                    )
                    & ~Q(ended_by="")
                ),
                name="proposal_ended_iff_it_says_how_and_by_whom",
            ),
            models.CheckConstraint(
                condition=Q(author_kind__in=["person", "automation", "model"]),
                name="proposal_author_kind_is_known",
            ),
            models.UniqueConstraint(
                fields=["hold", "proposer"],
                condition=Q(ended_at__isnull=True),
                name="one_open_proposal_per_proposer_and_hold",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.answer} proposed by {self.proposer}"
