"""PostgreSQL restarted and connections cut: workers and web go on by themselves, nothing is sent twice (F4, K5)."""

from __future__ import annotations

import http.client
import os
import signal
from dataclasses import replace
from typing import Any

import psycopg
from django.db import connections

from opsledger.ledger.actions.claim import claim_sends
from opsledger.local.broker import free_port
from opsledger.local.programs import WORKER_PROCESSES
from opsledger.rules.definitions import DestinationDefinition
from opsledger.rules.profile import Timing
from tests.lock_waits import WAITING
from tests.processes.house import House, definitions, until

WORKERS = "datname = current_database() AND usename = 'opsledger_app' AND pid <> pg_backend_pid()"


def restart_at_once(house: House) -> None:
    """As when the machine loses power: no checkpoint, no goodbye."""
    os.kill(house.postgres.pid or 0, signal.SIGQUIT)
    until(lambda: house.postgres.exit_status() is not None, "PostgreSQL to end", every=0.01)
    house.postgres.start()


def cut(house: House, also: str = "true") -> int:
    """Ends the connections of everybody who uses the application's role."""
    return len(
        house.rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {WORKERS} AND {also}")
    )


def test_worker_and_web_go_on_after_postgres_was_restarted_under_load(house: House) -> None:
    worker, beat = house.worker(SEND_THREADS="8"), house.beat()
    port = free_port()
    web = house.run("web", house.program("web", port))
    until(lambda: _status(port) == 200, "web to be ready")
    house.sandbox.script("answer", None, method="POST", seconds=0.5)
    house.open("classic_follow_up", 60)
    connections.close_all()
    until(lambda: house.states()["confirmed"] >= 8, "the first to be confirmed", every=0.01)

    restart_at_once(house)

    until(lambda: house.states()["confirmed"] == 60, "all to be confirmed", seconds=60)
    until(lambda: _status(port) == 200, "web to be ready again")
    assert worker.alive and beat.alive and web.alive
    house.check_laws()


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def test_a_reply_in_hand_is_recorded_when_the_database_is_back(house: House) -> None:
    """Every connection is cut again and again while replies come in; each is kept, nobody asks or sends again for it."""
    house.worker(SEND_THREADS="16")
    house.sandbox.script("answer", None, method="POST", seconds=0.5)
    opened = house.open("classic_follow_up", 16)
    connections.close_all()
    house.bell("dispatch")
    until(lambda: len(house.sandbox.requests(method="POST")) == 16, "all to be in flight", every=0.02)

    for _ in range(8):
        until(lambda: cut(house) or not house.states()["in_flight"], "a connection to cut", every=0.01)

    until(lambda: house.states()["confirmed"] == 16, "all to be confirmed")
    assert [one["known_by"] for each in opened for one in house.attempts(each)] == ["reply"] * 16
    house.check_laws()


def test_a_worker_whose_idle_connections_were_cut_does_its_next_task(house: House) -> None:
    worker = house.worker()
    connections.close_all()
    for _ in range(6):
        before = _canary(house)
        house.bell("canary")
        until(lambda before=before: _canary(house) != before, "a sign of life")
        cut(house)

    assert "the database is away" not in worker.said


def _canary(house: House) -> Any:
    return house.value("SELECT max(finished_at) FROM ledger_canary")


def test_no_transaction_is_open_during_a_send_and_each_process_has_one_connection(house: House) -> None:
    house.worker()
    house.sandbox.script("silence_after_acting", 8, method="POST")
    house.open("classic_follow_up", 8)
    connections.close_all()
    house.bell("dispatch")
    until(lambda: len(house.sandbox.effects()) == 8, "eight sends that wait", every=0.01)

    house.bell("canary", 6)
    house.bell("sweep", 6)
    query = f"SELECT pid, extract(epoch FROM now() - xact_start)::float AS age FROM pg_stat_activity WHERE {WORKERS}"
    looks = []
    while house.states()["in_flight"] and len(looks) < 1_000:
        looks.append(house.rows(query))

    assert looks
    assert max(row["age"] or 0 for look in looks for row in look) < 0.5
    assert max(len(look) for look in looks) <= WORKER_PROCESSES


def test_the_sweep_comes_back_to_250_ended_leases_after_a_restart_in_its_middle(house: House) -> None:
    house.load(
        [_impatient(one) for one in definitions(house.sandbox.url) if isinstance(one, DestinationDefinition)]
    )
    house.open("classic_follow_up", 250)
    claimed = claim_sends(250, worker="dead")
    assert len(claimed) == 250
    until(
        lambda: house.value("SELECT bool_and(lease_ends_at < now()) FROM ledger_attempt"), "the leases to end"
    )
    connections.close_all()
    holder = psycopg.connect(house.urls.superuser)  # the sweep gets stuck in its first batch
    holder.execute("SELECT FROM ledger_operation WHERE id = %s FOR UPDATE", [claimed[100].operation_id])
    worker, _ = house.worker(), house.beat()
    until(lambda: house.value(WAITING), "the sweep to be in its middle", every=0.01)
    assert house.states() == {"in_flight": 250}

    restart_at_once(house)
    holder.close()

    done = "SELECT count(*) FROM ledger_attempt WHERE outcome IS NOT NULL"
    until(
        lambda: house.value(done) == 250, "all to be unknown by their lease, within two periods", seconds=12
    )
    kinds = house.rows(
        "SELECT kind, count(*) AS count FROM journal_entry WHERE kind = 'lease_ended' GROUP BY kind"
    )
    assert kinds == [{"kind": "lease_ended", "count": 250}]
    assert worker.alive


def _impatient(one: DestinationDefinition) -> DestinationDefinition:
    timing = Timing(0.2, 0.5, 1.0)
    actions = {name: replace(a, profile=replace(a.profile, timing=timing)) for name, a in one.actions.items()}
    return replace(one, actions=actions)
