"""The switch for everything that leaves, and a restored backup: nothing is sent blindly (law 4)."""

from __future__ import annotations

import psycopg
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from opsledger.engine import dispatch
from tests.desk import WIRE
from tests.processes.house import House


def send(house: House) -> int:
    return dispatch.run_once(wire=WIRE, threads=8, claim_for_seconds=0.5).claimed


def test_nothing_leaves_while_sending_is_off(house: House) -> None:
    opened = house.open("classic_follow_up", 3)
    call_command("sending", "off", reason="the test says so", verbosity=0)

    assert send(house) == 0
    assert house.sandbox.requests() == []
    assert house.states() == {"ready": 3}

    call_command("sending", "on", reason="the test is done", verbosity=0)
    assert send(house) == 3
    assert [len(house.effects(one)) for one in opened] == [1, 1, 1]
    house.check_laws()


def test_what_a_restored_backup_has_forgotten_becomes_unknown_and_is_found_not_sent_again(
    house: House,
) -> None:
    sent, never_sent = house.open("campaign_follow_up"), house.open("campaign_follow_up")
    later = (
        "UPDATE ledger_step SET act_at = now() + interval '1 hour' WHERE operation_id = %s AND act = 'send'"
    )
    house.rows(f"{later} RETURNING id", never_sent[0].id)
    with _backup_of(house) as restore:
        assert send(house) == 2  # the task and the message of the first one
        until_time = house.value("SELECT now()").isoformat()
        restore()
    assert house.state(sent[0]) == house.state(never_sent[0]) == "ready"

    call_command("sending", "off", reason="backup restored", verbosity=0)
    call_command("after_restore", until=until_time, verbosity=0)
    assert house.states() == {"unknown": 4}
    assert send(house) == 0
    call_command("sending", "on", reason="looked at", verbosity=0)

    house.work_until(lambda: house.state(sent[0]) == "confirmed", "the forgotten task to be found")
    house.work_until(
        lambda: house.state(never_sent[0]) == "confirmed", "the other to be proven absent, and sent"
    )
    assert [len(house.sends(one)) for one in (*sent, *never_sent)] == [1, 1]
    assert len(house.effects(sent[0], 2)) == len(house.sends(sent[0], 2)) == 1
    assert (
        house.effects(never_sent[0], 2) == []
    )  # nobody knows; its destination can't prove it: a person decides
    house.check_laws()


class _backup_of:  # noqa: N801
    """A copy of the database that can take its place again."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.name = house.urls.app.rpartition("?")[0].rpartition("/")[2]

    def __enter__(self) -> object:
        self._copy(self.name, f"{self.name}_backup")
        return self.restore

    def restore(self) -> None:
        self._copy(f"{self.name}_backup", self.name)

    def _copy(self, source: str, target: str) -> None:
        connections.close_all()
        names = {"source": sql.Identifier(source), "target": sql.Identifier(target)}
        with psycopg.connect(self.house.urls.for_database("postgres").superuser, autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {target} WITH (FORCE)").format(**names))
            server.execute(
                sql.SQL("CREATE DATABASE {target} TEMPLATE {source} OWNER opsledger_owner").format(**names)
            )

    def __exit__(self, *_: object) -> None:
        connections.close_all()
        name = sql.Identifier(f"{self.name}_backup")
        with psycopg.connect(self.house.urls.for_database("postgres").superuser, autocommit=True) as server:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
