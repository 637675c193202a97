"""Law 10: the journal says who by an id, a slug or an account, and the database takes no name, whoever writes it."""

from __future__ import annotations

import getpass
import importlib
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, transaction

from opsledger.engine.dispatch import worker_name
from opsledger.journal import migrations
from opsledger.journal.actor import acting_as, current_actor
from opsledger.journal.append import Line, append
from opsledger.journal.models import Entry
from opsledger.lib.ids import new_id

ID = "0198c0de-7a11-7000-8000-00000000abcd"
WRITTEN = [
    "engine",
    "web",
    f"person:{ID}",
    f"token:{ID}",
    "source:shop",
    "destination:crm_classic",
    "destination:crm-2",
    f"destination:{'a' * 63}",
    "command:root",
    "command:maria.lopez",
    "command:uid-1000",
    "worker:host-1.example:4711:0a1b2c3d",
]
REFUSED = [
    "",
    "Maria Lopez",
    "person:Maria",
    f"person:{ID.upper()}",
    f"person:{ID} ",
    f"person:{ID}\nMaria Lopez",
    "token:flow",
    f"token:{ID}, maria@customers.example",
    "source:Maria Lopez",
    "source:shop@customers.example",
    "destination:Maria Lopez, maria@customers.example",
    f"destination:{'a' * 149}",
    "person:ada-dee",
    "token:",
    f"token:{ID}0",
    "command:",
    "command:Maria Lopez",
    "command:maria@customers.example",
    "command:mária",
    "engine:crm",
    "somebody",
]


def written(actor: str) -> Any:
    subject = new_id()
    with transaction.atomic():
        append([Line("team", subject, "noted", actor, "{}")])
    return Entry.objects.get(subject_id=subject).actor


@pytest.mark.django_db
@pytest.mark.parametrize("actor", WRITTEN, ids=repr)
def test_who_is_an_id_a_slug_an_account_or_one_of_our_own_words(actor: str) -> None:
    assert written(actor) == actor


@pytest.mark.django_db
@pytest.mark.parametrize("actor", REFUSED, ids=repr)
def test_every_other_form_is_refused(actor: str) -> None:
    with pytest.raises(IntegrityError, match="entry_actor_is_no_name"):
        written(actor)

    assert not Entry.objects.filter(actor=actor).exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("account", "actor"),
    [
        ("maria.lopez", "command:maria.lopez"),
        ("Maria Lopez", f"command:uid-{os.getuid()}"),
        (r"HOUSE\maria", f"command:uid-{os.getuid()}"),
        ("", f"command:uid-{os.getuid()}"),
    ],
    ids=repr,
)
def test_a_command_acts_as_its_account_or_by_its_number(
    monkeypatch: pytest.MonkeyPatch, account: str, actor: str
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: account)

    assert written(current_actor()) == actor
    with acting_as("web"):
        assert current_actor() == "web"


@pytest.mark.django_db
@pytest.mark.parametrize("host", ["host-1.example", "Maria's notebook", "-", "höst", "x" * 90])
def test_a_worker_can_be_written_down_on_every_host(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: type("Named", (), {"nodename": host}))

    assert written(f"worker:{worker_name()}").startswith("worker:")


# Lines of older versions


def migration(named: str) -> Any:
    (found,) = Path(migrations.__path__[0]).glob(f"*_{named}.py")
    return importlib.import_module(f"{migrations.__name__}.{found.stem}")


VALIDATE, ADD = migration("actors_validated").VALIDATE, migration("actors").FORM


@pytest.mark.parametrize(("old", "valid"), [("destination:Maria Lopez", False), ("destination:crm", True)])
def test_a_line_of_an_older_version_stays_and_the_next_name_is_refused(
    owner_connection: psycopg.Connection, old: str, valid: bool
) -> None:
    """What can't be changed can't be mended; the check then holds for what is written from now on."""
    line = "INSERT INTO journal_entry VALUES (%s, 1, 'team', now(), 'noted', %s, '{}', '')"
    with owner_connection.transaction(force_rollback=True):
        owner_connection.execute("ALTER TABLE journal_entry DROP CONSTRAINT entry_actor_is_no_name")
        owner_connection.execute(line, [new_id(), old])
        check = psycopg.sql.SQL(
            "ALTER TABLE journal_entry ADD CONSTRAINT entry_actor_is_no_name CHECK (actor ~ {}) NOT VALID"
        )
        owner_connection.execute(check.format(psycopg.sql.Literal(ADD)))

        owner_connection.execute(VALIDATE)

        found = owner_connection.execute(
            "SELECT convalidated FROM pg_constraint WHERE conname = 'entry_actor_is_no_name'"
        ).fetchone()
        assert found == (valid,)
        with (
            pytest.raises(psycopg.errors.CheckViolation, match="entry_actor_is_no_name"),
            owner_connection.transaction(),
        ):
            owner_connection.execute(line, [new_id(), "destination:Maria Lopez"])
        owner_connection.execute(line, [new_id(), "destination:crm"])
