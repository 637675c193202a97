"""The states of a replay and of its items, and what ends each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ReplayState(StrEnum):
    RUNNING = "running"  # its items are started, at its rate
    PAUSED = "paused"  # nothing more is started until a person resumes it; what was started goes on
    ABORTING = "aborting"  # nothing more is started for good; what was started goes on
    ABORTED = "aborted"  # and all of that has ended
    FINISHED = "finished"  # every item has ended


class ItemState(StrEnum):
    WAITING = "waiting"  # for its turn
    STARTED = "started"  # and watched until its step comes to rest
    ENDED = "ended"  # its step came to rest: `ItemResult`
    SKIPPED = "skipped"  # it had moved since the plan
    ABORTED = "aborted"  # the replay was aborted before its turn came
    KEPT = "kept"  # done before
    REFUSED = "refused"  # could not run


class ItemResult(StrEnum):
    """How the step of an item came to rest. Only a proven effect counts as recovered."""

    RECOVERED = "recovered"
    ACCEPTED = "accepted"  # taken over by the destination, final effect not proven
    HELD = "held"  # a person is asked
    CLOSED_UNKNOWN = "closed_unknown"  # a person closed it as never known; nobody is asked any more
    FAILED = "failed"  # proven without effect, and ended
    CANCELLED = "cancelled"  # it, or its operation
    BEHIND = "behind"  # an earlier step did not get done


OPEN_REPLAYS = frozenset({ReplayState.RUNNING, ReplayState.PAUSED, ReplayState.ABORTING})
OPEN_ITEMS = frozenset({ItemState.WAITING, ItemState.STARTED})

# What the journal of a replay tells, and the state that each line leads to, from which.
LINES: Mapping[str, tuple[frozenset[ReplayState | None], ReplayState]] = {
    "replay_started": (frozenset({None}), ReplayState.RUNNING),
    "replay_paused": (frozenset({ReplayState.RUNNING}), ReplayState.PAUSED),
    "replay_resumed": (frozenset({ReplayState.PAUSED}), ReplayState.RUNNING),
    "replay_aborting": (frozenset({ReplayState.RUNNING, ReplayState.PAUSED}), ReplayState.ABORTING),
    "replay_aborted": (frozenset({ReplayState.ABORTING}), ReplayState.ABORTED),
    "replay_finished": (frozenset({ReplayState.RUNNING, ReplayState.PAUSED}), ReplayState.FINISHED),
}


def state_told(kinds: list[str]) -> ReplayState | None:
    """The state that the lines of a replay's journal lead to; None where one of them can't follow."""
    state: ReplayState | None = None
    for kind in kinds:
        come_from, goes_to = LINES.get(kind, (frozenset(), None))
        if state not in come_from or goes_to is None:
            return None
        state = goes_to
    return state
