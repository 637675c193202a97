"""What reads as `op_…` is that number and nothing else, wherever an operation is named; no own id may read so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from api_world import World, deliver, event, wanted
from django.urls import reverse
from people import client_of

from opsledger.console.views.search import single_hit
from opsledger.journal.models import Entry
from opsledger.ledger.actions.definitions import current_workflow
from opsledger.ledger.actions.open import NewOperation, open_operations_here
from opsledger.ledger.models import Hold, Operation
from opsledger.ledger.queries.names import find_all_named, find_named
from opsledger.lib.ids import parse, public


@dataclass
class Named:
    """`x` is in flight; another operation's own id, from before such ids were refused, spells the number of `x`."""

    world: World
    number: str
    lookalike: str  # the number of the other


@pytest.fixture
def named(world: World) -> Named:
    number = world.record("x", "by_hand").json()["id"]
    world.auto.post("/operations/x/steps/create_task/claim")
    team, current = world.cast.launch.pk, current_workflow(world.cast.launch.pk, "by_hand")
    old = NewOperation(
        team,
        number,
        current.version_id,
        current.destinations,
        {"subject": "Else"},
        "token:00000000-0000-0000-0000-00000000000b",
    )
    lookalike = public("op", open_operations_here([old])[0].id)
    assert world.decide(lookalike).status_code == 200  # it is settled: as such it might be replaced
    return Named(world, number, lookalike)


def by_path(n: Named, name: str) -> object:
    return n.world.auto.get(f"/operations/{name}").json()["id"]


def by_filter(n: Named, name: str) -> object:
    items = n.world.auto.get("/operations", {"operation_id": name}).json()["items"]
    return next(one["id"] for one in items)


def by_search(n: Named, name: str) -> object:
    found = single_hit(name, n.world.cast.launch.pk)
    return found and public("op", found)


def by_address(n: Named, name: str) -> object:
    page = client_of(n.world.cast.olga).get(f"/operations/{name}/")
    assert page.status_code == 200
    return n.number if "Do Call back elsewhere" in page.content.decode() else n.lookalike


def by_replacement(n: Named, name: str) -> object:
    n.world.record("m", "told")
    attempt = n.world.auto.post("/operations/m/steps/tell/claim").json()["attempt_id"]
    report = {"outcome": "accepted", "reference": "M-1", "evidence": {"how": "202"}}
    n.world.auto.post(f"/attempts/{attempt}/outcome", report)
    n.world.auto.post("/operations/m/steps/tell/evidence", {"says": "not_delivered", "how": "a bounce"})
    hold = Hold.objects.get(reason="delivery_failed", closed_at=None)
    body = {"answer": "replaced", "reason": "a new address", "replaced_by": name}
    path = f"/holds/{public('hold', hold.pk)}/settle"
    answer = n.world.owner.post(path, body, if_match=hold.version)
    assert answer.status_code == 200, answer.content
    line = Entry.objects.filter(kind="answered", subject_id=hold.operation_id).get()
    return _number_in(line, "replacement")


def _number_in(line: Entry, field: str) -> str:
    return str(public("op", Operation.objects.get(pk=json.loads(line.body)[field]).pk))


def apart_by_api(n: Named, name: str) -> object:
    deliver(event(1, data={}))
    hold = Hold.objects.get(event__isnull=False)
    body = {"answer": "recorded_apart", "reason": "seen", "operation": name}
    path = f"/holds/{public('hold', hold.pk)}/settle"
    assert n.world.owner.post(path, body, if_match=1).status_code == 200
    return _number_in(Entry.objects.get(kind="answered"), "operation")


def apart_on_the_page(n: Named, name: str) -> object:
    deliver(event(1, data={}))
    hold = Hold.objects.get(event__isnull=False)
    body = {"answer": "recorded_apart", "reason": "seen", "operation": name, "version": "1"}
    page = client_of(n.world.cast.olga).post(reverse("settle_hold", args=[public("hold", hold.pk)]), body)
    assert page.status_code == 303, page.content
    return _number_in(Entry.objects.get(kind="answered"), "operation")


WAYS: dict[str, Callable[[Named, str], object]] = {
    "a path": by_path,
    "the list's filter": by_filter,
    "the search": by_search,
    "a page's address": by_address,
    "what replaces another": by_replacement,
    "recorded apart, by the API": apart_by_api,
    "recorded apart, on the page": apart_on_the_page,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_number_leads_to_its_operation_and_no_own_id_takes_its_place(
    named: Named, way: Callable[[Named, str], object]
) -> None:
    assert way(named, named.number) == named.number


def test_what_is_replaced_by_its_number_is_the_operation_of_this_number(named: Named) -> None:
    answer = named.world.record("y", "by_hand", replaces=named.number)
    assert (answer.status_code, answer.json()["code"]) == (409, "replaced_is_open")
    assert "in flight" in answer.json()["detail"]
    assert not Operation.objects.filter(operation_id="y").exists()


def test_the_other_one_is_found_by_its_own_number(named: Named) -> None:
    team = named.world.cast.launch.pk
    texts = [named.number, named.lookalike, "x", "nothing", "a\x00b", "\ud800"]
    x, lookalike = parse("op", named.number), parse("op", named.lookalike)
    expected = {named.number: x, named.lookalike: lookalike, "x": x}
    assert find_all_named(team, texts) == expected
    assert {text: find_named(team, text) for text in texts if find_named(team, text)} == expected
    assert find_all_named(named.world.cast.returns.pk, texts) == {}
    assert named.world.record("y", "by_hand", replaces=named.lookalike).status_code == 201


NUMBER = "op_0000000000000000000000000x"


@pytest.mark.parametrize("own", [NUMBER, "op_7zzzzzzzzzzzzzzzzzzzzzzzzz"])
def test_an_own_id_that_reads_as_a_number_is_refused(world: World, own: str) -> None:
    answer = world.auto.post("/operations", wanted(own))
    assert answer.status_code == 422
    assert [one["field"] for one in answer.json()["errors"]] == ["operation_id"]
    items = world.auto.post("/operations/batch", {"items": [wanted(own), wanted("fine")]}).json()["items"]
    assert [one["status"] for one in items] == [422, 201]


@pytest.mark.parametrize("own", [NUMBER.upper(), f"{NUMBER}0", NUMBER[:-1] + "l", "op_17", f"shop:{NUMBER}"])
def test_an_own_id_that_only_looks_like_a_number_is_one(world: World, own: str) -> None:
    number = world.record(own).json()["id"]
    assert find_named(world.cast.launch.pk, own) == parse("op", number)
