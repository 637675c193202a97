"""`world` lives in a transaction that is rolled back; `live_world` commits: for threads, processes and real servers."""

from __future__ import annotations

import pytest
from api_world import SECRET, World, make_world


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TEST_SECRET", SECRET)


@pytest.fixture
def world(db: None) -> World:
    return make_world()


@pytest.fixture
def live_world(transactional_db: None) -> World:
    return make_world()
