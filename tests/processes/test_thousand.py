"""A thousand operations, a destination on its worst day, and workers that die: every promise at once."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from tests.processes.house import House, Running, until

COUNT = 1_000
SECONDS_MAX = 120.0
# In a hundred writes: twenty lost replies, half of them after acting, and a few of each other unpleasantness.
WEIGHTS = {
    "answer": 70,
    "lose_reply_after_acting": 10,
    "lose_reply_before_acting": 10,
    "error_before_acting": 3,
    "error_after_acting": 3,
    "reset_after_acting": 2,
    "cut_reply": 2,
}
UNSETTLED = "SELECT count(*) FROM ledger_operation WHERE state NOT IN ('completed', 'held')"


def test_a_thousand_operations_with_lost_replies_and_dying_workers_have_no_effect_twice_and_lose_nothing(
    house: House,
) -> None:
    house.sandbox.random(2026, WEIGHTS)
    house.sandbox.mode(mail_delivery_seconds=0.2)
    started = time.monotonic()
    for _ in range(COUNT // 250):
        house.open("campaign_follow_up", 250)
    house.worker("steady")
    house.beat()
    for name in ("first", "second"):
        _kill_with_sends_in_flight(house, house.worker(f"doomed-{name}"))
    house.worker("third")

    until(
        lambda: house.value(UNSETTLED) == 0, "every operation to be completed or held", SECONDS_MAX, every=0.5
    )

    states = house.check_laws()
    effects = Counter(one["identity"] for one in house.sandbox.effects())
    attempts = house.rows(
        "SELECT outcome, known_by, count(*) AS count FROM ledger_attempt GROUP BY 1, 2 ORDER BY 1, 2"
    )
    holds = house.rows("SELECT reason, count(*) AS count FROM ledger_hold WHERE closed_at IS NULL GROUP BY 1")
    told = [
        f"{COUNT} operations in {time.monotonic() - started:.0f} s, {effects.total()} effects",
        str(dict(states)),
    ]
    told += [" ".join(map(str, row.values())) for row in (*attempts, *holds)]
    sys.stdout.write("\n".join(told) + "\n")

    assert max(effects.values()) == 1
    assert house.value("SELECT count(*) FROM ledger_operation") == COUNT
    assert house.value("SELECT count(*) FROM ledger_attempt WHERE known_by = 'lookup'") > 100
    assert states["confirmed"] > 1_500
    assert {row["reason"] for row in holds} <= {"outcome_unknown"}


def _kill_with_sends_in_flight(house: House, doomed: Running) -> None:
    until(
        lambda: _in_flight(house, doomed.child.pid), f"{doomed.name} to have something in flight", every=0.01
    )
    doomed.kill()


def _in_flight(house: House, parent: int) -> bool:
    """Whether a child of this process holds an open attempt."""
    workers = house.rows("SELECT worker FROM ledger_attempt WHERE outcome IS NULL")
    pids = {int(row["worker"].split(":")[1]) for row in workers}
    return bool(pids & _children(parent))


def _children(parent: int) -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}
