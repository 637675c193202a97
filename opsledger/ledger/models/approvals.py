"""Revisions of requests, and the approvals that people gave. Rows are kept; a void approval says why it is void."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.content import ContentVersion
from opsledger.ledger.models.operations import LOOKED_UP, Step
from opsledger.lib.ids import new_id


class Revision(models.Model):
    """A changed request of a step, from number 2 on: what its parameters differ in, and which content it shows."""

    class Kind(models.TextChoices):
        MOVED = "moved"  # to another content version, or back to an approved request; the version's approval covers it
        REVISED = "revised"  # by a person's answer to a hold; it is approved by itself

    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="revisions", db_index=False)
    number = models.SmallIntegerField()
    kind = models.TextField(choices=Kind)
    params = models.TextField(default="{}")  # canonical JSON: those that differ from the operation's own
    content_number = models.IntegerField(null=True)
    author = models.TextField()  # as the journal writes it
    author_person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "number"], name="revision_number_is_unique_in_step"),
            models.CheckConstraint(condition=Q(number__gte=2), name="revision_follows_the_first_request"),
            models.CheckConstraint(condition=Q(kind__in=["moved", "revised"]), name="revision_kind_is_known"),
        ]

    def __str__(self) -> str:
        return f"revision {self.number} of {self.step_id}"


class Approval(models.Model):
    """One decision of one person: over a content version and all that waited for it, or over one revision."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    content_version = models.ForeignKey(
        ContentVersion,
        null=True,
        on_delete=models.PROTECT,
        related_name="approvals",
        db_index=False,
    )
    step = models.ForeignKey(Step, null=True, on_delete=models.PROTECT, related_name="approvals")
    revision = models.SmallIntegerField(null=True)
    approved_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    approved_at = models.DateTimeField()
    expires_at = models.DateTimeField()  # the latest of what it covers
    covered_digest = models.TextField()  # over everything that was shown
    covered_count = models.IntegerField()  # requests that are approved by it

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(content_version__isnull=False, step__isnull=True, revision__isnull=True)
                | Q(content_version__isnull=True, step__isnull=False, revision__isnull=False),
                name="approval_is_of_a_version_or_of_a_revision",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("approved_at")), name="approval_ends_after_it_begins"
            ),
            models.CheckConstraint(
                condition=Q(covered_count__gte=0), name="approval_covers_no_less_than_nothing"
            ),
        ]
        indexes = [
            models.Index(fields=["content_version", "-approved_at"], name="approval_of_version"),
            models.Index(fields=["team", "-approved_at"], name="approval_newest_first"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Rejection(models.Model):
    """One decision of one person over one request, or over what came to wait for an approved version, which stays approved.

    A version that is rejected itself says so in its own row.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    content_version = models.ForeignKey(
        ContentVersion, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    step = models.ForeignKey(
        Step, null=True, on_delete=models.PROTECT, related_name="+", db_index=False, **LOOKED_UP
    )
    revision = models.SmallIntegerField(null=True)
    rejected_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    rejected_at = models.DateTimeField()
    rejected_count = models.IntegerField()  # requests that it was made over

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(content_version__isnull=False, step__isnull=True, revision__isnull=True)
                | Q(content_version__isnull=True, step__isnull=False, revision__isnull=False),
                name="rejection_is_of_a_version_or_of_a_revision",
            ),
            models.CheckConstraint(
                condition=Q(rejected_count__gte=0), name="rejection_is_over_no_less_than_nothing"
            ),
        ]
        indexes = [models.Index(fields=["team", "-rejected_at"], name="rejection_newest_first")]

    def __str__(self) -> str:
        return str(self.id)


class ApprovedRequest(models.Model):
    """One request that an approval covers. At most one is live for a revision; every change of it makes it void."""

    approval = models.ForeignKey(Approval, on_delete=models.PROTECT, related_name="requests")
    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="approved_requests", db_index=False)
    revision = models.SmallIntegerField()
    request_digest = models.TextField()  # with the key left out, in hex
    approved_until = models.DateTimeField()
    voided_at = models.DateTimeField(null=True)
    void_reason = models.TextField(default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["step", "revision"],
                condition=Q(voided_at__isnull=True),
                name="one_live_approval_per_revision",
            ),
            models.CheckConstraint(
                condition=Q(voided_at__isnull=True, void_reason="")
                | (Q(voided_at__isnull=False) & ~Q(void_reason="")),
                name="approval_voided_iff_it_says_why",
            ),
        ]
        indexes = [models.Index(fields=["step"], name="approved_request_of_step")]

    def __str__(self) -> str:
        return f"{self.step_id} revision {self.revision}"
