"""Readiness says whether intake may go on, and whether work is done; metrics are not for everybody."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from api_world import World, deliver, event
from django.db import connection
from django.test import Client
from django.utils import timezone

from opsledger.ledger.models import Canary, Step
from opsledger.ledger.queries import readiness


def test_ready_when_the_database_has_every_migration(db: None) -> None:
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.content) == (200, b"ready\n")
    assert answer["Cache-Control"] == "no-store"


def test_not_ready_while_a_migration_is_missing(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_leaves", lambda: (("ledger", "9999_later"),))
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"Migrations are missing: ledger.9999_later.\n")


def test_not_ready_while_the_database_is_away(transactional_db: None) -> None:
    connection.close()
    port = connection.settings_dict["PORT"]
    connection.settings_dict["PORT"] = "9"
    connection.settings_dict["HOST"], host = "127.0.0.1", connection.settings_dict["HOST"]
    try:
        answer = Client().get("/readyz")
        work = Client().get("/readyz/work")
    finally:
        connection.close()
        connection.settings_dict["PORT"], connection.settings_dict["HOST"] = port, host
    assert (answer.status_code, answer.content) == (
        503,
        b"The database can't be reached (OperationalError).\n",
    )
    assert work.status_code == 503


def canary(seconds: float) -> None:
    Canary.objects.create(name="dispatch", finished_at=timezone.now() - timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("seconds", "status"), [(None, 503), (5, 200), (61, 503)], ids=["never", "lately", "too long ago"]
)
def test_work_is_done_when_a_task_finished_lately(
    db: None, broker_url: str, seconds: float | None, status: int
) -> None:
    if seconds is not None:
        canary(seconds)
    assert Client().get("/readyz/work").status_code == status


def test_work_is_not_done_without_a_broker(db: None, settings: Any) -> None:
    canary(1)
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    answer = Client().get("/readyz/work")
    assert answer.status_code == 503
    assert b"broker" in answer.content
    assert Client().get("/readyz").status_code == 200


# Metrics

SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.]+')


def test_the_figures_are_in_prometheus_form(world: World) -> None:
    world.record()
    Step.objects.filter(number=1).update(act_at=timezone.now() - timedelta(seconds=90))
    deliver(event(1), headers={})
    deliver(event(1))
    deliver(event(1, data={"subject": "Else"}))
    text = Client().get("/metrics").content.decode()
    lines = text.splitlines()
    assert all(line.startswith("# ") or SAMPLE.fullmatch(line) for line in lines), text
    assert 'opsledger_open_holds{reason="event_conflict"} 1' in lines
    assert 'opsledger_due_steps{act="send"} 2' in lines
    assert 'opsledger_refusals_total{source="shop",reason="signature_missing"} 1' in lines
    oldest = next(line for line in lines if line.startswith("opsledger_oldest_due_seconds"))
    assert 85 < float(oldest.split()[1]) < 120


NOBODY: dict[str, Any] = {}
TOKEN: dict[str, Any] = {"METRICS_TOKEN": "secret"}
NEAR: dict[str, Any] = {"METRICS_ALLOWED_NETWORKS": ["10.0.0.0/24", "fd00::/8"]}
PROXY: dict[str, Any] = {"TRUSTED_PROXY_COUNT": 1}


@pytest.mark.parametrize(
    ("set_up", "headers", "address", "status"),
    [
        pytest.param(NOBODY, {}, "127.0.0.1", 200, id="here"),
        pytest.param(NOBODY, {}, "::1", 200, id="here, v6"),
        pytest.param(NOBODY, {}, "::ffff:127.0.0.1", 200, id="here, v4 in v6"),
        pytest.param(NOBODY, {}, "", 401, id="a socket without an address"),
        pytest.param(NOBODY, {}, "10.0.0.7", 401, id="elsewhere"),
        pytest.param(NOBODY, {"X-Forwarded-For": "127.0.0.1"}, "127.0.0.1", 401, id="forwarded"),
        pytest.param(PROXY, {"X-Forwarded-For": "127.0.0.1"}, "127.0.0.1", 401, id="forwarded by ours"),
        pytest.param(TOKEN, {}, "127.0.0.1", 401, id="no token"),
        pytest.param(TOKEN, {"Authorization": "Bearer wrong"}, "127.0.0.1", 401, id="wrong token"),
        pytest.param(TOKEN, {"Authorization": "Bearer \xe9"}, "127.0.0.1", 401, id="not ascii"),
        pytest.param(TOKEN, {"Authorization": "Bearer secret"}, "10.0.0.7", 200, id="right token"),
        pytest.param(NEAR, {}, "10.0.0.7", 200, id="in the network"),
        pytest.param(NEAR, {}, "fd00::7", 200, id="in the network, v6"),
        pytest.param(NEAR, {}, "10.0.1.7", 401, id="beside the network"),
        pytest.param(NEAR, {}, "127.0.0.1", 401, id="here, which is not in the network"),
        pytest.param(
            NEAR, {"X-Forwarded-For": "10.0.0.7"}, "10.0.0.1", 401, id="an unknown proxy in the network"
        ),
        pytest.param(NEAR | PROXY, {"X-Forwarded-For": "10.0.0.7"}, "10.9.0.1", 200, id="through our proxy"),
        pytest.param(NEAR | PROXY, {"X-Forwarded-For": "10.0.0.7, 8.8.8.8"}, "10.9.0.1", 401, id="claimed"),
        pytest.param(NEAR | PROXY, {}, "10.0.0.7", 200, id="beside our proxy"),
        pytest.param(NEAR | PROXY, {"X-Forwarded-For": ""}, "10.0.0.1", 401, id="forwarded for nobody"),
        pytest.param(
            NEAR | PROXY, {"X-Forwarded-For": "unknown"}, "10.0.0.1", 401, id="for whom is not told"
        ),
        pytest.param(
            NEAR | PROXY,
            {"X-Forwarded-For": "8.8.8.8:443"},
            "10.0.0.1",
            401,
            id="for an address with its port",
        ),
        pytest.param(
            NEAR | {"TRUSTED_PROXY_COUNT": 2},
            {"X-Forwarded-For": "8.8.8.8"},
            "10.0.0.1",
            401,
            id="by one of two",
        ),
        pytest.param(NEAR | TOKEN, {}, "10.0.0.7", 200, id="either: the network"),
        pytest.param(
            NEAR | TOKEN, {"Authorization": "Bearer secret"}, "8.8.8.8", 200, id="either: the token"
        ),
    ],
)
def test_who_may_read_the_figures(
    db: None, settings: Any, set_up: dict[str, Any], headers: dict[str, str], address: str, status: int
) -> None:
    for name, value in ({"METRICS_TOKEN": "", "METRICS_ALLOWED_NETWORKS": []} | set_up).items():
        setattr(settings, name, value)
    assert Client(REMOTE_ADDR=address).get("/metrics", headers=headers).status_code == status
