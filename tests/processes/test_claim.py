"""Claims under contention: one open attempt per step, never more than asked for (laws 1 and 2; field case K7)."""

from __future__ import annotations

import threading

import psycopg
import pytest
from django.db import connections
from psycopg import sql

from opsledger.ledger.actions.claim import ClaimedSend, claim_sends
from tests.lock_waits import WAITING
from tests.processes.house import House, until

CLAIM_ON_A_WORD = """
import sys
from opsledger.ledger.actions.claim import claim_sends
print("up", flush=True)
for line in sys.stdin:
    print(len(claim_sends(1, worker=line.strip())), flush=True)
"""


def test_two_processes_on_one_step_open_one_attempt(house: House) -> None:
    rivals = [house.python(CLAIM_ON_A_WORD) for _ in range(2)]
    assert [_line(one) for one in rivals] == ["up", "up"]
    won = []
    for _ in range(25):
        (opened,) = house.open()
        for one in rivals:
            one.stdin.write("rival\n")
            one.stdin.flush()
        won.append(sorted(int(_line(one)) for one in rivals))
        assert len(house.attempts(opened)) == 1
    for one in rivals:
        one.communicate()

    assert won == [[0, 1]] * 25
    house.check_laws()


def _line(process: object) -> str:
    return str(process.stdout.readline()).strip()  # type: ignore[attr-defined]


def test_the_database_refuses_a_second_open_attempt(house: House) -> None:
    (opened,) = house.open()
    claim_sends(1, worker="first")

    with pytest.raises(psycopg.errors.UniqueViolation, match="one_open_attempt_per_step"):
        house.rows(
            "INSERT INTO ledger_attempt (id, operation_id, step_id, number, revision, worker, opened_at, lease_ends_at,"
            " phase, error, sentence) SELECT gen_random_uuid(), operation_id, step_id, 2, 1, 'second', now(),"
            " now() + interval '1 minute', '', '', '' FROM ledger_attempt RETURNING id"
        )

    assert len(house.attempts(opened)) == 1


@pytest.mark.parametrize("plan", ["as it comes", "nested loops"])
def test_a_claim_never_takes_more_than_it_asked_for_nor_a_step_twice(house: House, plan: str) -> None:
    if plan == "nested loops":
        _without_statistics_or_joins_but_nested_loops(house)
    house.open("classic_follow_up", 500)
    house.open("campaign_follow_up", 500)
    claims: list[list[ClaimedSend]] = []
    broken: list[BaseException] = []

    def rival() -> None:
        try:
            while house.value("SELECT count(*) FROM ledger_step WHERE act = 'send'"):
                claims.append(claim_sends(5, worker="rival"))
        except BaseException as why:
            broken.append(why)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=rival) for _ in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert not broken
    assert max(len(claim) for claim in claims) == 5
    steps = [claimed.step_id for claim in claims for claimed in claim]
    assert len(steps) == len(set(steps)) == 1000
    house.check_laws()


def _without_statistics_or_joins_but_nested_loops(house: House) -> None:
    name = sql.Identifier(house.urls.app.rpartition("?")[0].rpartition("/")[2])
    with house.connection() as connection:
        for setting in ("enable_hashjoin", "enable_mergejoin", "enable_material"):
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = off").format(name, sql.Identifier(setting))
            )
        for table in ("ledger_operation", "ledger_step", "ledger_destination"):
            connection.execute(
                sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = off)").format(sql.Identifier(table))
            )
    connections.close_all()


def test_claims_lock_destinations_in_the_order_of_their_ids(house: House) -> None:
    """In any other order two claims over the same destinations would wait for each other."""
    house.open("classic_follow_up")
    house.open("campaign_follow_up")
    first, second = house.rows(
        "SELECT definition_id AS id FROM ledger_destination WHERE slug IN ('crm', 'crm_classic') ORDER BY 1"
    )
    house.rows(
        "UPDATE ledger_destination SET version = version WHERE definition_id = %s RETURNING 1", first["id"]
    )
    lock = "SELECT FROM ledger_destination WHERE definition_id = %s FOR NO KEY UPDATE"
    with psycopg.connect(house.urls.superuser) as holder, house.connection() as witness:
        holder.execute(lock, [first["id"]])
        rival = threading.Thread(target=lambda: (claim_sends(5, worker="rival"), connections.close_all()))
        rival.start()
        until(lambda: house.value(WAITING), "the claim to wait for the first", every=0.01)
        witness.execute(f"{lock} NOWAIT", [second["id"]])
        holder.rollback()
        rival.join()

    assert house.states(1) == {"in_flight": 2}


def _move_behind(house: House, row: object, other: object) -> None:
    """Rewrites a row until it lies behind the other: a plain scan then meets them in the wrong order."""
    places = (
        "SELECT a.ctid > b.ctid FROM ledger_destination a, ledger_destination b"
        " WHERE a.definition_id = %s AND b.definition_id = %s"
    )
    rewrite = "UPDATE ledger_destination SET version = version WHERE definition_id = %s RETURNING 1"
    until(
        lambda: house.rows(rewrite, row) and house.value(places, row, other), "the row to lie behind", every=0
    )
