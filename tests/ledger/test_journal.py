"""Law 10: the journal is append-only, chained, and says what the rows say."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.journal.hashing import GENESIS, entry_hash, text_digest
from opsledger.journal.models import Chain, Entry, ErasableText
from opsledger.ledger.models import Operation
from opsledger.lib.ids import new_id
from tests.desk import Desk
from tests.proof import faults_found


def refused(statement: str) -> str:
    with pytest.raises(DatabaseError) as why:
        run(statement)
    return str(why.value)


def run(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal_entry SET body = '{}'",
        "DELETE FROM journal_entry",
        "TRUNCATE journal_entry",
        "DELETE FROM journal_chain",
    ],
)
def test_the_application_has_no_right_to_change_the_journal(desk: Desk, statement: str) -> None:
    desk.open()

    assert "permission denied" in refused(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal_entry SET body = '{}'",
        "UPDATE journal_entry SET hash = hash",
        "DELETE FROM journal_entry",
        "TRUNCATE journal_entry",
        "DELETE FROM journal_chain",
        "UPDATE journal_chain SET length = length - 1",
        "UPDATE journal_chain SET head = '\\x00'::bytea",
        "TRUNCATE journal_chain",
        "UPDATE ledger_definitionversion SET body = '{}'",
        "UPDATE ledger_steprequest SET body = ''::bytea",
        "DELETE FROM ledger_steprequest",
        "DELETE FROM team",
        "UPDATE team SET id = gen_random_uuid()",
        "DELETE FROM ledger_definition",
        "UPDATE ledger_definition SET id = gen_random_uuid()",
        "DELETE FROM ledger_definitionversion",
    ],
)
def test_triggers_refuse_changes_to_the_owner_too(
    desk: Desk, owner_connection: psycopg.Connection, statement: str
) -> None:
    desk.open()
    desk.send()

    with pytest.raises(psycopg.errors.DatabaseError, match=r"refused|append-only|only grows"):
        owner_connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_step SET state = 'failed' WHERE number = 1",
        "UPDATE ledger_step SET reference = 'T-0' WHERE number = 1",
        "UPDATE ledger_operation SET state = 'failed', ended_at = now()",
        "UPDATE ledger_attempt SET outcome = 'no_change', no_change = 'rejected'",
    ],
)
def test_a_state_never_changes_without_a_line_in_the_journal(desk: Desk, statement: str) -> None:
    desk.open()
    desk.send()

    assert "without a line in the journal" in refused(statement)


TAMPERINGS = {
    "an entry's body": "UPDATE journal_entry SET body = replace(body, 'confirmed', 'accepted') WHERE kind = 'attempt_ended'",
    "an entry's time": "UPDATE journal_entry SET at = at + interval '1 second' WHERE seq = 2",
    "an entry's author": "UPDATE journal_entry SET actor = 'command:somebody' WHERE seq = 2",
    "an entry taken out of the middle": "DELETE FROM journal_entry WHERE seq = 2",
    "the last entry taken away": "DELETE FROM journal_entry e USING journal_chain c"
    " WHERE c.subject_id = e.subject_id AND e.seq = c.length AND e.subject_kind = 'operation'",
    "a chain's head": "UPDATE journal_chain SET head = sha256(head) WHERE subject_kind = 'operation'",
    "a chain removed": "DELETE FROM journal_chain WHERE subject_kind = 'operation'",
    "a step's state": "UPDATE ledger_step SET state = 'failed' WHERE number = 1",
    "a step's reference": "UPDATE ledger_step SET reference = 'T-0' WHERE number = 1",
    "an operation's state": "UPDATE ledger_operation SET state = 'failed', ended_at = now()",
    "an operation's cancellation": "UPDATE ledger_operation SET cancelled = true",
    "an attempt's outcome": "UPDATE ledger_attempt SET outcome = 'unknown', no_change = NULL",
    "an attempt removed": "DELETE FROM ledger_attempt WHERE id = (SELECT id FROM ledger_attempt LIMIT 1)",
    "tries granted": "UPDATE ledger_step SET tries_extra = 5 WHERE number = 1",
    "a step said to be never known": "UPDATE ledger_step SET never_known = true WHERE number = 1",
    "an operation removed": "DELETE FROM ledger_operation",
}


@pytest.mark.parametrize("statement", TAMPERINGS.values(), ids=TAMPERINGS.keys())
def test_with_triggers_off_a_change_is_found_and_its_subject_named(
    desk: Desk, database_urls: object, statement: str
) -> None:
    opened = desk.open()
    desk.send()
    assert faults_found() == ""

    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:  # type: ignore[attr-defined]
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(statement)

    said = faults_found()
    assert str(opened.id) in said or "definition" in said or "team" in said, said


@pytest.mark.django_db
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    actor=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=200),
    seq=st.integers(1, 2**31 - 1),
    at=st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    previous=st.binary(min_size=32, max_size=32),
)
def test_sql_and_python_compute_the_same_hash(
    kind: str, actor: str, text: str, seq: int, at: datetime, previous: bytes
) -> None:
    subject = UUID(int=7)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT journal_hash(%s::bytea, 'operation', %s, %s::int, %s, %s, %s, %s)",
            [previous, subject, seq, at, kind, actor, text],
        )
        in_sql = bytes(cursor.fetchone()[0])

    assert in_sql == entry_hash(previous, "operation", subject, seq, at, kind, actor, text)


def test_fields_can_not_be_shifted_into_each_other() -> None:
    at, subject = datetime(2026, 1, 1, tzinfo=UTC), UUID(int=1)

    one = entry_hash(GENESIS, "team", subject, 1, at, "ab", "c", "{}")

    assert one != entry_hash(GENESIS, "team", subject, 1, at, "a", "bc", "{}")


@pytest.mark.django_db
def test_stored_text_is_kept_byte_for_byte() -> None:
    subject = new_id()

    append([Line("team", subject, "test", "engine", '{"b":1e2,"a":1.10}')])

    assert Entry.objects.get(subject_id=subject).body == '{"b":1e2,"a":1.10}'


@pytest.mark.django_db
def test_several_lines_of_one_subject_keep_their_order() -> None:
    subject, other = new_id(), new_id()

    append(
        [Line("team", subject, kind, "engine", "{}") for kind in ("one", "two", "three")]
        + [Line("team", other, "n", "engine", "{}")]
    )

    assert list(Entry.objects.filter(subject_id=subject).order_by("seq").values_list("kind", flat=True)) == [
        "one",
        "two",
        "three",
    ]
    assert Chain.objects.get(pk=other).length == 1


def test_erasing_a_text_leaves_the_chain_whole(desk: Desk) -> None:
    opened = desk.open()
    with transaction.atomic():
        kept = keep_text(opened.id, "the customer's name is in here")
        append(
            [
                Line(
                    "operation",
                    opened.id,
                    "noted",
                    "person:00000000-0000-0000-0000-000000000001",
                    body({"note": kept}),
                )
            ]
        )
    row = ErasableText.objects.get(pk=kept["text"])
    assert text_digest(bytes(row.nonce or b""), row.text or "") == kept["digest"]

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE journal_text SET text = NULL, nonce = NULL, erased_at = now() WHERE id = %s", [row.pk]
        )

    assert faults_found() == ""
    with (
        pytest.raises(DatabaseError, match="erased_together"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("UPDATE journal_text SET text = 'back' WHERE id = %s", [row.pk])


def test_no_personal_data_is_in_an_operations_journal(desk: Desk) -> None:
    opened = desk.open(email="secret.person@customers.example", account="ACC-99991234")
    desk.send()

    for text in Entry.objects.filter(subject_id=opened.id).values_list("body", flat=True):
        assert "secret.person" not in text
        assert "99991234" not in text
    assert "ACC" not in Operation.objects.get(pk=opened.id).title


def test_verification_resumes_and_can_be_shared(desk: Desk) -> None:
    for _ in range(3):
        desk.open()
    desk.send()
    out = StringIO()

    call_command("verify_ledger", "--resume", stdout=out)
    call_command("verify_ledger", "--since", "2020-01-01T00:00:00Z", stdout=out)

    assert out.getvalue().count("All chains hold") == 2
