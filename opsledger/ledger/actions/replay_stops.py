"""Replays that stop by themselves, and wait for a person who lets them go on or aborts them.

Each pauses after so many unknown outcomes as its start allowed, and when whoever answers for it may not start replays any
more: what a replay begins is their answer, through no worker either. Nothing that was begun is taken back.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection, transaction

from opsledger.accounts.permissions import Permission, roles_with
from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.notices import News, tell_here
from opsledger.ledger.models import Replay
from opsledger.rules.notice_words import NoticeKind
from opsledger.rules.replay_words import ReplayState

STOP_AFTER_MAX = 1000

# Steps that this replay began, and whose outcome became unknown since it runs; no more are counted than stop it.
_UNKNOWN = """
SELECT count(*) FROM (
    SELECT 1 FROM ledger_replayitem i JOIN ledger_step s ON s.id = i.step_id
     WHERE i.replay_id = %s AND i.started_at IS NOT NULL AND s.state = 'unknown' AND s.unknown_at >= %s LIMIT %s
) unknown
"""
# Active people of a team whose roles let them start a replay.
_MAY_START = """
SELECT DISTINCT m.person_id FROM membership m JOIN person p ON p.id = m.person_id
 WHERE m.team_id = %s AND m.role = ANY(%s) AND p.is_active
"""


def record_replays_stopped() -> int:
    """Pauses each running replay that is to stop. Returns how many were paused.

    Unknown outcomes are counted since it was started or resumed, so that a person may let it go on.
    """
    running = Replay.objects.filter(state=ReplayState.RUNNING.value).order_by("pk")
    return sum(_pause_if_due(replay_id) for replay_id in running.values_list("pk", flat=True))


def _pause_if_due(replay_id: UUID) -> int:
    with transaction.atomic(durable=True):
        replay = Replay.objects.select_for_update(no_key=True).get(pk=replay_id)
        if replay.state != ReplayState.RUNNING.value:
            return 0
        if paused_without_right_here(replay):
            return 1
        unknown = _unknown_count(replay, replay.stop_after) if replay.stop_after else 0
        if not replay.stop_after or unknown < replay.stop_after:
            return 0
        replay.stopped_after = unknown
        facts = {"cause": "unknown_outcomes", "unknown_count": unknown, "stop_after": replay.stop_after}
        _pause(replay, facts, frozenset({replay.answers_for_id}))
        return 1


def paused_without_right_here(replay: Replay) -> bool:
    """Whether whoever answers for a running replay may not any more; it is paused then. Its row is locked by the caller."""
    may = _may_start(replay.team_id)
    if replay.answers_for_id in may:
        return False
    _pause(replay, {"cause": "not_allowed_any_more", "person": str(replay.answers_for_id)}, may)
    return True


def _pause(replay: Replay, facts: dict[str, Any], people: frozenset[UUID]) -> None:
    replay.state, replay.version, replay.changed_by = ReplayState.PAUSED.value, replay.version + 1, ""
    replay.save(update_fields=["state", "version", "changed_by", "stopped_after"])
    append([Line("replay", replay.pk, "replay_paused", "engine", body(facts))])
    tell_here([News(NoticeKind.REPLAY_STOPPED, replay.team_id, people, replay_id=replay.pk)])


def _may_start(team_id: UUID) -> frozenset[UUID]:
    roles = [role.value for role in roles_with(Permission.START_REPLAY)]
    with connection.cursor() as cursor:
        cursor.execute(_MAY_START, [team_id, roles])
        return frozenset(row[0] for row in cursor.fetchall())


def _unknown_count(replay: Replay, most: int) -> int:
    since = replay.running_since or replay.started_at
    with connection.cursor() as cursor:
        cursor.execute(_UNKNOWN, [replay.pk, since, most])
        return int(cursor.fetchone()[0])
