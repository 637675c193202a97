"""One verb over many holds, or over many steps that wait: the words of a bulk run. Which verb fits is in `bulk_verbs`."""

from __future__ import annotations

from enum import StrEnum

HOLDS_MAX = 10_000  # in one selection


class Verb(StrEnum):
    TAKE = "take"  # owned by whoever pressed it
    ASSIGN = "assign"
    CHECK_NOW = "check_now"
    NEXT_CHECK = "next_check"  # still unknown, until a chosen time
    NOTE = "note"
    END_FAILED = "end_failed"
    PLAN_REPLAY = "plan_replay"  # leads to a replay's plan; begins no run of its own
    HAPPENED = "happened"  # by the destination's list
    ABSENT = "absent"  # by the provider's statement
    CANCEL = "cancel"  # of the operations whose steps wait at a stopped destination


class BulkState(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"  # every item has its result
    ABORTED = "aborted"  # what had no result by then was left alone


class BulkResult(StrEnum):
    """What became of one item. An item that has none yet is still to come."""

    DONE = "done"
    SKIPPED = "skipped"  # changed since it was chosen
    REFUSED = "refused"  # the rules said no
    LEFT = "left"  # left alone: not matched, or the run was aborted before its turn
