"""What people are told, and the messages that carry it outside."""

from datetime import timedelta

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Now

from opsledger.accounts.models import Team
from opsledger.ledger.models.holds import Hold
from opsledger.ledger.models.replays import Replay
from opsledger.lib.ids import new_id
from opsledger.rules.notice_words import (
    EVERY_MINUTES,
    EVERY_MINUTES_MAX,
    FINAL,
    MUTE_DAYS_MAX,
    TRIES_MAX,
    MailingState,
    NoticeKind,
)

_KINDS = [kind.value for kind in NoticeKind]
_FINAL = sorted(state.value for state in FINAL)


class NoticeChoice(models.Model):
    """How one person is told outside of the pages. No row: mail, batched as by default."""

    person = models.OneToOneField(settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.PROTECT)
    mail_on = models.BooleanField(default=True)
    every_minutes = models.IntegerField(default=EVERY_MINUTES)
    muted_at = models.DateTimeField(null=True)
    muted_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(every_minutes__gte=1, every_minutes__lte=EVERY_MINUTES_MAX),
                name="person_is_told_within_the_hour",
            ),
            models.CheckConstraint(
                condition=Q(muted_at__isnull=True, muted_until__isnull=True)
                | Q(
                    muted_at__isnull=False,
                    muted_until__lte=F("muted_at") + Value(timedelta(days=MUTE_DAYS_MAX)),
                ),
                name="mute_ends_within_seven_days",
            ),
        ]

    def __str__(self) -> str:
        return f"notices of {self.person_id}"


class Channel(models.Model):
    """A service that a team is told by. Its address is sealed: it holds the service's secret."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    name = models.TextField()
    scheme = models.TextField()
    host = models.TextField()  # shown with the scheme; nothing else of the address is
    sealed = models.BinaryField()
    kinds = ArrayField(models.TextField())
    every_minutes = models.IntegerField(default=EVERY_MINUTES)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(name="") & ~Q(scheme=""), name="channel_has_a_name"),
            models.CheckConstraint(
                condition=Q(kinds__contained_by=_KINDS, kinds__len__gt=0), name="channel_is_told_something"
            ),
            models.CheckConstraint(
                condition=Q(every_minutes__gte=1, every_minutes__lte=EVERY_MINUTES_MAX),
                name="channel_is_told_within_the_hour",
            ),
            models.UniqueConstraint(
                fields=["team", "name"],
                condition=Q(removed_at__isnull=True),
                name="channel_name_is_unique_in_its_team",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Mailing(models.Model):
    """One message to one person or channel of one team. It is written down before it is sent."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    channel = models.ForeignKey(Channel, null=True, on_delete=models.PROTECT, related_name="mailings")
    is_test = models.BooleanField(default=False)
    made_at = models.DateTimeField(db_default=Now())
    state = models.TextField(default=MailingState.WAITING.value)
    tries = models.IntegerField(default=0)
    try_at = models.DateTimeField(null=True)
    lease_ends_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    in_doubt = models.BooleanField(default=False)  # an earlier try may have arrived
    said = models.TextField(default="")  # how the last try ended, in our own words

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(person__isnull=True, channel__isnull=False)
                | Q(person__isnull=False, channel__isnull=True),
                name="mailing_has_one_addressee",
            ),
            models.CheckConstraint(
                condition=Q(state=MailingState.WAITING.value, try_at__isnull=False, lease_ends_at__isnull=True,
                            ended_at__isnull=True)
                | Q(state=MailingState.SENDING.value, try_at__isnull=True, lease_ends_at__isnull=False,
                    ended_at__isnull=True, tries__gte=1)
                | Q(state__in=_FINAL, try_at__isnull=True, lease_ends_at__isnull=True, ended_at__isnull=False),
                name="mailing_waits_is_sent_or_has_ended",
            ),
            models.CheckConstraint(
                condition=Q(tries__gte=0, tries__lte=TRIES_MAX), name="mailing_is_tried_so_often_at_most"
            ),
        ]  # fmt: skip
        indexes = [
            models.Index(
                fields=["try_at"], condition=Q(state=MailingState.WAITING.value), name="mailing_to_try"
            ),
            models.Index(
                fields=["lease_ends_at"],
                condition=Q(state=MailingState.SENDING.value),
                name="mailing_leases",
            ),
            models.Index(
                fields=["channel", "-id"], condition=Q(channel__isnull=False), name="mailing_of_channel"
            ),
            models.Index(
                fields=["person", "-id"], condition=Q(person__isnull=False), name="mailing_of_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.id}"


class Notice(models.Model):
    """One thing that one person or channel is told. Several holds at once are one notice, with their number."""

    id = models.UUIDField(primary_key=True, default=new_id)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    channel = models.ForeignKey(Channel, null=True, on_delete=models.PROTECT, related_name="+")
    kind = models.TextField()
    count = models.IntegerField(default=1)
    hold = models.ForeignKey(Hold, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    replay = models.ForeignKey(Replay, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    facts = models.TextField(default="{}")  # JSON: how many by reason, destination and workflow
    made_at = models.DateTimeField(db_default=Now())
    read_at = models.DateTimeField(null=True)
    send_at = models.DateTimeField(null=True)  # when it may go out; null: shown on the page only, or sent
    mailing = models.ForeignKey(
        Mailing, null=True, on_delete=models.PROTECT, related_name="notices", db_index=False
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(person__isnull=True, channel__isnull=False)
                | Q(person__isnull=False, channel__isnull=True),
                name="notice_has_one_addressee",
            ),
            models.CheckConstraint(condition=Q(kind__in=_KINDS), name="notice_kind_is_known"),
            models.CheckConstraint(
                condition=Q(count=1) | Q(count__gt=1, hold__isnull=True, replay__isnull=True),
                name="notice_names_one_hold_or_counts_several",
            ),
            models.CheckConstraint(
                condition=Q(send_at__isnull=True) | Q(mailing__isnull=True),
                name="notice_waits_or_was_sent",
            ),
        ]
        indexes = [
            models.Index(
                fields=["person", "team", "-id"],
                condition=Q(person__isnull=False),
                name="notice_of_person",
            ),
            models.Index(
                fields=["person", "team"],
                condition=Q(person__isnull=False, read_at__isnull=True),
                name="notice_unread",
            ),
            models.Index(fields=["send_at"], condition=Q(send_at__isnull=False), name="notice_to_send"),
            models.Index(fields=["mailing"], condition=Q(mailing__isnull=False), name="notice_of_mailing"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.person_id or self.channel_id}"
