"""Notices as pages and messages read them: keyset pages, counts that end somewhere, and what a link leads to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection

from opsledger.ledger.models import Channel, Mailing, Notice
from opsledger.lib.ids import public
from opsledger.rules.notice_words import NoticeKind
from opsledger.rules.states import HoldReason

PAGE = 50
UNREAD_MAX = 99
TRIES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """One notice. Counts by reason, destination and workflow; nothing of a customer."""

    id: UUID
    kind: NoticeKind
    count: int
    made_at: datetime
    read: bool
    path: str  # of the page that it is about; a GET of it changes nothing
    about: str  # the operation's or the replay's id as people see it; "" for several or for others
    over: bool  # the hold has ended
    reasons: Mapping[str, int] = field(default_factory=dict)
    destinations: Mapping[str, int] = field(default_factory=dict)
    workflows: Mapping[str, int] = field(default_factory=dict)


def unread_count(person_id: UUID, team_id: UUID) -> int:
    """At most UNREAD_MAX + 1, by index."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT FROM ledger_notice WHERE person_id = %s AND team_id = %s"
            " AND read_at IS NULL LIMIT %s) unread",
            [person_id, team_id, UNREAD_MAX + 1],
        )
        return int(cursor.fetchone()[0])


def notices_of(
    person_id: UUID, team_id: UUID, *, before: UUID | None = None
) -> tuple[list[NoticeLine], bool]:
    """The newest first, from `before` on; and whether there are older ones."""
    rows = Notice.objects.filter(person_id=person_id, team_id=team_id)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows.select_related("hold").order_by("-id")[: PAGE + 1])
    return [_line(row) for row in found[:PAGE]], len(found) > PAGE


def notices_in(mailing_id: UUID) -> list[NoticeLine]:
    """Those of one message, oldest first."""
    rows = Notice.objects.filter(mailing_id=mailing_id).select_related("hold")
    return [_line(row) for row in rows.order_by("id")]


def _line(row: Notice) -> NoticeLine:
    facts = json.loads(row.facts)
    path, about = _place(row)
    return NoticeLine(
        id=row.pk,
        kind=NoticeKind(row.kind),
        count=row.count,
        made_at=row.made_at,
        read=row.read_at is not None,
        path=path,
        about=about,
        over=row.hold is not None and row.hold.closed_at is not None,
        reasons=facts.get("reasons", {}),
        destinations=facts.get("destinations", {}),
        workflows=facts.get("workflows", {}),
    )


def _place(row: Notice) -> tuple[str, str]:
    """The page that answers the notice, and the id to name it by."""
    hold = row.hold
    if row.replay_id is not None:
        text = public("rpl", row.replay_id)
        return f"/replays/{text}/", text
    if hold is None:
        return _SEVERAL.get(NoticeKind(row.kind), "/?view=mine"), ""
    if hold.operation_id is not None:
        text = public("op", hold.operation_id)
        if hold.reason == HoldReason.APPROVAL_NEEDED.value:
            return f"/approvals/holds/{public('hold', hold.pk)}/", text
        return f"/operations/{text}/", text
    if hold.destination_id is not None:
        return "/destinations/", ""
    return f"/holds/{public('hold', hold.pk)}/", ""


_SEVERAL = {
    NoticeKind.APPROVAL: "/approvals/",
    NoticeKind.DESTINATION_STOPPED: "/destinations/",
    NoticeKind.REPLAY_ENDED: "/replays/",
    NoticeKind.REPLAY_STOPPED: "/replays/",
    NoticeKind.DISPUTED: "/?reason=disputed",
}


@dataclass(frozen=True, slots=True)
class ChannelLine:
    channel: Channel
    tries: Sequence[Mailing]  # the last messages, newest first


def channels_of(team_id: UUID) -> list[ChannelLine]:
    """By name, without their addresses; a team has few."""
    channels = Channel.objects.filter(team_id=team_id, removed_at__isnull=True).defer("sealed")
    return [
        ChannelLine(channel, list(Mailing.objects.filter(channel=channel).order_by("-id")[:TRIES_SHOWN]))
        for channel in channels.select_related("made_by").order_by("name")
    ]


def last_mail_to(person_id: UUID) -> Mailing | None:
    return Mailing.objects.filter(person_id=person_id).order_by("-id").first()
