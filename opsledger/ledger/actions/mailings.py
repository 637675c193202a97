"""Messages with notices: gathered, claimed, and what became of each try.

A message is written down before it is sent, and claimed with a lease. When the lease ends without a word it is *not known to
have arrived*. However a try ends, a message is tried at most TRIES_MAX times; a repeat says that it is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from opsledger.accounts.roles import is_member
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold, Mailing, Notice, NoticeChoice
from opsledger.lib.ids import new_id
from opsledger.rules.notice_words import TRIES_MAX, TRY_DELAYS_SECONDS, MailingState, NoticeKind

NOTICES_MAX = 500  # in one message; the rest follows in the next
LEASE_SECONDS = 120
# What a hold that has ended makes pointless to send; the page keeps it.
_OVER_WITH_THE_HOLD = frozenset(
    {
        NoticeKind.ASSIGNED,
        NoticeKind.APPROVAL,
        NoticeKind.REMINDER,
        NoticeKind.ESCALATED,
        NoticeKind.OWNER_GONE,
    }
)


# Gathering


def open_mailings(limit: int) -> int:
    """One message for each addressee for whom a notice is due, with all that waits for them. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT team_id, person_id, channel_id FROM"
            " (SELECT team_id, person_id, channel_id FROM ledger_notice WHERE send_at <= now()"
            "   ORDER BY send_at LIMIT %s) due",
            [limit],
        )
        addressees = cursor.fetchall()
    return sum(_gather(*addressee) for addressee in addressees)


def _gather(team_id: UUID, person_id: UUID | None, channel_id: UUID | None) -> bool:
    """1. Locks what waits. 2. Leaves out what is read or over. 3. Writes the message down, or puts it off."""
    with transaction.atomic(durable=True):
        addressee: dict[str, Any] = {"team_id": team_id, "person_id": person_id, "channel_id": channel_id}
        waiting = Notice.objects.filter(**addressee)
        waiting = waiting.filter(send_at__isnull=False).select_for_update(skip_locked=True)
        notices = list(waiting.order_by("id")[:NOTICES_MAX])
        now = database_now()
        ids = [notice.pk for notice in notices]
        put_off = _muted_until(person_id, now) if person_id else None
        if put_off is not None:
            Notice.objects.filter(pk__in=ids).update(send_at=put_off)
            return False
        sent = _worth_sending(notices) if _is_wanted(person_id, team_id) else []
        Notice.objects.filter(pk__in=ids).update(send_at=None)
        if not sent:
            return False
        mailing = Mailing.objects.create(
            id=new_id(), team_id=team_id, person_id=person_id, channel_id=channel_id, made_at=now, try_at=now
        )
        Notice.objects.filter(pk__in=sent).update(mailing=mailing)
        return True


def _muted_until(person_id: UUID, now: datetime) -> datetime | None:
    choice = NoticeChoice.objects.filter(pk=person_id, muted_until__gt=now).first()
    return choice.muted_until if choice else None


def _is_wanted(person_id: UUID | None, team_id: UUID) -> bool:
    if person_id is None:
        return True
    if not is_member(person_id, team_id):  # what a team is told is nothing for those who are gone
        return False
    off = NoticeChoice.objects.filter(pk=person_id, mail_on=False)
    return bool(settings.MAIL_ON) and not off.exists()


def _worth_sending(notices: Sequence[Notice]) -> list[UUID]:
    holds = [notice.hold_id for notice in notices if notice.hold_id and notice.kind in _OVER_WITH_THE_HOLD]
    over = set(Hold.objects.filter(pk__in=holds, closed_at__isnull=False).values_list("pk", flat=True))
    return [
        notice.pk
        for notice in notices
        if notice.read_at is None and not (notice.kind in _OVER_WITH_THE_HOLD and notice.hold_id in over)
    ]


# Sending


@dataclass(frozen=True, slots=True)
class ClaimedMailing:
    id: UUID
    number: int  # of this try; it is the lease's token
    in_doubt: bool


_GONE = """
UPDATE ledger_mailing m
   SET state = CASE WHEN in_doubt THEN 'unknown' ELSE 'failed' END, try_at = NULL, ended_at = now(),
       said = CASE WHEN channel_id IS NULL THEN 'Its addressee is not in the team any more.'
                   ELSE 'The channel was removed.' END
 WHERE state = 'waiting' AND try_at <= now()
   AND NOT EXISTS (SELECT FROM membership b JOIN person p ON p.id = b.person_id
                    WHERE b.team_id = m.team_id AND b.person_id = m.person_id AND p.is_active)
   AND NOT EXISTS (SELECT FROM ledger_channel c WHERE c.id = m.channel_id AND c.removed_at IS NULL)
"""


def claim_mailings(limit: int) -> list[ClaimedMailing]:
    """Takes messages whose time has come; each is written down as being sent before its first byte leaves.

    Those to people who left, and to channels that were removed, since they were gathered end instead.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_GONE)
        cursor.execute(
            "UPDATE ledger_mailing SET state = 'sending', tries = tries + 1, try_at = NULL,"
            "       lease_ends_at = now() + %s * interval '1 second'"
            " WHERE id = ANY(ARRAY(SELECT id FROM ledger_mailing WHERE state = 'waiting' AND try_at <= now()"
            "               ORDER BY try_at, id LIMIT %s FOR UPDATE SKIP LOCKED))"
            " RETURNING id, tries, in_doubt",
            [LEASE_SECONDS, limit],
        )
        return [ClaimedMailing(*row) for row in cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class Tried:
    """How one try ended: `sent`, `failed` (refused, or nothing left the house) or `unknown`; `said` is a sentence."""

    state: MailingState
    said: str


def record_mailing(claimed: ClaimedMailing, tried: Tried) -> bool:
    """Writes down how a try ended. False when its lease had ended before: then only a success still counts."""
    with transaction.atomic(durable=True):
        row = Mailing.objects.select_for_update().get(pk=claimed.id)
        if row.state == MailingState.SENDING and row.tries == claimed.number:
            _end_try(row, tried, database_now())
            return True
        if tried.state is MailingState.SENT and row.state in {MailingState.WAITING, MailingState.UNKNOWN}:
            _update(row, MailingState.SENT, ended_at=database_now(), said=tried.said)
        return False


def record_mailing_leases_ended(limit: int) -> int:
    """Messages whose worker said nothing more. Returns how many."""
    with transaction.atomic(durable=True):
        rows = Mailing.objects.filter(state=MailingState.SENDING.value, lease_ends_at__lt=database_now())
        silent = Tried(MailingState.UNKNOWN, "The worker stopped while it was sending this.")
        found = list(rows.order_by("lease_ends_at").select_for_update(skip_locked=True)[:limit])
        for row in found:
            _end_try(row, silent, database_now())
        return len(found)


def _end_try(row: Mailing, tried: Tried, now: datetime) -> None:
    in_doubt = row.in_doubt or tried.state is MailingState.UNKNOWN
    if tried.state is MailingState.SENT:
        _update(row, MailingState.SENT, ended_at=now, said=tried.said)
    elif row.tries >= TRIES_MAX or row.is_test:
        final = MailingState.UNKNOWN if in_doubt else MailingState.FAILED
        _update(row, final, ended_at=now, said=tried.said, in_doubt=in_doubt)
    else:
        again = now + timedelta(seconds=TRY_DELAYS_SECONDS[row.tries - 1])
        _update(row, MailingState.WAITING, try_at=again, said=tried.said, in_doubt=in_doubt)


def _update(row: Mailing, state: MailingState, **changes: object) -> None:
    empty: dict[str, object] = {"try_at": None, "lease_ends_at": None, "ended_at": None}
    Mailing.objects.filter(pk=row.pk).update(state=state.value, **(empty | changes))
