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


@pytest.mark.parametrize(
    ("token", "headers", "address", "status"),
    [
        ("", {}, "127.0.0.1", 200),
        ("", {}, "::1", 200),
        ("", {}, "10.0.0.7", 401),
        ("", {"X-Forwarded-For": "127.0.0.1"}, "127.0.0.1", 401),
        ("secret", {}, "127.0.0.1", 401),
        ("secret", {"Authorization": "Bearer wrong"}, "127.0.0.1", 401),
        ("secret", {"Authorization": "Bearer \xe9"}, "127.0.0.1", 401),
        ("secret", {"Authorization": "Bearer secret"}, "10.0.0.7", 200),
    ],
    ids=["here", "here, v6", "elsewhere", "forwarded", "no token", "wrong token", "not ascii", "right token"],
)
def test_who_may_read_the_figures(
    db: None, settings: Any, token: str, headers: dict[str, str], address: str, status: int
) -> None:
    settings.METRICS_TOKEN = token
    assert Client(REMOTE_ADDR=address).get("/metrics", headers=headers).status_code == status
