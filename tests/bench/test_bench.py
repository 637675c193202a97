"""The measurement runs, takes everything in turn, and says what it found. How fast anything is, is not a test's business."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from bench.figures import Goal, Line, Rounds, table
from bench.history import check_disk
from bench.house import NoServers
from tests.conftest import CHECKOUT


def run_bench(*words: str, without: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != without}
    command = [sys.executable, "-m", "bench", *words]
    return subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False, timeout=400
    )


TINY_RUNS = {
    ("intake", "worker", "pages", "replays"): (
        "intake over HTTP, one a request",
        "intake over HTTP, 500 a request",
        "worker, no-op wire, 2 processes",
        "inbox: page of 50, database",
        "replay: planning",
    ),
    ("selections",): (
        "selection: a whole view assigned, 1 process",
        "inbox: page of 50 of 60 open holds",
        "inbox: cards of incidents of 60 open holds",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(("parts", "names"), TINY_RUNS.items(), ids=["paths", "selections"])
def test_a_tiny_run_prints_a_line_with_its_ratio_for_everything_it_measured(
    parts: tuple[str, ...], names: tuple[str, ...]
) -> None:
    done = run_bench("--tiny", "--only", *parts)

    assert done.returncode == 0, done.stderr
    rows = {
        cells[1].strip(): cells for line in done.stdout.splitlines() if len(cells := line.split("|")) == 8
    }
    for name in names:
        assert re.fullmatch(r"\d+\.\d\d", rows[name][4].strip()), rows[name]


def test_without_private_servers_nothing_is_measured_and_the_command_is_named() -> None:
    done = run_bench("--tiny", without="TEST_ROOM")

    assert done.returncode == 1
    assert "Nothing was measured." in done.stderr and "make bench" in done.stderr


def test_history_that_does_not_fit_on_the_disk_is_not_loaded(tmp_path: os.PathLike[str]) -> None:
    with pytest.raises(NoServers, match=r"Nothing was loaded\."):
        check_disk(tmp_path, 10**12)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("goal", "value", "word"),
    [
        pytest.param(Goal(0.2, 0.14), 0.2, "reached", id="at-the-goal"),
        pytest.param(Goal(0.2, 0.14), 0.15, "missed", id="between-goal-and-floor"),
        pytest.param(Goal(0.2, 0.14), 0.13, "too low", id="below-the-floor"),
        pytest.param(Goal(1.5, 2.5, low=True), 1.4, "reached", id="less-is-better"),
        pytest.param(Goal(1.5, 2.5, low=True), 3.0, "too high", id="above-the-ceiling"),
    ],
)
def test_a_ratio_is_judged_by_its_goal_and_its_floor(goal: Goal, value: float, word: str) -> None:
    assert goal.judged(value) == word


def test_measurements_are_taken_in_turn_and_their_median_counts() -> None:
    order: list[str] = []
    values = iter([1.0, 9.0, 2.0])
    rounds = Rounds(3)

    rounds.measure(
        limit=lambda: order.append("limit") or 7.0,  # type: ignore[func-returns-value]
        ours=lambda: order.append("ours") or next(values),  # type: ignore[func-returns-value]
    )

    assert order == ["limit", "ours"] * 3
    assert rounds["ours"] == 2.0
    row = table([Line("intake", rounds["ours"], "op/s", "plain SQL", rounds["limit"], Goal(0.2, 0.1))])
    assert "0.29" in row and "reached" in row
