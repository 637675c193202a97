"""The list of operations and the search at the top of every page."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from people import client_of
from scenes import Scenes, path_of

from opsledger.ledger.models import Operation, Step
from opsledger.ledger.queries.operation_filter import PAGE
from opsledger.rules.answers import Answer


def rows(client: Client, query: str) -> list[str]:
    response = client.get(f"/operations/?{query}")
    assert response.status_code == 200, query
    return re.findall(r'<th scope="row"><a href="([^"]+)"', response.content.decode())


def goes_to(client: Client, text: str) -> Any:
    response = client.get("/operations/", {"q": text})
    return response["Location"] if response.status_code == 303 else None


def test_filters_narrow_the_list_and_the_newest_is_first(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    held, done = scenes.unknown("a-1"), scenes.accepted()
    scenes.settle(held, Answer.HAPPENED, reference="T-77")
    rejected = scenes.rejected()
    assert rows(client, "") == [path_of(one) for one in (rejected, done, held)]
    assert rows(client, "state=held") == [path_of(rejected)]
    assert rows(client, "state=completed") == [path_of(held)]
    assert rows(client, "destination=mail") == [path_of(done)]
    assert rows(client, "workflow=classic_follow_up&state=held") == [path_of(rejected)]
    assert rows(client, "q=T-7&state=completed") == [path_of(held)]
    assert client.get("/operations/?state=nonsense").status_code == 400


def test_a_search_that_means_one_operation_goes_straight_to_it(scenes: Scenes) -> None:
    client, opened = client_of(scenes.owner), scenes.unknown("req-8841")
    other = scenes.unknown("req-88410")
    scenes.settle(opened, Answer.HAPPENED, reference="T-58213")
    assert goes_to(client, "req-8841") == path_of(opened)  # exact, although another begins with it
    assert goes_to(client, path_of(other).split("/")[2]) == path_of(other)
    assert goes_to(client, "T-58213") == path_of(opened)
    assert goes_to(client, "req-88") is None
    assert goes_to(client, "REQ-8841") is None  # ids are opaque: case counts
    assert goes_to(client, "req-8841 ") is None
    assert len(rows(client, "q=req-88")) == 2


def test_text_that_names_two_operations_lists_both(scenes: Scenes) -> None:
    client, one, other = client_of(scenes.owner), scenes.unknown("T-1"), scenes.unknown("x-2")
    scenes.settle(other, Answer.HAPPENED, reference="T-1")
    assert goes_to(client, "T-1") is None
    assert set(rows(client, "q=T-1")) == {path_of(one), path_of(other)}


def test_a_search_for_nothing_says_how_ids_are_compared(scenes: Scenes) -> None:
    page = client_of(scenes.owner).get("/operations/", {"q": "nothing-here "}).content.decode()
    assert "compared byte for byte" in page
    assert "Search without the blank at its end" in page


def test_an_event_leads_to_its_operation(scenes: Scenes) -> None:
    from django.db import transaction

    from opsledger.ledger.actions.events import NewEvent, open_event_here
    from opsledger.ledger.models import Definition, OperationEvent

    opened = scenes.unknown()
    source = Definition.objects.get(team=scenes.desk.team, kind="source", slug="shop")
    with transaction.atomic():
        event = open_event_here(
            NewEvent(
                scenes.desk.team.pk, source.pk, source.current_id, "evt-9", b"{}", "{}", "application/json"
            ),
            actor="source:shop",
        )
        OperationEvent.objects.create(
            operation_id=opened.id, event_id=event.id, added_at="2026-01-01T00:00:00Z"
        )
    assert goes_to(client_of(scenes.owner), "evt-9") == path_of(opened)


def test_pages_go_on_where_the_last_one_ended(scenes: Scenes) -> None:
    first = scenes.unknown("req-0")
    template = Operation.objects.get(pk=first.id)
    step = Step.objects.get(operation_id=first.id)
    from opsledger.lib.ids import new_id

    for number in range(1, PAGE + 2):
        template.pk = template.id = new_id()
        template.operation_id = f"req-{number}"
        template.save(force_insert=True)
        step.pk = step.id = new_id()
        step.operation_id = template.pk
        step.save(force_insert=True)
    client = client_of(scenes.owner)
    newest = rows(client, "")
    page = client.get("/operations/").content.decode()
    older = re.search(r'rel="next" href="\?([^"]+)"', page)
    assert older
    rest = rows(client, older[1].replace("&amp;", "&"))
    assert len(newest) == PAGE
    assert len(set(newest) | set(rest)) == PAGE + 2
