"""The journal: append-only entries, chained by hash per subject.

A subject is an operation, an event, a destination, a replay, a team, a definition, a content, or the switch for all sending.
Its chain's head is one row, taken by UPDATE … RETURNING so that two writers can't continue from the same head. Free text and
personal data live in `ErasableText`; an entry carries their digest with a random nonce, so that they can be erased while
the chain still verifies.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact, LessThanOrEqual

from opsledger.journal.actor import ACTOR_FORM, ACTOR_LENGTH_MAX, ACTOR_LENGTHS

SUBJECT_KINDS = ("operation", "event", "destination", "replay", "team", "definition", "sending", "content")


class Chain(models.Model):
    subject_id = models.UUIDField(primary_key=True)
    subject_kind = models.TextField()
    length = models.IntegerField(default=0)
    head = models.BinaryField(max_length=32)

    class Meta:
        db_table = "journal_chain"
        constraints = [
            models.CheckConstraint(
                condition=Q(subject_kind__in=SUBJECT_KINDS), name="chain_subject_kind_is_known"
            ),
            models.CheckConstraint(condition=Q(length__gte=0), name="chain_length_is_not_negative"),
        ]


def _actor_is_no_name() -> Q:
    length = Length("actor")
    condition = Q(actor__regex=ACTOR_FORM) & Q(LessThanOrEqual(length, ACTOR_LENGTH_MAX))
    for beginning, count in ACTOR_LENGTHS.items():
        condition &= ~Q(actor__startswith=beginning) | Q(Exact(length, count))
    return condition


class Entry(models.Model):
    """One line. Nothing in this table ever changes: the database refuses UPDATE, DELETE and TRUNCATE."""

    pk = models.CompositePrimaryKey("subject_id", "seq")
    subject_id = models.UUIDField()
    seq = models.IntegerField()  # 1, 2, 3 … within its subject
    subject_kind = models.TextField()
    at = models.DateTimeField()
    kind = models.TextField()
    actor = models.TextField()  # "person:…", "token:…", "engine", "source:…"; see `actor`
    body = models.TextField()  # JSON as it was written, byte for byte; never jsonb, which rewrites it
    hash = models.BinaryField(max_length=32)

    class Meta:
        db_table = "journal_entry"
        constraints = [
            models.CheckConstraint(
                condition=Q(subject_kind__in=SUBJECT_KINDS), name="entry_subject_kind_is_known"
            ),
            models.CheckConstraint(condition=Q(seq__gte=1), name="entry_seq_starts_at_one"),
            models.CheckConstraint(condition=_actor_is_no_name(), name="entry_actor_is_no_name"),
        ]
        indexes = [BrinIndex(fields=["at"], name="entry_at_brin", pages_per_range=32)]


class ErasableText(models.Model):
    """Free text of an entry. Erasing sets text and nonce to null together; the entry's digest stays."""

    id = models.UUIDField(primary_key=True)
    subject_id = models.UUIDField(db_index=True)
    nonce = models.BinaryField(null=True, max_length=16)
    text = models.TextField(null=True)  # noqa: DJ001  null means erased, which an empty text is not
    written_at = models.DateTimeField()
    erased_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "journal_text"
        constraints = [
            models.CheckConstraint(
                condition=Q(text__isnull=True, nonce__isnull=True, erased_at__isnull=False)
                | Q(text__isnull=False, nonce__isnull=False, erased_at__isnull=True),
                name="text_and_nonce_are_erased_together",
            )
        ]


class VerifyCheckpoint(models.Model):
    """How far a verification came; it resumes from here, and later runs may start from a finished one."""

    name = models.TextField(primary_key=True)
    after_subject = models.UUIDField(null=True)
    chains_count = models.BigIntegerField(default=0)
    entries_count = models.BigIntegerField(default=0)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    faults_count = models.IntegerField(null=True)  # of a finished proof of everything: 0 when it held

    class Meta:
        db_table = "journal_verify_checkpoint"
