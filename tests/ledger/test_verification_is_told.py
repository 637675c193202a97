"""A proof of the ledger says what it was: of all of it or of a part, whole or interrupted, and whether it held."""

from __future__ import annotations

from io import StringIO

import psycopg
import pytest
from django.core.management import CommandError, call_command

from opsledger.engine.management.commands import verify_ledger
from opsledger.journal.models import VerifyCheckpoint
from opsledger.journal.verify import FIRST, LAST
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries.audit import verification
from tests.desk import Desk


def verify(*options: str) -> str:
    """What the command said: its faults, or that all is well."""
    out, err = StringIO(), StringIO()
    try:
        call_command("verify_ledger", *options, stdout=out, stderr=err)
    except CommandError as why:
        return f"{err.getvalue()}{why}"
    return out.getvalue()


def forge(opened: Opened, database_urls: object) -> None:
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:  # type: ignore[attr-defined]
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(
            "UPDATE journal_entry SET actor = 'command:somebody' WHERE seq = 1 AND subject_id = %s",
            [opened.id],
        )


def test_a_proof_that_failed_is_not_told_as_one_that_held(desk: Desk, database_urls: object) -> None:
    broken = desk.open()
    assert "All chains hold" in verify()
    assert verification().faults_count == 0

    forge(broken, database_urls)
    assert str(broken.id) in verify()

    told = verification()
    assert told.faults_count == 1
    assert told.finished_at is not None


def test_a_proof_of_what_changed_lately_is_no_proof_of_all(desk: Desk) -> None:
    desk.open()

    assert "All chains hold" in verify("--since", "2020-01-01T00:00:00Z")

    assert verification().finished_at is None


def test_a_run_over_everything_does_not_go_on_from_one_over_a_part(desk: Desk, database_urls: object) -> None:
    """The interrupted one had passed over what did not change since its moment."""
    broken = desk.open()
    since = database_now()
    desk.open()
    forge(broken, database_urls)
    verify_ledger.verify_range(FIRST, LAST, since, resume=False)
    VerifyCheckpoint.objects.update(finished_at=None)

    assert str(broken.id) in verify("--resume")


def test_processes_share_a_proof_and_each_fault_is_told_once(desk: Desk, database_urls: object) -> None:
    opened = [desk.open() for _ in range(12)]
    forge(opened[0], database_urls)
    forge(opened[11], database_urls)

    said = verify("--jobs", "3")

    assert said.count("does not hold") == 2
    assert all(said.count(str(one.id)) == 1 for one in (opened[0], opened[11]))
    assert verification().faults_count == 2


@pytest.mark.parametrize("jobs", ["0", "33"])
def test_a_number_of_processes_that_makes_no_sense_is_refused(desk: Desk, jobs: str) -> None:
    assert "--jobs must be from 1 to 32" in verify("--jobs", jobs)


def test_what_processes_shared_is_not_taken_for_gone_on_with(desk: Desk) -> None:
    """Each run divides the work anew: there is no place to go on from, and nobody may think that there was."""
    assert "--resume" in verify("--jobs", "2", "--resume")
    assert verification().finished_at is None
