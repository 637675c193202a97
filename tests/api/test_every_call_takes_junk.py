"""Every call of the OpenAPI document with junk in every place: a problem that says what to do, and nothing is written."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from api_world import Api, World
from django.db import connection, transaction
from test_content import Letters, letters, newest, record
from test_holds import unknown

from opsledger.accounts.permissions import AUTOMATION_GRANTS
from opsledger.api.calls import CALLS
from opsledger.api.routes import Call
from opsledger.ledger.models import Attempt, Hold, Operation
from opsledger.lib.ids import new_id, public

NESTED: Any = []
for _ in range(40):
    NESTED = [NESTED]
VALUES: tuple[Any, ...] = (
    None, True, -1, 10**30, 1e-7, "", "a\x00b", "\ud83d", "x" * 70_000, "op_", "2026-02-30T00:00:00Z", [[]],
    {"\x00": "\x00"}, NESTED,
)  # fmt: skip
TEXTS = (
    " ",
    "a\x00b",
    "\ufffd",
    "²",
    "-1",
    "9" * 400,
    "x" * 3_000,
    "%",
    "op_" + "z" * 26,
    "2026-11-30T00:00:00+23:59",
)
PREFIXES = ("op", "hold", "att", "cv", "prop", "rpl", "evt", "dst")
# What a refused call may write: that it was refused, and that a token was used.
TOLD = {"ledger_refusal", "api_token"}


@contextmanager
def undone() -> Iterator[None]:
    """As if nothing had been asked."""
    whole = transaction.atomic()
    whole._from_testcase = True  # type: ignore[attr-defined]  # what is durable may be inside
    with whole:
        yield
        transaction.set_rollback(True)


def tables() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_stat_user_tables WHERE relname !~ '^django_' ORDER BY relname")
        return [name for (name,) in cursor.fetchall() if name not in TOLD]


def contents(names: list[str]) -> dict[str, Any]:
    found = {}
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {name} t")
            found[name] = cursor.fetchone()
    return found


def touched(names: list[str]) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables")
        return {name: count for name, count in cursor.fetchall() if name in names}


@pytest.fixture
def w(db: None) -> Letters:
    """Something behind every kind of id."""
    made = letters()
    record(made)
    made.record("by:hand", "by_hand")
    made.auto.post("/operations/by:hand/steps/create_task/claim")
    made.record("other:hand", "by_hand")
    hold = unknown(made)
    body = {"answer": "happened", "reference": "T-1", "reason": "The log names it."}
    made.auto.post(f"/holds/{hold['id']}/propose", body, if_match=hold["version"])
    return made


def places(w: World, call: Call) -> dict[str, str]:
    """An id that is there for each name in the call's path."""
    hold = Hold.objects.filter(reason="outcome_unknown").first()
    assert hold is not None
    known = {
        "operation": public("op", Operation.objects.get(operation_id="by:hand").pk),
        "step": "create_task",
        "hold": public("hold", hold.pk),
        "attempt": public("att", Attempt.objects.latest("opened_at").pk),
        "version": newest(w)["id"],
        "content": "letter:a",
        "replay": public("rpl", new_id()),
        "proposal": w.owner.get(f"/holds/{public('hold', hold.pk)}").json()["proposals"][0]["id"],
    }
    return {name: value for name, value in known.items() if f"{{{name}}}" in call.path}


def variants(example: Any) -> Iterator[Any]:
    """The example with each of its values replaced by each junk, left out, or with another beside it."""
    for path in paths_of(example):
        for value in VALUES:
            yield changed(example, path, value)
    yield from ({**example, "unknown": 1}, {}, [], None, "text", {"\x00": 1}, {"\ud83d": 1})


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*path, name)
        yield from paths_of(one, (*path, name))


def changed(example: Any, path: tuple[Any, ...], value: Any) -> Any:
    whole = copy.deepcopy(example)
    at = whole
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return whole


def requests_of(call: Call, known: dict[str, str]) -> Iterator[tuple[str, dict[str, str], Any, object]]:
    """Paths, queries, bodies and versions to be sent."""
    path, example = call.path.format(**known), dict(call.example)
    version: object = 1 if call.versioned else None
    for name in known:
        for text in (*TEXTS, *(public(prefix, new_id()) for prefix in PREFIXES)):
            yield call.path.format(**(known | {name: quote(text, safe="")})), {}, example, version
    for name in (*(query.name for query in call.query), "unknown"):
        for text in TEXTS:
            yield path, {name: text}, example, version
    if call.method == "POST":
        yield from ((path, {}, body, version) for body in variants(example))
    if call.versioned:
        for text in ("", "*", 'W/"1"', '"1", "2"', "²", "9" * 12, '"x'):
            yield path, {}, example, text


def ask(api: Api, call: Call, path: str, query: dict[str, str], body: Any, version: object) -> Any:
    if call.method == "GET":
        return api.get(path, query)
    headers = {"If_Match": version} if isinstance(version, str) else {"if_match": version}
    if query:  # shapes are known by the path alone
        assert api.post(f"{path}?{urlencode(query)}", json.dumps(body).encode(), **headers).status_code == 422
    return api.post(path, json.dumps(body).encode(), **headers)


TAGS = sorted({call.tag for call in CALLS})


@pytest.mark.parametrize("tag", TAGS)
def test_junk_is_a_problem_and_writes_nothing(w: Letters, tag: str) -> None:
    """Whatever is answered is held against its documented shape (`Api`), and is no 500."""
    names = tables()
    before = contents(names)
    for call in (call for call in CALLS if call.tag == tag):
        known, caller = places(w, call), w.auto if call.permission in AUTOMATION_GRANTS else w.owner
        for path, query, body, version in requests_of(call, known):
            with undone():
                counts = touched(names)
                answer = ask(caller, call, path, query, body, version)
                if answer.status_code >= 400 and touched(names) != counts:
                    assert contents(names) == before, (path, str(body)[:200], answer.content)


def test_what_another_team_has_is_not_there(w: Letters) -> None:
    """Neither to be read nor to be changed, with any permission elsewhere."""
    names = tables()
    before = contents(names)
    of_things = [call for call in CALLS if "{" in call.path and "{content}" not in call.path]
    for call in (call for call in of_things if call.name != "start_replay"):
        path, version = call.path.format(**places(w, call)), 1 if call.versioned else None
        for caller in (w.other_owner, w.other):
            answer = ask(caller, call, path, {}, dict(call.example), version)
            assert answer.status_code in {403, 404}, (path, answer.content)
        answers = [ask(one, call, path, {}, dict(call.example), version) for one in (w.other_owner, w.other)]
        assert 404 in {answer.status_code for answer in answers}, path
    assert contents(names) == before
