"""Law 10: ways in which the proof of the journal once said that all is well."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection, transaction

from opsledger.engine.management.commands import verify_ledger
from opsledger.journal.append import Line, append, body, keep_text
from opsledger.journal.models import VerifyCheckpoint
from opsledger.journal.verify import FIRST, LAST, chains
from opsledger.ledger.actions.open import Opened
from tests.desk import Desk
from tests.proof import faults_found


def sql(statement: str, *values: object) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


@pytest.mark.parametrize("forged", ["{}", "no JSON", '{"reason":{"text":"x","digest":"y"}}'])
def test_a_line_that_was_put_behind_a_chains_head_is_found(desk: Desk, forged: str) -> None:
    """The application's role may insert; what it inserts beside the chain is no part of it."""
    opened, neighbour = desk.open(), desk.open()
    assert faults_found() == ""

    sql(
        "INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)"
        " SELECT subject_id, length + 1, subject_kind, now(), 'answered', 'command:forged', %s, head"
        " FROM journal_chain WHERE subject_id = %s",
        forged,
        opened.id,
    )

    said = faults_found()
    assert str(opened.id) in said
    assert str(neighbour.id) not in said


def test_a_subject_that_goes_on_while_it_is_read_is_no_fault(desk: Desk) -> None:
    desk.open()
    (batch,) = chains()
    desk.send()

    assert verify_ledger._verify_batch(batch)[1] == []


@pytest.fixture
def reasoned(desk: Desk) -> Opened:
    """An operation with a note of three texts, nested as deep as they come."""
    opened = desk.open()
    with transaction.atomic():
        texts = [keep_text(opened.id, text) for text in ("seen in the CRM", "asked Vera", "by order")]
        facts = {"reason": texts[0], "more": {"checked_how": texts[1]}, "list": [texts[2]]}
        append(
            [
                Line(
                    "operation",
                    opened.id,
                    "noted",
                    "person:00000000-0000-0000-0000-000000000001",
                    body(facts),
                )
            ]
        )
    assert faults_found() == ""
    return opened


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal_text SET text = 'never seen' WHERE text = %s",
        "UPDATE journal_text SET nonce = sha256(nonce) WHERE text = %s",
        "DELETE FROM journal_text WHERE text = %s",
    ],
)
@pytest.mark.parametrize("text", ["seen in the CRM", "asked Vera", "by order"])
def test_a_reason_that_is_not_what_was_written_is_found(
    reasoned: Opened, database_urls: object, statement: str, text: str
) -> None:
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:  # type: ignore[attr-defined]
        superuser.execute(statement, [text])

    assert str(reasoned.id) in faults_found()


def test_erased_texts_are_no_fault(reasoned: Opened) -> None:
    sql("UPDATE journal_text SET text = NULL, nonce = NULL, erased_at = now()")

    assert faults_found() == ""


def test_a_run_that_goes_on_forgets_no_fault_that_was_found_before(desk: Desk, database_urls: object) -> None:
    """It was interrupted after it had read the broken chain, and before it could say so."""
    broken = desk.open()
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:  # type: ignore[attr-defined]
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(
            "UPDATE journal_entry SET actor = 'command:somebody' WHERE seq = 1 AND subject_id = %s",
            [broken.id],
        )
    verify_ledger.verify_range(FIRST, LAST, None, resume=False)
    VerifyCheckpoint.objects.update(finished_at=None)

    assert str(broken.id) in faults_found("--resume")
