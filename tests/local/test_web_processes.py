"""How many web processes a start makes: one for each two cores that it may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opsledger.local.options import read_options
from opsledger.local.programs import PLAN


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (64, 4)])
def test_one_for_each_two_cores(
    cores: int, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda number: set(range(cores)), raising=False)
    web = next(one for one in PLAN.lasting(read_options(tmp_path, {}), 0) if one.name == "web")
    assert web.command[web.command.index("--workers") + 1] == str(processes)
