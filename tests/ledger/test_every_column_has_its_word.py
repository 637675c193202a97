"""Law 10: every column stays as it was recorded, follows the journal, or decides nothing (ledger/column_words.py)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from django.db import DatabaseError, connection, models, transaction
from django.utils import timezone
from psycopg import sql

from opsledger.accounts.absences import add_absence
from opsledger.accounts.actions import create_token, deactivate_person, revoke_token
from opsledger.accounts.permissions import Role
from opsledger.ledger.actions.intake import open_intended
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.actions.wanted import NamedEvent, Wanted
from opsledger.ledger.column_words import COLUMNS
from opsledger.ledger.models.replays import COUNTED
from opsledger.local.postgres import Urls
from opsledger.rules.states import HoldReason
from tests.by_hand import change_by_hand
from tests.console.scenes import Scenes
from tests.content_cast import make_cast
from tests.desk import AUTOMATION, Desk, params, step_identity, turn_recovery
from tests.ledger.test_what_the_database_refuses import MODELS, triggers
from tests.proof import faults_found

REFUSING = {
    "refuse_change", "refuse_rewrite", "refuse_move", "refuse_removal", "refuse_shorter_chain", "refuse_other_token",
}  # fmt: skip


# The list


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_column_has_its_word(model: type[models.Model]) -> None:
    given = COLUMNS[model._meta.db_table].words()
    every = [field.column for field in model._meta.local_fields if field.column]

    assert sorted({column for columns in given.values() for column in columns}) == sorted(every)
    assert not set(given["aside"]) & {*given["stays"], *given["proved"]}, "decisive, and not"
    assert all(len(columns) == len(set(columns)) for columns in given.values())


def test_no_other_table_is_in_the_list() -> None:
    assert set(COLUMNS) == {model._meta.db_table for model in MODELS}


STAYING = [(table, column) for table, words in COLUMNS.items() for column in words.words()["stays"]]


@pytest.mark.django_db
@pytest.mark.parametrize("table", sorted({table for table, _ in STAYING}))
def test_what_stays_is_kept_by_a_trigger(table: str) -> None:
    """And by none that looks at each row whatever the statement changes, where statements are many."""
    kept = [
        one
        for one in triggers(table)
        if "UPDATE" in one.events and not one.of_statement and one.function in REFUSING
    ]
    may_change = [
        column
        for of_table, column in STAYING
        if of_table == table and not any(not one.columns or column in one.columns for one in kept)
    ]
    assert may_change == []


# What becomes of a change by hand


@pytest.fixture
def world(desk: Desk) -> Scenes:
    """A row of nearly everything that a decision is made from."""
    scenes, cast = Scenes(desk), make_cast(desk)
    desk.letter()
    cast.approve(cast.newest(), cast.bert)
    desk.open()
    earlier = desk.open("classic_follow_up", operation_id="x")
    desk.sandbox.script("invalid", 1, method="POST", identity=step_identity(earlier.id, 1))
    desk.send()
    event = NamedEvent("shop", "evt-1")
    wanted = Wanted("y", "classic_follow_up", params("classic_follow_up"), replaces="x", event=event)
    open_intended(desk.team.pk, [wanted], AUTOMATION)
    scenes.unknown()
    scenes.replay()
    scenes.event_conflict()
    scenes.stopped(reason=HoldReason.PAUSED)
    _people(scenes)
    for sending in (False, True):
        switch_sending(sending, reason="a backup is restored", by="command:test")
    turn_recovery("create_task", on=True)
    assert faults_found() == ""
    return scenes


def _people(scenes: Scenes) -> None:
    vera, omar, gone = (scenes.member(name, Role.OPERATOR) for name in ("Vera", "Omar", "Otto"))
    now = timezone.now()
    add_absence(vera, scenes.desk.team, omar, begins_at=now, ends_at=now + timedelta(days=2))
    create_token(team=scenes.desk.team, name="flow", scopes=["record", "read"])
    revoke_token(create_token(team=scenes.desk.team, name="former", scopes=["read"]).token)
    deactivate_person(gone)


# Another value of each type, also where there was none.
OTHERS = {
    "uuid": "gen_random_uuid()",
    "text": "coalesce({0}, '') || 'x'",
    "character varying": "left(coalesce({0}, '') || 'x', 50)",
    "bytea": "sha256(coalesce({0}, ''))",
    "boolean": "NOT coalesce({0}, false)",
    "smallint": "coalesce({0}, 0) + 1",
    "integer": "coalesce({0}, 0) + 1",
    "bigint": "coalesce({0}, 0) + 1000",
    "double precision": "coalesce({0}, 0) + 1",
    "timestamp with time zone": "coalesce({0}, now()) + interval '1 second'",
    "jsonb": "'[\"T-0\"]'",
    "ARRAY": "{0} || '{{read}}'",
}
# Values that a constraint would not take, though another would be there: one that is taken.
TAKEN = {
    ("journal_entry", "actor"): "CASE WHEN actor = 'engine' THEN 'web' ELSE 'engine' END",
    (
        "ledger_operation",
        "state",
    ): "CASE state WHEN 'running' THEN 'held' ELSE 'running' END, ended_at = NULL",
    ("ledger_operation", "confirmed_count"): "CASE confirmed_count WHEN 0 THEN 1 ELSE 0 END",
    (
        "ledger_attempt",
        "outcome",
    ): "CASE outcome WHEN 'unknown' THEN 'confirmed' ELSE 'unknown' END, no_change = NULL",
    ("ledger_attempt", "no_change"): "CASE no_change WHEN 'rejected' THEN 'deferred' END",
    ("ledger_contentversion", "state"): "'superseded'",
    ("ledger_contentversion", "author_kind"): "'automation'",
    ("ledger_definition", "kind"): "CASE kind WHEN 'source' THEN 'workflow' ELSE 'source' END",
    ("ledger_approvedrequest", "voided_at"): "now(), void_reason = 'x'",
    ("ledger_step", "number"): "number + 7",
    ("ledger_step", "revision"): "revision + 1 WHERE approval_needed",
    ("ledger_step", "request_digest"): "request_digest || 'x' WHERE request_digest IS NOT NULL",
    ("ledger_step", "reference"): "reference || 'x' WHERE reference IS NOT NULL",
    ("ledger_step", "approval_needed"): "false WHERE approval_needed AND revision = 1",
    ("ledger_step", "approved_digest"): "approved_digest || 'x' WHERE approved_digest IS NOT NULL",
    ("ledger_step", "approved_until"): "approved_until + interval '1 day' WHERE approved_digest IS NOT NULL",
    ("ledger_step", "state"): "'skipped', act = 'none', act_at = NULL, reference = NULL",
    ("ledger_hold", "closed_at"): "now(), closed_by = 'evidence'",
    ("ledger_hold", "reason"): "'too_late'",
    ("ledger_hold", "facts"): """'{"found_unnamed": true}'""",
    ("ledger_hold", "step_id"): "CASE WHEN step_id IS NOT NULL THEN gen_random_uuid() END",
    ("ledger_hold", "destination_id"): "CASE WHEN destination_id IS NOT NULL THEN gen_random_uuid() END",
    ("ledger_hold", "event_id"): "CASE WHEN event_id IS NOT NULL THEN gen_random_uuid() END",
    ("ledger_replay", "state"): "'paused'",
    ("ledger_replayitem", "state"): "'ended', result = 'recovered', started_at = now(), ended_at = now()",
    ("ledger_replayitem", "result"): "'recovered', state = 'ended', started_at = now(), ended_at = now()",
    ("journal_chain", "subject_kind"): "CASE subject_kind WHEN 'team' THEN 'event' ELSE 'team' END",
    ("journal_entry", "seq"): "seq + 1000",
    **{("ledger_replay", name): f"{name} + 1, item_count = item_count + 1" for name in COUNTED},
    ("ledger_replay", "item_count"): "item_count + 1, kept_count = kept_count + 1",
    ("membership", "role"): "'viewer'",
    ("api_token", "kind"): "'personal', person_id = (SELECT id FROM person LIMIT 1), scopes = '{read}',"
    " expires_at = now() + interval '1 day'",
}


# It stays once it is there, and in the world below it is not.
ONCE = {("ledger_approvedrequest", "voided_at"), ("ledger_operationevent", "started")}


def changes_of(table: str, column: str) -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT data_type FROM information_schema.columns WHERE table_name = %s AND column_name = %s",
            [table, column],
        )
        kind = cursor.fetchone()[0]
    yield OTHERS[kind].format(column)
    if (table, column) in TAKEN:
        yield TAKEN[table, column]


@pytest.mark.parametrize(
    "table", sorted({table for table, _ in STAYING} - {"journal_chain", "journal_entry"})
)
def test_a_change_of_what_stays_is_refused(world: Scenes, table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        if not cursor.fetchone()[0]:
            pytest.skip("its trigger is there (see above), a row is not")
    changed = [
        column
        for of_table, column in STAYING
        if of_table == table
        for change in changes_of(table, column)
        if (table, column) not in ONCE and not _is_refused(f"UPDATE {table} SET {column} = {change}")
    ]
    assert changed == []


def _is_refused(statement: str) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            transaction.set_rollback(True)
    except DatabaseError:
        return True
    return False


PROVED = sorted(table for table, words in COLUMNS.items() if words.proved)


@pytest.mark.parametrize("table", PROVED)
def test_with_triggers_off_a_change_of_what_is_proved_is_found(
    world: Scenes, database_urls: Urls, table: str
) -> None:
    """Or a constraint refuses it, which no superuser gets round."""
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        rows = superuser.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert rows and rows[0], "no row to be changed"
        unseen = [
            column
            for column in COLUMNS[table].words()["proved"]
            if not any(_is_found(superuser, table, column, change) for change in changes_of(table, column))
        ]
    assert unseen == []


def _is_found(superuser: psycopg.Connection, table: str, column: str, change: str) -> bool:
    """Changes the first row that can be changed, proves, and puts the row back as it was."""
    name = sql.Identifier(table)
    superuser.execute(sql.SQL("CREATE TEMP TABLE kept AS TABLE {}").format(name))
    try:
        superuser.execute(f"UPDATE {table} SET {column} = {change}")
        return faults_found() != ""
    except (psycopg.errors.IntegrityError, psycopg.errors.DataError):
        return False  # another change is tried
    finally:
        superuser.execute(sql.SQL("DELETE FROM {}").format(name))
        superuser.execute(sql.SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE SELECT * FROM kept").format(name))
        superuser.execute("DROP TABLE kept")


# Damages


DAMAGES = {
    "a workflow's version is unknown": "UPDATE ledger_operation SET workflow_version_id = gen_random_uuid()",
    "a workflow's version is a destination's": "UPDATE ledger_operation SET workflow_version_id = (SELECT current_id"
    " FROM ledger_definition WHERE slug = 'crm')",
    "a destination's version is unknown": "UPDATE ledger_step SET destination_version_id = gen_random_uuid()",
    "a destination is unknown": "UPDATE ledger_step SET destination_id = gen_random_uuid()",
    "an action is unknown": "UPDATE ledger_step SET action = 'of_tomorrow'",
    "a performer is unknown": "UPDATE ledger_step SET performer = 'nobody'",
    "a step is another operation's": "UPDATE ledger_step SET operation_id = gen_random_uuid()",
    "a reference is let go": "DELETE FROM ledger_heldreference",
    "a step is removed": "DELETE FROM ledger_step WHERE number = 1",
    "a step has another number": "UPDATE ledger_step SET number = number + 7",
    "what was not ours is no list": "UPDATE ledger_step SET not_ours = '5'",
    "an attempt is of no step": "UPDATE ledger_attempt SET step_id = gen_random_uuid()",
    "an attempt is of another operation": "UPDATE ledger_attempt SET operation_id = (SELECT max(id::text)::uuid"
    " FROM ledger_operation)",
    "what an attempt is known by is unknown": "UPDATE ledger_attempt SET known_by = 'rumour'",
    "a hold's facts are no JSON": "UPDATE ledger_hold SET facts = '{'",
    "a hold is about no step": "UPDATE ledger_hold SET step_id = gen_random_uuid() WHERE step_id IS NOT NULL",
    "a hold is at no destination": "UPDATE ledger_hold SET destination_id = gen_random_uuid()"
    " WHERE destination_id IS NOT NULL",
    "parameters are no JSON": "UPDATE ledger_operationparams SET params = 'no JSON'",
    "parameters are removed": "DELETE FROM ledger_operationparams",
    "headers are no JSON": "UPDATE ledger_steprequest SET headers = '{'",
    "a request is removed": "DELETE FROM ledger_steprequest",
    "a version says nothing": "UPDATE ledger_definitionversion SET body = ''",
    "a version is removed": "DELETE FROM ledger_definitionversion",
    "a destination is removed": "DELETE FROM ledger_destination",
    "a definition is removed": "DELETE FROM ledger_definition",
    "a definition is of no version": "UPDATE ledger_definition SET current_id = gen_random_uuid()",
    "a recovery is of no destination": "UPDATE ledger_recovery SET destination_id = gen_random_uuid()",
    "a recovery is removed": "DELETE FROM ledger_recovery",
    "an event is removed": "DELETE FROM ledger_event",
    "an event's hold is removed": "DELETE FROM ledger_hold WHERE event_id IS NOT NULL",
    "an event of an operation is removed": "DELETE FROM ledger_operationevent",
    "a content is removed": "DELETE FROM ledger_content",
    "a content's version is removed": "DELETE FROM ledger_contentversion",
    "a content's version is of another content": "UPDATE ledger_contentversion SET of_id = gen_random_uuid()",
    "a replay is removed": "DELETE FROM ledger_replay",
    "a replay's items are removed": "DELETE FROM ledger_replayitem",
    "the switch is removed": "DELETE FROM ledger_sendingswitch",
    "a team is removed": "DELETE FROM team",
    "a role is of no team": "UPDATE membership SET team_id = gen_random_uuid()",
    "a token is removed": "DELETE FROM api_token",
    "an operation is removed": "DELETE FROM ledger_operation",
    "all operations are emptied": "TRUNCATE ledger_operation CASCADE",
    "a journal is emptied": "WITH gone AS (DELETE FROM journal_entry RETURNING subject_id)"
    " UPDATE journal_chain SET length = 0, head = decode(repeat('00', 32), 'hex')",
    "a line is no JSON": "UPDATE journal_entry SET body = '{'",
    "lines are no JSON, and the chain says so": """
        WITH line AS (UPDATE journal_entry SET body = '{"text":', hash = journal_hash(
                decode(repeat('00', 32), 'hex'), subject_kind, subject_id, seq, at, kind, actor, '{"text":')
              WHERE seq = 1 RETURNING subject_id, hash),
             gone AS (DELETE FROM journal_entry WHERE seq > 1)
        UPDATE journal_chain c SET length = 1, head = line.hash FROM line WHERE line.subject_id = c.subject_id""",
}  # fmt: skip


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES.keys())
def test_no_damage_ends_a_proof_before_it_has_named_what_it_found(
    world: Scenes, database_urls: Urls, statement: str
) -> None:
    assert change_by_hand(database_urls, statement) != 0

    said = faults_found()

    assert "does not hold: " in said
    assert "subjects do not hold" in said
