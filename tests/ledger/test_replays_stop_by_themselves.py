"""A replay pauses by itself after so many unknown outcomes; a person decides whether it goes on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from opsledger.engine import replays
from opsledger.journal.models import Entry
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.replay_stops import record_replays_stopped
from opsledger.ledger.actions.replays import open_replay, settle_resume_replay
from opsledger.ledger.models import Destination, Recovery, Replay
from opsledger.ledger.queries.replays import replay_of
from tests.desk import Desk, step_identity
from tests.replaying import by_owner, frozen, items, planned, rejected, start_of


def begun(desk: Desk, *, stop_after: int | None, lost: int = 1, all_: int = 3) -> Replay:
    """A replay over so many rejected steps, of which the first `lost` get no reply; all that may go has been sent."""
    Recovery.objects.update(enabled=False)
    operations = [rejected(desk) for _ in range(all_)]
    for one in operations[:lost]:
        identity = step_identity(one.id, 1)
        desk.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=identity)
    made = planned(desk, operations)
    start = replace(start_of(made, mended=True), stop_after=stop_after, per_second={"crm_classic": 1.0})
    replay = open_replay(frozen(desk, made), start, by_owner(desk)).replay
    turn(desk)
    return replay


def turn(desk: Desk) -> None:
    """Begins what it may, sends it, and looks whether to stop."""
    replays.run_once()
    Destination.objects.update(send_tokens=100)
    desk.send()
    record_replays_stopped()


def test_it_pauses_with_its_cause_and_begins_nothing_more(desk: Desk) -> None:
    replay = begun(desk, stop_after=1)

    replay.refresh_from_db()
    assert (replay.state, replay.stopped_after, replay.version) == ("paused", 1, 2)
    entry = Entry.objects.get(subject_id=replay.pk, kind="replay_paused")
    assert entry.actor == "engine"
    assert json.loads(entry.body) == {"cause": "unknown_outcomes", "stop_after": 1, "unknown_count": 1}
    before = replay.waiting_count
    assert before == 2
    turn(desk)
    replay.refresh_from_db()
    assert replay.waiting_count == before
    line = replay_of(replay.pk, [desk.team.pk])
    assert line is not None
    assert (line.stop_after, line.stopped_after) == (1, 1)


@pytest.mark.parametrize("stop_after", [2, None], ids=["one is fewer than two", "it was not asked to"])
def test_fewer_unknown_outcomes_do_not_stop_it(desk: Desk, stop_after: int | None) -> None:
    replay = begun(desk, stop_after=stop_after)

    replay.refresh_from_db()
    assert (replay.state, replay.stopped_after) == ("running", None)


def test_one_without_unknown_outcomes_runs_on(desk: Desk) -> None:
    replay = begun(desk, stop_after=1, lost=0)

    replay.refresh_from_db()
    assert replay.state == "running"


def test_it_counts_anew_when_a_person_lets_it_go_on(desk: Desk) -> None:
    replay = begun(desk, stop_after=1)
    replay.refresh_from_db()

    settle_resume_replay(replay.pk, replay.version, "That one is known to be late.", by_owner(desk))

    assert record_replays_stopped() == 0
    replay.refresh_from_db()
    assert (replay.state, replay.stopped_after) == ("running", None)
    assert "waiting" in {state for state, _result, _said in items(replay).values()}


@pytest.mark.parametrize("stop_after", [0, 1001])
def test_a_number_that_can_not_be_is_refused(desk: Desk, stop_after: int) -> None:
    made = planned(desk, [rejected(desk)])
    with pytest.raises(Refused, match="1 to 1000 unknown outcomes"):
        open_replay(
            frozen(desk, made), replace(start_of(made, mended=True), stop_after=stop_after), by_owner(desk)
        )
    assert not Replay.objects.exists()
