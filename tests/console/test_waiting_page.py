"""What waits at a stopped destination: seen by all of its team, chosen and ended by those who may cancel."""

from __future__ import annotations

import html as markup
import json
import re
from uuid import uuid4

import pytest
from django.test import Client
from people import client_of, person
from scenes import Scenes, path_of

from opsledger.accounts.actions import add_team
from opsledger.accounts.roles import Role
from opsledger.engine import bulk as engine
from opsledger.journal.models import Entry
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.models import BulkRun, Definition, Operation, Selection, Step
from opsledger.ledger.queries import waiting
from opsledger.lib.ids import public


def address(scenes: Scenes, slug: str = "crm_classic", tail: str = "") -> str:
    row = Definition.objects.get(team=scenes.desk.team, kind="destination", slug=slug)
    return f"/destinations/{public('dst', row.pk)}/waiting/{tail}"


def text_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return markup.unescape(response.content.decode())


def tick_of(page: str, opened: Opened) -> str:
    step = public("stp", Step.objects.get(operation_id=opened.id, number=1).pk)
    found = re.search(rf'name="step" value="({step}~\d+)"', page)
    assert found
    return found[1]


def waits(scenes: Scenes, count: int) -> list[Opened]:
    some = [scenes.open() for _ in range(count)]
    scenes.stopped()
    return some


def test_the_question_of_a_stopped_destination_leads_to_what_waits_there(scenes: Scenes) -> None:
    waits(scenes, 2)
    assert f'href="{address(scenes)}"' in text_of(client_of(scenes.owner), "/destinations/")
    assert address(scenes, "mail") not in text_of(client_of(scenes.owner), "/destinations/")


def test_what_waits_is_listed_with_its_operation_and_why_it_waits(scenes: Scenes) -> None:
    unknown = scenes.unknown()
    first, second = waits(scenes, 2)
    page = text_of(client_of(scenes.owner), address(scenes))
    assert [page.index(path_of(one)) for one in (first, second)] == sorted(
        page.index(path_of(one)) for one in (first, second)
    )
    assert path_of(unknown) not in page
    assert "Paused" in page and "Step 1 of" in page


def test_those_chosen_are_ended_with_a_reason_and_the_others_wait_on(scenes: Scenes) -> None:
    ended, stays = waits(scenes, 2)
    client = client_of(scenes.owner)
    data = {"step": tick_of(text_of(client, address(scenes)), ended)}
    chosen = client.post(address(scenes, tail="ticked"), data)
    assert chosen.status_code == 303 and str(chosen["Location"]).endswith("?verb=cancel")
    page = text_of(client, chosen["Location"])
    assert "One step that waits for crm_classic" in page
    assert "The remaining steps of each operation are not done." in page
    assert '<a href="/destinations/" aria-current="page">' in page
    assert '<details id="verb-cancel" open>' in page and 'id="verb-note"' not in page
    path = f"/selections/{public('sel', Selection.objects.get().pk)}/runs/"
    asked = {"verb": "cancel", "once": str(uuid4()), "reason": " "}
    refused = client.post(path, asked)
    assert refused.status_code == 422
    assert "Write the reason; it is kept with each decision." in markup.unescape(refused.content.decode())
    assert not BulkRun.objects.exists()
    done = client.post(path, asked | {"reason": "The account is closed."}, follow=True)
    told = markup.unescape(done.content.decode())
    assert "1 of 1 step has its result" in told
    assert 'id="it">Steps <small>' in told
    assert "The account is closed." in told
    assert Operation.objects.get(pk=ended.id).state == "cancelled"
    assert Operation.objects.get(pk=stays.id).state == "running"
    line = Entry.objects.get(kind="cancel_requested")
    assert (line.subject_id, line.actor) == (ended.id, f"person:{scenes.owner.pk}")
    assert json.loads(line.body)["bulk"] == str(BulkRun.objects.get().pk)
    operation = text_of(client, path_of(ended))
    assert "cancelled the operation" in operation and public("run", BulkRun.objects.get().pk) in operation


def test_all_that_wait_are_chosen_at_once(scenes: Scenes) -> None:
    waits(scenes, 3)
    client = client_of(scenes.owner)
    page = text_of(client, client.post(address(scenes, tail="all"))["Location"])
    assert "What waits for crm_classic" in page and "End 3 operations" in page


def test_a_step_that_moved_since_it_was_seen_is_skipped_and_said(scenes: Scenes) -> None:
    moved, ended = waits(scenes, 2)
    client = client_of(scenes.owner)
    page = text_of(client, address(scenes))
    data = {"step": [tick_of(page, one) for one in (moved, ended)]}
    version = Operation.objects.get(pk=moved.id).version
    client.post(f"{path_of(moved)}cancel", {"version": version, "reason": "By a colleague."})
    client.post(address(scenes, tail="ticked"), data)
    selection = f"/selections/{public('sel', Selection.objects.get().pk)}/"
    assert "End 1 operation<" in text_of(client, selection)
    client.post(
        f"{selection}runs/", {"verb": "cancel", "once": str(uuid4()), "reason": "The account is closed."}
    )
    run = BulkRun.objects.get()
    assert (run.done_count, run.skipped_count) == (1, 1)
    report = client.get(f"/selections/runs/{public('run', run.pk)}/items.csv")
    assert b"It changed after it was selected." in b"".join(report)
    assert "Nothing is left" in text_of(client, selection)


@pytest.mark.parametrize("broken", ["x", "hold_0~1", "stp_00000000000000000000000000~x", ""])
def test_a_row_that_cannot_be_read_chooses_nothing(scenes: Scenes, broken: str) -> None:
    waits(scenes, 1)
    data = {"step": broken} if broken else {}
    page = client_of(scenes.owner).post(address(scenes, tail="ticked"), data, follow=True).content.decode()
    said = "A ticked row can’t be read." if broken else "Tick at least one step first."
    alerts, toasts = (
        re.search(r'id="alerts" role="alert">(.*?)</div>', page),
        re.search(r'id="toasts"(.*?)</div>', page),
    )
    assert alerts and said in markup.unescape(alerts[1])
    assert toasts and said not in markup.unescape(toasts[1])
    assert not Selection.objects.exists()


@pytest.mark.parametrize(
    "after", ["x", "2026-01-01~stp_1", "2026-01-01T00:00:00~stp_00000000000000000000000000"]
)
def test_a_link_that_cannot_be_read_is_refused(scenes: Scenes, after: str) -> None:
    assert client_of(scenes.owner).get(address(scenes), {"after": after}).status_code == 400


def test_it_is_shown_in_pages(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PAGE", 2)
    some = waits(scenes, 3)
    client = client_of(scenes.owner)
    monkeypatch.setattr(waiting.page_of, "__kwdefaults__", {"after": None, "size": 2})
    first = text_of(client, address(scenes))
    assert [path_of(one) in first for one in some] == [True, True, False]
    following = re.search(r'rel="next" href="(\?after=[^"]+)"', first)
    assert following
    second = text_of(client, address(scenes) + following[1])
    assert [path_of(one) in second for one in some] == [False, False, True]


def test_whoever_may_not_cancel_sees_what_waits_and_why_nothing_is_chosen(scenes: Scenes) -> None:
    (one,) = waits(scenes, 1)
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
        client = client_of(scenes.member(role.value, role))
        page = text_of(client, address(scenes))
        assert path_of(one) in page and 'type="checkbox"' not in page
        assert "To cancel an operation, you need the role owner" in page
        assert client.post(address(scenes, tail="all")).status_code == 403
    assert not Selection.objects.exists()


def test_another_teams_destination_has_no_such_page(scenes: Scenes) -> None:
    waits(scenes, 1)
    rita = person("Rita")
    add_team(slug="aaa", name="Aaa", fallback_owner=rita)
    client = client_of(rita)
    assert client.get(address(scenes)).status_code == 404
    for tail in ("ticked", "all"):
        assert client.post(address(scenes, tail=tail)).status_code == 404
    assert not Selection.objects.exists()


def test_where_nothing_is_stopped_nothing_is_chosen(scenes: Scenes) -> None:
    scenes.open()
    client = client_of(scenes.owner)
    page = text_of(client, address(scenes))
    assert "crm_classic is not stopped: what is ready leaves by itself" in page
    assert 'type="checkbox"' not in page
    said = client.post(address(scenes, tail="all"), follow=True).content.decode()
    assert "crm_classic goes on, so what waited leaves by itself." in markup.unescape(said)
    assert not Selection.objects.exists()


def test_what_does_not_fit_into_a_moment_is_left_to_a_worker(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "AT_ONCE_SECONDS", 0.0)
    waits(scenes, 2)
    client = client_of(scenes.owner)
    client.post(address(scenes, tail="all"))
    selection = f"/selections/{public('sel', Selection.objects.get().pk)}/"
    client.post(
        f"{selection}runs/", {"verb": "cancel", "once": str(uuid4()), "reason": "The account is closed."}
    )
    assert not Operation.objects.filter(cancelled=True).exists()
    engine.run_once()
    assert Operation.objects.filter(state="cancelled").count() == 2
