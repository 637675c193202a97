"""Notices: written in the transaction of what they tell of. What leaves the house is decided here, and sent elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Channel, Hold, Notice, NoticeChoice
from opsledger.rules.notice_words import AT_ONCE, EVERY_MINUTES, NoticeKind


@dataclass(frozen=True, slots=True)
class News:
    """One thing that happened, and whom it concerns. Channels of the team are told too, where they listen to its kind."""

    kind: NoticeKind
    team_id: UUID
    people: frozenset[UUID]
    hold: Hold | None = None
    replay_id: UUID | None = None


@dataclass(slots=True)
class _Bundle:
    """What one addressee is told at once of one kind."""

    every_minutes: int = EVERY_MINUTES  # of a channel
    news: list[News] = field(default_factory=list)

    def facts(self) -> str:
        holds = [one.hold for one in self.news if one.hold is not None]
        counted = {
            "reasons": Counter(hold.reason for hold in holds),
            "destinations": Counter(hold.destination_slug for hold in holds if hold.destination_slug),
            "workflows": Counter(hold.workflow_slug for hold in holds if hold.workflow_slug),
        }
        return json.dumps({name: dict(counts.most_common(20)) for name, counts in counted.items() if counts})


_Key = tuple[UUID, NoticeKind, UUID | None, UUID | None]  # team, kind, person, channel


def tell_here(news: Iterable[News]) -> int:
    """Writes the notices of these news, inside the caller's transaction. Returns how many rows.

    Of one kind and team, each addressee gets one row: with the hold or replay when it is one, else with their number.
    """
    bundles = _bundled(list(news))
    if not bundles:
        return 0
    now = database_now()
    choices = NoticeChoice.objects.in_bulk({key[2] for key in bundles if key[2] is not None})
    rows = [_row(key, bundle, now, choices.get(key[2])) for key, bundle in bundles.items()]
    Notice.objects.bulk_create(rows)
    return len(rows)


def _bundled(news: Sequence[News]) -> dict[_Key, _Bundle]:
    bundles: dict[_Key, _Bundle] = {}
    channels = _channels({one.team_id for one in news})
    for one in news:
        for person in sorted(one.people):
            bundles.setdefault((one.team_id, one.kind, person, None), _Bundle()).news.append(one)
        for channel in channels.get(one.team_id, ()):
            if one.kind in channel.kinds:
                key = (one.team_id, one.kind, None, channel.pk)
                bundles.setdefault(key, _Bundle(channel.every_minutes)).news.append(one)
    return bundles


def _channels(team_ids: Collection[UUID]) -> dict[UUID, list[Channel]]:
    found: dict[UUID, list[Channel]] = {}
    for channel in Channel.objects.filter(team_id__in=team_ids, removed_at__isnull=True).defer("sealed"):
        found.setdefault(channel.team_id, []).append(channel)
    return found


def _row(key: _Key, bundle: _Bundle, now: datetime, choice: NoticeChoice | None) -> Notice:
    team_id, kind, person_id, channel_id = key
    single = bundle.news[0] if len(bundle.news) == 1 else None
    return Notice(
        team_id=team_id,
        kind=kind.value,
        person_id=person_id,
        channel_id=channel_id,
        count=len(bundle.news),
        hold=single.hold if single else None,
        replay_id=single.replay_id if single else None,
        facts=bundle.facts(),
        made_at=now,
        send_at=_by_mail_at(kind, now, choice) if person_id else _batched(kind, now, bundle.every_minutes),
    )


def _by_mail_at(kind: NoticeKind, now: datetime, choice: NoticeChoice | None) -> datetime | None:
    """When it may leave as mail; None: never. A mute has an end."""
    if not settings.MAIL_ON or (choice is not None and not choice.mail_on):
        return None
    if choice is None:
        return _batched(kind, now, EVERY_MINUTES)
    at = _batched(kind, now, choice.every_minutes)
    return max(at, choice.muted_until) if choice.muted_until else at


def _batched(kind: NoticeKind, now: datetime, every_minutes: int) -> datetime:
    """What is not urgent waits for others, so that no two messages come within that time."""
    return now if kind in AT_ONCE else now + timedelta(minutes=every_minutes)
