"""What people choose about notices: read ones, mail, a mute, and a team's channels. Channels are journaled."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction

from opsledger.accounts.models import Person, Team
from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Channel, Mailing, Notice, NoticeChoice
from opsledger.lib.ids import new_id
from opsledger.rules.notice_words import EVERY_MINUTES_MAX, MUTE_DAYS_MAX, MailingState, NoticeKind

CHANNELS_MAX = 20
NAME_LENGTH_MAX = 80


# Notices on the page


def mark_read(person_id: UUID, team_id: UUID, ids: Collection[UUID]) -> int:
    """These of one's own notices; those that are read already stay as they are."""
    own = Notice.objects.filter(person_id=person_id, team_id=team_id, read_at__isnull=True, pk__in=ids)
    return own.update(read_at=database_now())


def mark_all_read(person_id: UUID, team_id: UUID, newest: UUID) -> int:
    """All up to the newest that the person saw; what came since stays unread."""
    own = Notice.objects.filter(person_id=person_id, team_id=team_id, read_at__isnull=True, pk__lte=newest)
    return own.update(read_at=database_now())


# Mail


def choose_mail(person: Person, *, mail_on: bool, every_minutes: int) -> None:
    _check_minutes(every_minutes)
    chosen = {"mail_on": mail_on, "every_minutes": every_minutes}
    NoticeChoice.objects.update_or_create(person=person, defaults=chosen)


def mute_mail(person: Person, days: int) -> datetime:
    """No mail for so many days; the page goes on. What came meanwhile is sent when the mute ends, unless it was read."""
    if not 1 <= days <= MUTE_DAYS_MAX:
        raise Refused(
            f"Mail is muted for 1 to {MUTE_DAYS_MAX} days; it is never muted for good.", field="days"
        )
    now = database_now()
    until = now + timedelta(days=days)
    NoticeChoice.objects.update_or_create(person=person, defaults={"muted_at": now, "muted_until": until})
    return until


def unmute_mail(person: Person) -> None:
    """What was put off is sent with the next message."""
    with transaction.atomic(durable=True):
        NoticeChoice.objects.filter(pk=person.pk).update(muted_at=None, muted_until=None)
        waiting = Notice.objects.filter(person=person, send_at__gt=database_now())
        waiting.update(send_at=database_now())


# Channels


def add_channel(
    team: Team,
    name: str,
    *,
    scheme: str,
    host: str,
    sealed: bytes,
    kinds: Collection[str],
    every_minutes: int,
    by: By,
) -> Channel:
    """A service that is told from now on. Refused when its name is taken or nothing is chosen."""
    clean = " ".join(name.split())
    if not clean or len(clean) > NAME_LENGTH_MAX or not clean.isprintable():
        raise Refused(f"A name has 1 to {NAME_LENGTH_MAX} printable characters.", field="name")
    chosen = [kind.value for kind in NoticeKind if kind.value in kinds]
    if not chosen:
        raise Refused("Choose at least one thing that the channel is told.", field="kinds")
    _check_minutes(every_minutes)
    with transaction.atomic(durable=True):
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        if Channel.objects.filter(team=team, removed_at__isnull=True).count() >= CHANNELS_MAX:
            raise Refused(f"A team has at most {CHANNELS_MAX} channels. Remove one first.", field="name")
        row = Channel(
            team=team, name=clean, scheme=scheme, host=host, sealed=sealed, kinds=chosen,
            every_minutes=every_minutes, made_by_id=by.person_id,
        )  # fmt: skip
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError as why:
            raise Refused(
                f"There is a channel “{clean}” already. Choose another name.", field="name"
            ) from why
        _note(row, "channel_added", by, scheme=scheme, kinds=chosen)
        return row


def remove_channel(channel_id: UUID, team: Team, by: By) -> bool:
    """Nothing is sent there any more, what waits included. False when it was removed before."""
    with transaction.atomic(durable=True):
        row = _live(channel_id, team)
        if row is None:
            return False
        now = database_now()
        # the secret goes at once; the row stays, because messages name it
        Channel.objects.filter(pk=row.pk).update(removed_at=now, sealed=b"")
        Notice.objects.filter(channel=row, send_at__isnull=False).update(send_at=None)
        waiting = Mailing.objects.filter(channel=row, state=MailingState.WAITING.value)
        waiting.update(
            state=MailingState.FAILED.value, try_at=None, ended_at=now, said="The channel was removed."
        )
        _note(row, "channel_removed", by)
        return True


def ask_for_test(channel_id: UUID, team: Team) -> Mailing | None:
    """A message that says only that it is a test; None when there is no such channel. One at a time."""
    with transaction.atomic(durable=True):
        row = _live(channel_id, team)
        if row is None:
            return None
        under_way = [MailingState.WAITING.value, MailingState.SENDING.value]
        known = Mailing.objects.filter(channel=row, is_test=True, state__in=under_way).first()
        now = database_now()
        return known or Mailing.objects.create(
            id=new_id(), team=team, channel=row, is_test=True, made_at=now, try_at=now
        )


def _live(channel_id: UUID, team: Team) -> Channel | None:
    rows = Channel.objects.filter(pk=channel_id, team=team, removed_at__isnull=True)
    return rows.select_for_update(of=("self",)).first()


def _note(row: Channel, kind: str, by: By, **facts: object) -> None:
    append([Line("team", row.team_id, kind, by.actor, body({"channel": str(row.pk), **facts}))])


def _check_minutes(every_minutes: int) -> None:
    if not 1 <= every_minutes <= EVERY_MINUTES_MAX:
        raise Refused(f"Choose 1 to {EVERY_MINUTES_MAX} minutes.", field="every_minutes")
