"""The journal as a file: complete, the team's own, and proof of itself."""

from __future__ import annotations

import html as markup
import json
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, transaction
from people import client_of, person
from scenes import Scenes, path_of
from test_waiting_page import waits

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Team
from opsledger.accounts.roles import Role
from opsledger.engine.loading import read_files
from opsledger.journal.append import Line, append, body
from opsledger.journal.hashing import GENESIS, entry_hash
from opsledger.journal.models import Chain, Entry
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import Operation
from opsledger.ledger.queries import audit, audit_export
from opsledger.local.postgres import Urls
from opsledger.rules.answers import Answer
from tests.desk import DEFINITIONS, Desk

PATH = "/audit/journal.jsonl"


def exported(scenes: Scenes, role: Role = Role.VIEWER, **filters: str) -> list[dict[str, Any]]:
    """The file as somebody takes it along, its last line too."""
    response = client_of(scenes.member(f"{role} {Entry.objects.count()}", role)).post(PATH, filters)
    assert response.status_code == 200
    assert response["Content-Type"] == "application/x-ndjson"
    assert response["Content-Disposition"] == 'attachment; filename="journal-desk.jsonl"'
    assert "no-store" in response["Cache-Control"]
    raw = b"".join(response).decode("ascii")
    assert raw.endswith("\n")
    return [json.loads(line, parse_constant=pytest.fail) for line in raw.splitlines()]


def everything(scenes: Scenes) -> None:
    """A journal with every kind of subject, and another team's beside it."""
    scenes.settle(scenes.unknown(), Answer.HAPPENED, reference="T-1")
    scenes.event_conflict()
    scenes.unapproved()
    scenes.replay()
    scenes.stopped()
    switch_sending(False, reason="A restored backup.", by="command:sending")
    other = add_team(slug="other", name="Other", fallback_owner=person("Rita"))
    load(other.pk, read_files([DEFINITIONS]), actor="command:test")
    Desk(other, scenes.desk.sandbox).open()


def of_the_page(team: Team) -> set[tuple[UUID, int]]:
    """Every entry that the pages of the journal show, read another way: back in time, window by window."""
    seen: set[tuple[UUID, int]] = set()
    before = None
    while True:
        page = audit.page_of(audit.Wanted(team.pk), before=before)
        seen |= {(line.subject_id, line.seq) for line in page.lines}
        if page.following is None:
            return seen
        before = page.following


@pytest.mark.parametrize(
    ("subjects", "entries", "long"),
    [(200, 100, 1_000), (1, 1, 1), (2, 3, 2)],
    ids=["as it is", "ones", "small"],
)
def test_the_file_is_all_that_the_pages_show_and_nothing_of_another_team(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch, subjects: int, entries: int, long: int
) -> None:
    for name, size in (("SUBJECTS", subjects), ("ENTRIES", entries), ("LONG", long), ("LINES", long)):
        monkeypatch.setattr(audit_export, name, size)
    everything(scenes)
    *lines, end = exported(scenes)
    named = [(UUID(line["subject_id"]), line["seq"]) for line in lines]
    assert len(named) == len(set(named)) == end["lines"]
    assert set(named) == of_the_page(scenes.desk.team)
    assert len(named) < Entry.objects.count()
    kinds = {line["subject_kind"] for line in lines}
    assert kinds >= {"operation", "event", "definition", "team", "content", "replay", "sending"}
    other = {str(pk) for pk in Operation.objects.exclude(team=scenes.desk.team).values_list("pk", flat=True)}
    assert other and not other & {line["subject_id"] for line in lines}
    rows = {(row.subject_id, row.seq): row for row in Entry.objects.all()}
    assert all(line["body"] == rows[one].body for one, line in zip(named, lines, strict=True))


def proven(lines: list[dict[str, Any]]) -> dict[str, tuple[int, str]]:
    """Every chain of a file proven by the file alone: its length and its head, by subject."""
    heads: dict[str, tuple[int, str]] = {}
    for line in lines:
        seq, head = heads.get(line["subject_id"], (0, GENESIS.hex()))
        assert (line["seq"], line["previous"]) == (seq + 1, head)
        at = datetime.fromisoformat(line["at"])
        made = entry_hash(
            bytes.fromhex(head), line["subject_kind"], UUID(line["subject_id"]), line["seq"], at, line["kind"],
            line["actor"], line["body"],
        )  # fmt: skip
        assert made.hex() == line["hash"]
        heads[line["subject_id"]] = (line["seq"], line["hash"])
    return heads


def test_every_chain_is_proven_by_the_file_alone(scenes: Scenes) -> None:
    everything(scenes)
    with transaction.atomic():  # as it is stored, byte for byte
        odd = '{"amount":1e2,"words":"\u2028 “é” \\u0041","n":1.10}'
        append([Line("team", scenes.desk.team.pk, "noted", "engine", odd)])
    *lines, _end = exported(scenes)
    heads = proven(lines)
    chains = {str(row.subject_id): (row.length, bytes(row.head).hex()) for row in Chain.objects.all()}
    assert heads == {subject: chains[subject] for subject in heads}
    assert odd in {line["body"] for line in lines}


@pytest.mark.parametrize("changed", ["body", "actor", "at", "kind", "hash", "previous", "subject_id"])
def test_a_changed_line_proves_nothing_any_more(scenes: Scenes, changed: str) -> None:
    scenes.unknown()
    *lines, _end = exported(scenes)
    place = next(place for place, line in enumerate(lines) if line["seq"] == 2)
    line = lines[place]
    wrong = {
        "at": "2020-01-01T00:00:00.000000Z",
        "subject_id": str(UUID(int=7)),
        "hash": "00" * 32,
        "previous": "11" * 32,
    }
    lines[place] = line | {changed: wrong.get(changed, line[changed] + " ")}
    with pytest.raises(AssertionError):
        proven(lines)


def test_the_last_line_says_how_many_there_were(scenes: Scenes) -> None:
    scenes.unknown()
    *lines, end = exported(scenes)
    assert end == {"end": True, "lines": len(lines), "team": str(scenes.desk.team.pk), "filters": {}}
    assert all("end" not in line for line in lines)


def test_a_filter_of_the_page_holds_for_the_file(scenes: Scenes) -> None:
    everything(scenes)
    *lines, end = exported(scenes, kind="answered", actor=f"person:{scenes.owner.pk}")
    assert {(line["kind"], line["actor"]) for line in lines} == {("answered", f"person:{scenes.owner.pk}")}
    assert end["filters"] == {"kind": "answered", "actor": f"person:{scenes.owner.pk}"}
    *lines, _end = exported(scenes, actor="worker")
    assert lines and {line["actor"].partition(":")[0] for line in lines} == {"worker"}
    assert all(
        entry_hash(
            bytes.fromhex(line["previous"]), line["subject_kind"], UUID(line["subject_id"]), line["seq"],
            datetime.fromisoformat(line["at"]), line["kind"], line["actor"], line["body"],
        ).hex() == line["hash"]
        for line in lines
    )  # fmt: skip


def test_who_took_it_along_is_written_before_it_leaves(scenes: Scenes) -> None:
    vera = scenes.member("Vera", Role.VIEWER)
    response = client_of(vera).post(PATH, {"kind": "answered"})
    line = Entry.objects.get(kind="exported")  # nothing of the file was read yet
    assert (line.subject_id, line.actor) == (scenes.desk.team.pk, f"person:{vera.pk}")
    assert json.loads(line.body) == {"what": "journal", "kind": "answered"}
    response.close()
    page = markup.unescape(client_of(vera).get("/audit/?kind=exported").content.decode())
    assert "Journal exported" in page


@pytest.mark.parametrize("role", list(Role))
def test_everybody_of_the_team_may_take_it_along(scenes: Scenes, role: Role) -> None:
    page = client_of(scenes.member(f"Page {role}", role)).get("/audit/?actor=worker").content.decode()
    assert f'action="{PATH}"' in page and 'name="actor" value="worker"' in page
    assert exported(scenes, role)[-1]["end"] is True


@pytest.mark.parametrize(
    "filters",
    [{"kind": "Maria called"}, {"kind": "maria_called"}, {"actor": "person:Maria"}, {"actor": "somebody"}],
)
def test_a_filter_that_is_no_word_of_ours_exports_nothing_and_is_not_written(
    scenes: Scenes, filters: dict[str, str]
) -> None:
    assert client_of(scenes.owner).post(PATH, filters).status_code == 400
    assert not Entry.objects.filter(kind="exported").exists()


def test_it_is_no_get_as_it_writes(scenes: Scenes) -> None:
    assert client_of(scenes.owner).get(PATH).status_code == 405
    assert not Entry.objects.filter(kind="exported").exists()


def test_free_text_stays_where_it_is_kept(scenes: Scenes) -> None:
    some = waits(scenes, 1)
    version = Operation.objects.get(pk=some[0].id).version
    client_of(scenes.owner).post(
        f"{path_of(some[0])}cancel", {"version": version, "reason": "Told by Maria Lopez."}
    )
    *lines, _end = exported(scenes)
    assert "cancel_requested" in {line["kind"] for line in lines}
    assert not any("Maria" in line["body"] for line in lines)


def test_what_is_appended_meanwhile_leaves_no_gap(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_export, "ENTRIES", 2)
    monkeypatch.setattr(audit_export, "LONG", 2)
    team = scenes.desk.team
    reading, lines = audit_export.lines_of(audit.Wanted(team.pk)), []
    for count, line in enumerate(reading):
        lines.append(json.loads(json.dumps(audit_export._entry(line))))
        if count < 20:
            with transaction.atomic():
                append([Line("team", team.pk, "noted", "engine", body({"count": count}))])
        assert not connection.in_atomic_block
    heads = proven(lines)
    assert heads[str(team.pk)][0] > 20


def test_a_batch_costs_the_same_whatever_history_there_is(scenes: Scenes, database_urls: Urls) -> None:
    opened = scenes.unknown()
    team = scenes.desk.team.pk
    with psycopg.connect(database_urls.superuser, autocommit=True) as server:
        server.execute("SET session_replication_role = replica")
        for table, row, own in (
            ("ledger_operation", opened.id, "operation_id = 'x' || n"),
            ("ledger_event", scenes.event_conflict().event_id, "event_key = decode(md5(n::text), 'hex')"),
        ):
            columns = server.execute(f"SELECT * FROM {table} LIMIT 0").description or []
            name, _eq, value = own.partition(" = ")
            given = {"id": "gen_random_uuid()", name: value}
            picked = ", ".join(given.get(one.name, f"t.{one.name}") for one in columns)
            names = ", ".join(one.name for one in columns)
            server.execute(
                f"INSERT INTO {table} ({names}) SELECT {picked} FROM generate_series(1, 20000) n,"
                f" (SELECT * FROM {table} WHERE id = '{row}') t"
            )
        server.execute(  # one long chain beside many short ones
            "INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)"
            " SELECT %s, 100 + n, 'team', now(), 'noted', 'engine', '{}', decode(md5(n::text), 'hex')"
            " FROM generate_series(1, 50000) n",
            [team],
        )
        server.execute("VACUUM (ANALYZE) ledger_operation, ledger_event, journal_entry")
    middle = UUID(int=2**127)
    asked = [
        audit_export.subjects_query(table, "id", team, middle)
        for table in ("ledger_operation", "ledger_event")
    ]
    asked += [
        (audit_export._ENTRIES, [[team], 40_000, 1_000]),
        (audit_export._ENTRIES, [[team, opened.id], 0, 100]),
    ]
    with connection.cursor() as cursor:
        for query, parameters in asked:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", parameters)
            plan = cursor.fetchone()[0][0]["Plan"]
            assert "Seq Scan" not in json.dumps(plan), json.dumps(plan, indent=1)
            assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 700, json.dumps(plan, indent=1)


def test_another_teams_journal_is_not_taken_along(scenes: Scenes) -> None:
    opened = scenes.unknown()
    rita = person("Rita")
    add_team(slug="aaa", name="Aaa", fallback_owner=rita)
    raw = b"".join(client_of(rita).post(PATH))
    assert str(opened.id).encode() not in raw
    assert str(scenes.desk.team.pk).encode() not in raw
