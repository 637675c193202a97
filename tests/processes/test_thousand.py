"""A thousand operations, a destination on its worst day, and workers that die: every promise at once."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from pathlib import Path

from tests.desk import step_identity
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
    "reset_after_acting": 1,
    "cut_reply": 1,
    "silence_after_acting": 2,  # so that who dies leaves effects that nobody was told of
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
        _kill_with_an_untold_effect(house, house.worker(f"doomed-{name}"))
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
    # About once in twenty runs all five requests of some step are lost before they are acted upon.
    assert {row["reason"] for row in holds} <= {"outcome_unknown", "attempts_exhausted"}
    exhausted = house.rows(
        "SELECT s.identity FROM ledger_hold h JOIN ledger_step s ON s.id = h.step_id WHERE h.reason = 'attempts_exhausted'"
    )
    assert not [row for row in exhausted if effects[row["identity"]]]


def _kill_with_an_untold_effect(house: House, doomed: Running) -> None:
    """Kills a worker that has sent a message which was acted upon and not answered yet: nothing protects that one."""
    with contextlib.suppress(
        AssertionError
    ):  # on a slow machine the others may leave it nothing to do: it dies all the same
        until(
            lambda: _untold_effects(house, doomed.child.pid),
            f"{doomed.name} to have an untold effect",
            seconds=10.0,
            every=0.02,
        )
    doomed.kill()


def _untold_effects(house: House, parent: int) -> list[str]:
    """Identities of messages that a child of this process has in flight and that took effect."""
    open_messages = house.rows(
        "SELECT a.worker, s.operation_id, s.number FROM ledger_attempt a JOIN ledger_step s ON s.id = a.step_id"
        " WHERE a.outcome IS NULL AND s.number = 2 AND a.opened_at < now() - interval '0.2 seconds'"
    )
    children = _children(parent)
    mine = [row for row in open_messages if int(row["worker"].split(":")[1]) in children]
    identities = [step_identity(row["operation_id"], row["number"]) for row in mine]
    return [identity for identity in identities if house.sandbox.effects(identity=identity)]


def _children(parent: int) -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}
