"""Law 10 for the one switch: who turned it, why, and what it was; the row equals the fold of its chain."""

from __future__ import annotations

import json
from importlib import import_module
from io import StringIO

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections

from opsledger.accounts.actions import add_person, add_team
from opsledger.journal.models import Entry, ErasableText
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.sending import record_restored, switch_sending
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import SENDING_ID, SendingSwitch
from opsledger.ledger.queries import audit
from opsledger.local.postgres import Urls
from tests.proof import faults_found


def lines() -> list[tuple[str, str, dict[str, object]]]:
    rows = Entry.objects.filter(subject_id=SENDING_ID).order_by("seq").values_list("kind", "actor", "body")
    return [(kind, actor, json.loads(text)) for kind, actor, text in rows]


@pytest.mark.django_db
def test_a_switch_that_nobody_turned_needs_no_line() -> None:
    assert (lines(), faults_found()) == ([], "")


@pytest.mark.django_db
def test_each_turn_has_its_author_its_reason_and_what_was_before() -> None:
    call_command("sending", "off", reason="Mr Smith says so", stdout=StringIO())
    switch_sending(True, reason="done", by="command:olga")

    (off, first, one), (on, second, two) = lines()
    assert (off, one["sending"], one["was"]) == ("sending_off", False, True)
    assert (on, two["sending"], two["was"], second) == ("sending_on", True, False, "command:olga")
    assert first.startswith("command:")
    assert "Smith" not in json.dumps(one)
    assert ErasableText.objects.get(pk=one["reason"]["text"]).text == "Mr Smith says so"  # type: ignore[index]
    assert faults_found() == ""


@pytest.mark.django_db
def test_it_is_not_turned_without_a_reason() -> None:
    with pytest.raises(Refused):
        switch_sending(False, reason=" ", by="command:olga")
    assert (SendingSwitch.objects.get().sending, lines()) == (True, [])


@pytest.mark.django_db
def test_a_restored_backup_is_told_on_the_same_chain() -> None:
    until = database_now()
    switch_sending(False, reason="backup restored", by="command:olga")
    record_restored(until, actor="command:olga")

    assert lines()[1] == ("backup_restored", "command:olga", {"until": until.isoformat(), "operations": 0})
    assert faults_found() == ""


TAMPERINGS = {
    "turned on behind its back": "UPDATE ledger_sendingswitch SET sending = true",
    "another author": "UPDATE ledger_sendingswitch SET changed_by = 'command:somebody'",
    "another reason": "UPDATE ledger_sendingswitch SET reason = 'another'",
    "another time": "UPDATE ledger_sendingswitch SET changed_at = changed_at - interval '1 day'",
    "its row taken away": "DELETE FROM ledger_sendingswitch",
    "its chain taken away": "DELETE FROM journal_entry; DELETE FROM journal_chain",
    "its line changed": "UPDATE journal_entry SET body = replace(body, '\"sending\":false', '\"sending\":true')",
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", TAMPERINGS.values(), ids=TAMPERINGS.keys())
def test_a_switch_that_is_not_as_its_journal_says_is_found(database_urls: Urls, statement: str) -> None:
    switch_sending(False, reason="the CRM is down", by="command:olga")
    assert faults_found() == ""

    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(statement)

    assert f"sending {SENDING_ID}" in faults_found()


@pytest.mark.django_db
def test_an_erased_reason_leaves_the_proof_whole() -> None:
    switch_sending(False, reason="the CRM is down", by="command:olga")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE journal_text SET text = NULL, nonce = NULL, erased_at = now()")

    assert faults_found() == ""


@pytest.mark.django_db
def test_every_team_sees_it_in_its_audit() -> None:
    owner = add_person(email="o@test.example", display_name="O", password="correct horse battery")
    teams = [add_team(slug=slug, name=slug, fallback_owner=owner) for slug in ("one", "two")]
    switch_sending(False, reason="the CRM is down", by="command:olga")

    for team in teams:
        newest = audit.page_of(audit.Wanted(team.pk, kind="sending_off")).lines
        assert [(line.subject_kind, line.subject_name) for line in newest] == [("sending", "all")]


# From a release that kept no chain for the switch


@pytest.mark.django_db(transaction=True, databases=["default", "owner"])
def test_a_switch_that_was_turned_before_its_chain_began_is_told_by_the_migration(
    owner_connection: psycopg.Connection,
) -> None:
    owner_connection.execute(
        "UPDATE ledger_sendingswitch SET sending = false, reason = 'since May', changed_by = 'command:olga'"
    )
    assert "nobody turned the switch" in faults_found()

    with connections["owner"].schema_editor() as editor:
        import_module("opsledger.journal.migrations.0003_sending").tell_of_the_switch(None, editor)

    assert [(kind, actor, body["sending"]) for kind, actor, body in lines()] == [
        ("sending_off", "command:olga", False)
    ]
    assert faults_found() == ""
    switch_sending(True, reason="it is June", by="command:olga")
    assert faults_found() == ""
