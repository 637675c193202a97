"""Replays that stop by themselves: after so many unknown outcomes they pause, and a person decides whether they go on."""

from __future__ import annotations

from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger.models import Replay
from opsledger.rules.replay_words import ReplayState

STOP_AFTER_MAX = 1000

# Steps that this replay began, and whose outcome became unknown since it runs; no more are counted than stop it.
_UNKNOWN = """
SELECT count(*) FROM (
    SELECT 1 FROM ledger_replayitem i JOIN ledger_step s ON s.id = i.step_id
     WHERE i.replay_id = %s AND i.started_at IS NOT NULL AND s.state = 'unknown' AND s.unknown_at >= %s LIMIT %s
) unknown
"""


def record_replays_stopped() -> int:
    """Pauses each running replay in which as many outcomes are unknown as were allowed. Returns how many were paused.

    Counted since it was started or resumed, so that a person may let it go on. Nothing that was begun is taken back.
    """
    running = Replay.objects.filter(state=ReplayState.RUNNING.value, stop_after__isnull=False)
    return sum(_pause_if_due(replay_id) for replay_id in running.order_by("pk").values_list("pk", flat=True))


def _pause_if_due(replay_id: UUID) -> int:
    with transaction.atomic(durable=True):
        replay = Replay.objects.select_for_update(no_key=True).get(pk=replay_id)
        if replay.state != ReplayState.RUNNING.value or replay.stop_after is None:
            return 0
        unknown = _unknown_count(replay, replay.stop_after)
        if unknown < replay.stop_after:
            return 0
        replay.state, replay.version, replay.changed_by = ReplayState.PAUSED.value, replay.version + 1, ""
        replay.stopped_after = unknown
        replay.save(update_fields=["state", "version", "changed_by", "stopped_after"])
        facts = {"cause": "unknown_outcomes", "unknown_count": unknown, "stop_after": replay.stop_after}
        append([Line("replay", replay_id, "replay_paused", "engine", body(facts))])
        return 1


def _unknown_count(replay: Replay, most: int) -> int:
    since = replay.running_since or replay.started_at
    with connection.cursor() as cursor:
        cursor.execute(_UNKNOWN, [replay.pk, since, most])
        return int(cursor.fetchone()[0])
