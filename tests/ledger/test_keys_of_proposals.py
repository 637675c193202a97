"""A proposed answer names a hold, a team and a person that are there; these keys can be added while people work."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from importlib import import_module

import psycopg
import pytest

from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.ledger.actions.propose import Thought, open_proposal
from opsledger.ledger.actions.settle import Decision
from opsledger.ledger.models import Hold, Proposal
from opsledger.local.postgres import Urls
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind
from tests.console.scenes import Scenes

keys = import_module("opsledger.ledger.migrations.0031_proposals_keys")
COLUMNS = pytest.mark.parametrize("column", keys.KEYS)


@pytest.fixture
def hold(scenes: Scenes) -> Hold:
    """A hold with one proposed answer."""
    found = scenes.hold(scenes.unknown())
    operator = scenes.member("Omar", Role.OPERATOR)
    decision = Decision(
        Answer.ABSENT_END, "Its log has no such task.", found.version, checked_how="Asked them."
    )
    open_proposal(found.pk, decision, by_person(operator), Thought(AuthorKind.PERSON))
    return found


@pytest.fixture(autouse=True)
def in_place(owner_connection: psycopg.Connection) -> Iterator[None]:
    """Whatever a test took away is there again after it."""
    yield
    owner_connection.execute("RESET lock_timeout")
    for column, (table, name) in keys.KEYS.items():
        owner_connection.execute(keys.ADD.format(column=column, parent=table, name=name))
        owner_connection.execute(keys.VALIDATE.format(name=name))


@pytest.fixture
def app(hold: Hold, database_urls: Urls) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_urls.app) as connection:
        yield connection


def write_like(connection: psycopg.Connection, **changed: str) -> None:
    """Another proposal like the one that is there."""
    (row,) = connection.execute("SELECT to_json(p)::text FROM ledger_proposal p").fetchall()
    other = json.loads(row[0]) | {"id": str(uuid.uuid4()), "proposer": "token:other"} | changed
    connection.execute(
        "INSERT INTO ledger_proposal SELECT * FROM json_populate_record(NULL::ledger_proposal, %s)",
        [json.dumps(other)],
    )


@COLUMNS
def test_a_proposal_of_nothing_is_refused_whoever_writes_it(
    app: psycopg.Connection, owner_connection: psycopg.Connection, column: str
) -> None:
    table, name = keys.KEYS[column]
    for anybody in (app, owner_connection):
        with pytest.raises(psycopg.errors.ForeignKeyViolation) as why, anybody.transaction():
            write_like(anybody, **{column: str(uuid.uuid4())})
        assert (why.value.diag.constraint_name, why.value.diag.table_name) == (name, "ledger_proposal")
        assert f'is not present in table "{table}"' in (why.value.diag.message_detail or "")
    assert Proposal.objects.count() == 1
    write_like(owner_connection)
    assert Proposal.objects.count() == 2


def test_a_proposal_by_a_token_names_no_person(app: psycopg.Connection) -> None:
    with app.transaction():
        write_like(app, proposer_person_id=None)  # type: ignore[arg-type]
    assert Proposal.objects.filter(proposer_person=None).count() == 1


@COLUMNS
def test_a_key_that_has_to_wait_gives_up_with_nothing_changed_and_is_added_when_asked_again(
    app: psycopg.Connection, owner_connection: psycopg.Connection, column: str
) -> None:
    table, name = keys.KEYS[column]
    owner_connection.execute(keys.REMOVE.format(parent=table, name=name))
    add = keys.ADD.format(column=column, parent=table, name=name)
    owner_connection.execute("SET lock_timeout = '100ms'")

    with app.transaction():
        app.execute("UPDATE ledger_hold SET reminded_at = reminded_at")
        app.execute("UPDATE team SET name = name")
        app.execute("UPDATE person SET theme = theme")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            owner_connection.execute(add)
        assert not standing(owner_connection, name)

    owner_connection.execute("RESET lock_timeout")
    owner_connection.execute(add)
    assert standing(owner_connection, name) == [(False,)]  # the rows that are there were not looked at yet
    with pytest.raises(psycopg.errors.ForeignKeyViolation), app.transaction():
        write_like(app, **{column: str(uuid.uuid4())})
    owner_connection.execute(keys.VALIDATE.format(name=name))
    assert standing(owner_connection, name) == [(True,)]


@COLUMNS
def test_the_rows_are_looked_at_while_others_write(
    app: psycopg.Connection, owner_connection: psycopg.Connection, column: str
) -> None:
    table, name = keys.KEYS[column]
    owner_connection.execute(keys.REMOVE.format(parent=table, name=name))
    owner_connection.execute(keys.ADD.format(column=column, parent=table, name=name))
    owner_connection.execute("SET lock_timeout = '100ms'")

    with app.transaction():
        app.execute("UPDATE ledger_hold SET reminded_at = reminded_at")
        app.execute("UPDATE team SET name = name")
        app.execute("UPDATE person SET theme = theme")
        write_like(app)
        owner_connection.execute(keys.VALIDATE.format(name=name))

    assert standing(owner_connection, name) == [(True,)]
    assert Proposal.objects.count() == 2


def standing(connection: psycopg.Connection, name: str) -> list[tuple[bool]]:
    return connection.execute("SELECT convalidated FROM pg_constraint WHERE conname = %s", [name]).fetchall()
