"""What people bring from outside about many holds: a destination's list of references, a provider's statement.

The bytes are kept as they came and are read again whenever they are shown; triggers refuse changes. The journal has their
digests and counts, never what they say.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q

from opsledger.accounts.models import Team
from opsledger.ledger.models.bulk import Selection
from opsledger.ledger.models.holds import Hold
from opsledger.ledger.models.operations import Operation
from opsledger.lib.ids import new_id


class ReferenceList(models.Model):
    """A destination's list of references about one selection."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    selection = models.ForeignKey(Selection, on_delete=models.PROTECT, related_name="lists", db_index=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    made_at = models.DateTimeField()
    file_name = models.TextField(default="")  # "" = pasted
    content = models.BinaryField()
    digest = models.BinaryField(max_length=32)  # SHA-256 over the content
    row_count = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["selection", "digest"], name="same_list_is_kept_once_per_selection"
            ),
            models.CheckConstraint(condition=Q(row_count__gte=1), name="list_has_a_row"),
        ]
        indexes = [models.Index(fields=["selection", "-id"], name="list_of_selection")]

    def __str__(self) -> str:
        return self.file_name or str(self.id)


class ReadReference(models.Model):
    """What the destination showed under a reference that stands alone in a list: whose record it is, or why nobody knows."""

    id = models.BigAutoField(primary_key=True)
    of = models.ForeignKey(ReferenceList, on_delete=models.PROTECT, related_name="read", db_index=False)
    line = models.IntegerField()  # the first one with this reference
    identity = models.TextField(null=True)  # noqa: DJ001  of the record; null: it could not be told
    why = models.TextField(default="")  # then a sentence
    read_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["of", "line"], name="reference_of_a_list_is_read_once"),
            models.CheckConstraint(
                condition=Q(identity__isnull=False, why="") | (Q(identity__isnull=True) & ~Q(why="")),
                name="read_reference_names_an_identity_or_says_why_not",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.of_id} line {self.line}"


class ProviderStatement(models.Model):
    """A provider says that actions did not happen: its words or its file, how it was asked, and which holds it covers."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, db_index=False)
    selection = models.ForeignKey(
        Selection, on_delete=models.PROTECT, related_name="statements", db_index=False
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    made_at = models.DateTimeField()
    words = models.TextField(default="")
    file_name = models.TextField(default="")
    file = models.BinaryField(default=b"")
    listed = models.BinaryField(
        null=True
    )  # the list of identities that it covers; null: all that was selected
    how = models.TextField()  # JSON: where the journal keeps how it was asked, and its digest
    ticket = models.TextField(default="")  # the same of the provider's ticket; "" = none
    digest = models.BinaryField(max_length=32)  # SHA-256 over words, file and list, each with its length
    covered_count = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["selection", "digest"], name="same_statement_is_kept_once_per_selection"
            ),
            models.CheckConstraint(
                condition=~Q(words="") | ~Q(file=b""), name="statement_has_words_or_a_file"
            ),
            models.CheckConstraint(condition=Q(covered_count__gte=1), name="statement_covers_a_hold"),
        ]
        indexes = [models.Index(fields=["selection", "-id"], name="statement_of_selection")]

    def __str__(self) -> str:
        return str(self.id)


class StatementCover(models.Model):
    """One question that a statement answers, as it stood then. Of what was tried later it says nothing."""

    id = models.BigAutoField(primary_key=True)
    statement = models.ForeignKey(
        ProviderStatement, on_delete=models.PROTECT, related_name="covers", db_index=False
    )
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.SmallIntegerField()  # of the step
    hold = models.ForeignKey(Hold, on_delete=models.PROTECT, related_name="+", db_index=False)
    attempt_count = models.IntegerField()  # that had been made

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["statement", "operation", "number"], name="statement_covers_a_step_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.statement_id} {self.operation_id} {self.number}"
