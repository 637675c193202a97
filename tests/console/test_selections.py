"""Several holds at once: what is ticked or matches is frozen as it was seen, and every hold says what became of it."""

from __future__ import annotations

import csv
import io
import re
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from people import client_of, make_cast, person
from scenes import Scenes
from test_inbox import tick

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Membership
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine import bulk as engine
from opsledger.engine import tasks
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.bulk import record_batch
from opsledger.ledger.actions.bulk_verbs import take
from opsledger.ledger.models import BulkItem, BulkRun, Hold, Selection, SelectionItem
from opsledger.lib.ids import public
from opsledger.rules.bulk import Verb
from tests.bulk import begun, ran, selected

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "run-progress"}


def some(scenes: Scenes, count: int) -> list[Hold]:
    return [scenes.hold(scenes.unknown()) for _ in range(count)]


def hidden(html: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found, name
    return found.group(1).replace("&amp;", "&")


def selection_path(client: Client, holds: list[Hold], **more: Any) -> str:
    response = client.post("/selections/ticked/", {"hold": [tick(hold) for hold in holds], **more})
    assert response.status_code == 303
    return str(response["Location"])


def selection_of(scenes: Scenes, holds: list[Hold]) -> tuple[Client, str]:
    made = selected(holds, by_person(scenes.owner))
    return client_of(scenes.owner), f"/selections/{public('sel', made.pk)}/"


def run_path(run: BulkRun) -> str:
    return f"/selections/runs/{public('run', run.pk)}/"


# From the inbox


def test_a_row_carries_the_version_that_it_shows(scenes: Scenes) -> None:
    hold = some(scenes, 1)[0]
    settle_assign([hold.pk], scenes.owner.pk, by_person(scenes.owner))
    html = client_of(scenes.owner).get("/").content.decode()
    assert f'name="hold" value="{public("hold", hold.pk)}~2"' in html


def test_ticked_rows_are_assigned_at_once_and_what_changed_is_told(scenes: Scenes) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    first, second, changed = some(scenes, 3)
    data = {
        "hold": [tick(one) for one in (first, second, changed)],
        "owner": str(omar.pk),
        "once": str(uuid4()),
    }
    settle_assign([changed.pk], omar.pk, by_person(omar))
    page = client_of(scenes.owner).post("/inbox/assign/", data, follow=True).content.decode()
    assert "2 holds are Omar’s now. 1 skipped: changed since you looked." in page
    assert f'<a href="{run_path(BulkRun.objects.get())}">See each</a>' in page


def test_what_does_not_fit_into_a_moment_is_left_to_a_worker(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "AT_ONCE_SECONDS", 0.0)
    holds = some(scenes, 2)
    data = {"hold": [tick(one) for one in holds], "owner": "me", "once": str(uuid4())}
    page = client_of(scenes.owner).post("/inbox/assign/", data, follow=True).content.decode()
    assert "2 are still to come; a worker goes on with them." in page
    assert not Hold.objects.filter(owner__isnull=False).exists()
    tasks.bulk()  # what its bell rings for
    assert Hold.objects.filter(owner=scenes.owner).count() == 2
    assert BulkRun.objects.get().state == "finished"


def test_a_double_press_is_one_run(scenes: Scenes) -> None:
    hold = some(scenes, 1)[0]
    data = {"hold": [tick(hold)], "owner": "me", "once": str(uuid4())}
    client = client_of(scenes.owner)
    for _ in range(2):
        assert (
            "One hold is Test owner’s now."
            in client.post("/inbox/assign/", data, follow=True).content.decode()
        )
    assert (BulkRun.objects.count(), Selection.objects.count()) == (1, 1)
    assert Entry.objects.filter(kind="assigned").count() == 1


@pytest.mark.parametrize("broken", ["", "~1", "~", "~x", "~99999999999"], ids=repr)
def test_a_row_that_cannot_be_read_is_refused_and_does_nothing(scenes: Scenes, broken: str) -> None:
    hold = some(scenes, 1)[0]
    value = f"hold_nonsense{broken}" if broken == "~1" else f"{public('hold', hold.pk)}{broken}"
    client = client_of(scenes.owner)
    for path in ("/inbox/assign/", "/inbox/check/", "/selections/ticked/"):
        page = client.post(path, {"hold": [value], "owner": "me"}, follow=True).content.decode()
        assert "A ticked row can’t be read." in page, path
    assert not BulkRun.objects.exists() and not Selection.objects.exists()


def test_take_of_a_hold_that_changed_since_does_nothing(scenes: Scenes) -> None:
    omar, hold = scenes.member("Omar", Role.OPERATOR), some(scenes, 1)[0]
    settle_assign([hold.pk], omar.pk, by_person(omar))
    page = client_of(scenes.owner).post("/inbox/assign/", {"one": tick(hold)}, follow=True).content.decode()
    assert "this hold changed since you looked" in page
    hold.refresh_from_db()
    assert hold.owner_id == omar.pk


def test_all_that_match_are_those_that_were_there_when_the_page_was_made(scenes: Scenes) -> None:
    old = some(scenes, 2)
    scenes.rejected()
    client = client_of(scenes.owner)
    page = client.get("/?reason=outcome_unknown").content.decode()
    assert "Select all 2 that match" in page
    late = some(scenes, 1)
    data = {name: hidden(page, name) for name in ("view_query", "seen", "next")}
    response = client.post("/selections/view/", data)
    assert response.status_code == 303
    kept = set(SelectionItem.objects.values_list("hold_id", flat=True))
    assert kept == {one.pk for one in old} and late[0].pk not in kept
    shown = client.get(response["Location"]).content.decode()
    assert "All open holds, Outcome unknown" in shown
    assert "Act on these 2" in shown


def test_all_of_a_view_without_its_moment_is_refused(scenes: Scenes) -> None:
    some(scenes, 1)
    page = client_of(scenes.owner).post("/selections/view/", {"view_query": ""}, follow=True).content.decode()
    assert "does not say when it was made" in page
    assert not Selection.objects.exists()


def test_what_matches_no_more_is_not_read_as_all(scenes: Scenes) -> None:
    hold = some(scenes, 1)[0]
    client = client_of(scenes.owner)
    page = client.get("/?owner=none").content.decode()
    settle_assign([hold.pk], scenes.owner.pk, by_person(scenes.owner))
    data = {name: hidden(page, name) for name in ("view_query", "seen")}
    assert "never means “all”" in client.post("/selections/view/", data, follow=True).content.decode()


# A selection's page


def test_a_selection_says_what_it_holds_and_offers_what_fits_all_of_it(scenes: Scenes) -> None:
    holds = [*some(scenes, 2), scenes.hold(scenes.rejected())]
    client, path = selection_of(scenes, holds)
    settle_assign([holds[0].pk], scenes.owner.pk, by_person(scenes.owner))
    page = client.get(path).content.decode()
    assert re.search(r'<dt>Changed since</dt><dd class="tn">1</dd>', page)
    assert "Act on these 2" in page
    for fitting in ("take", "assign", "note", "plan_replay"):
        assert f'id="verb-{fitting}"' in page, fitting
    for other in ("check_now", "next_check", "end_failed"):
        assert f'id="verb-{other}"' not in page, other
    assert "1 of these, “rejected by destination” with a step that is ready, can’t be looked up." in page


def test_what_changed_since_does_not_decide_what_is_offered(scenes: Scenes) -> None:
    kept, gone = scenes.hold(scenes.unknown()), scenes.hold(scenes.rejected())
    client, path = selection_of(scenes, [kept, gone])
    Hold.objects.filter(pk=gone.pk).update(version=9)
    assert 'id="verb-check_now"' in client.get(path).content.decode()


def test_a_selection_of_which_nothing_is_left_says_so(scenes: Scenes) -> None:
    client, path = selection_of(scenes, some(scenes, 1))
    Hold.objects.update(version=9)
    page = client.get(path).content.decode()
    assert "Every hold of this selection was closed or changed" in page
    assert "Nothing is left" in page
    response = client.post(f"{path}runs/", {"verb": "take", "once": str(uuid4())})
    assert response.status_code == 422
    assert not BulkRun.objects.exists()


def test_a_verb_that_needs_a_reason_is_opened_with_the_cursor_in_it(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    path = selection_path(client, some(scenes, 2), verb="note")
    assert path.endswith("?verb=note")
    page = client.get(path).content.decode()
    assert re.search(r'<details id="verb-note" open>', page)
    assert re.search(r'<textarea id="why-note"[^>]* autofocus>', page)
    assert page.split("</main>")[0].count("autofocus") == 1


def test_a_verb_without_its_reason_is_refused_where_it_was_asked(scenes: Scenes) -> None:
    client, path = selection_of(scenes, some(scenes, 1))
    for verb, said in (("note", "Write the note."), ("next_check", "Write the reason")):
        response = client.post(f"{path}runs/", {"verb": verb, "reason": "  ", "next_check": "60"})
        assert response.status_code == 422
        assert said in response.content.decode()
    wrong = {"verb": "next_check", "reason": "They look tomorrow.", "next_check": "nonsense"}
    page = client.post(f"{path}runs/", wrong).content.decode()
    assert "Choose when to check next." in page and "They look tomorrow." in page
    assert not BulkRun.objects.exists()


@pytest.mark.parametrize(
    ("verb", "more", "line"),
    [
        ("take", {}, "assigned"),
        ("assign", {"owner": "me"}, "assigned"),
        ("check_now", {}, "check_requested"),
        ("next_check", {"next_check": "60", "reason": "They look tomorrow."}, "answered"),
        ("note", {"reason": "Asked their support."}, "noted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_verb_is_done_to_each_and_told_on_the_runs_page(
    scenes: Scenes, verb: str, more: dict[str, str], line: str
) -> None:
    client, path = selection_of(scenes, some(scenes, 2))
    data = {"verb": verb, "once": str(uuid4()), **more}
    response = client.post(f"{path}runs/", data)
    assert response.status_code == 303
    assert client.post(f"{path}runs/", data)["Location"] == response["Location"]
    page = client.get(response["Location"]).content.decode()
    assert "2 of 2 holds have their result" in page
    assert "data-poll" not in page.split('id="run-progress"')[1][:200]
    assert more.get("reason", "") in page
    assert Entry.objects.filter(kind=line, body__contains='"bulk"').count() == 2


def test_ending_as_failed_is_for_those_who_settle(scenes: Scenes) -> None:
    holds = [scenes.hold(scenes.rejected())]
    _owner, path = selection_of(scenes, holds)
    omar = client_of(scenes.member("Omar", Role.OPERATOR))
    assert "To settle a hold, you need the role owner" in omar.get(path).content.decode()
    data = {"verb": "end_failed", "reason": "Ordered elsewhere."}
    assert omar.post(f"{path}runs/", data).status_code == 403
    assert client_of(scenes.owner).post(f"{path}runs/", data).status_code == 303
    holds[0].refresh_from_db()
    assert holds[0].answer == "end_failed"


def test_a_verb_that_does_not_fit_is_refused_when_it_is_posted(scenes: Scenes) -> None:
    client, path = selection_of(scenes, [scenes.hold(scenes.rejected()), *some(scenes, 1)])
    response = client.post(f"{path}runs/", {"verb": "check_now"})
    assert response.status_code == 422
    assert "can’t be looked up. Nothing was done." in response.content.decode()
    for verb in ("plan_replay", "happened", "nonsense", ""):
        assert client.post(f"{path}runs/", {"verb": verb}).status_code == 400, verb
    assert not BulkRun.objects.exists()


def test_a_selection_leads_to_the_plan_of_its_operations(scenes: Scenes) -> None:
    one, two = scenes.rejected(), scenes.rejected()
    scenes.rejected()
    client, path = selection_of(scenes, [scenes.hold(one), scenes.hold(two)])
    found = re.search(r'href="(/replays/plan/\?selection=[^"]+)"', client.get(path).content.decode())
    assert found
    plan = client.get(found.group(1)).content.decode()
    assert "Start 2 steps" in plan
    assert "a selection: 2 holds" in plan


# A run's page


def test_results_are_shown_by_result_in_pages_and_as_a_file(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opsledger.ledger.queries import bulk

    holds = some(scenes, 4)
    made = selected(holds, by_person(scenes.owner))
    settle_assign([holds[1].pk], scenes.owner.pk, by_person(scenes.owner))
    run = ran(made, Verb.TAKE, by_person(scenes.owner))
    client = client_of(scenes.owner)
    assert 'show=skipped#it">Skipped <b class="n">1</b>' in client.get(run_path(run)).content.decode()
    skipped = client.get(f"{run_path(run)}?show=skipped").content.decode()
    assert skipped.count("It changed after it was selected.") == 1
    assert skipped.count('<tr><th scope="row">') == 1
    monkeypatch.setattr(bulk, "ITEMS_PAGE", 3)
    first = client.get(run_path(run)).content.decode()
    assert first.count('<tr><th scope="row">') == 3 and "?after=3#it" in first
    assert client.get(f"{run_path(run)}?after=3").content.decode().count('<tr><th scope="row">') == 1
    answer = client.get(f"{run_path(run)}items.csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig"))))  # type: ignore[attr-defined]
    assert [row["result"] for row in rows] == ["done", "skipped", "done", "done"]
    for query in ("show=nonsense", "after=x", "after=-1"):
        assert client.get(f"{run_path(run)}?{query}").status_code == 400, query


def test_an_open_run_is_polled_until_it_has_ended(scenes: Scenes) -> None:
    run = begun(selected(some(scenes, 2), by_person(scenes.owner)), Verb.TAKE, by_person(scenes.owner))
    client = client_of(scenes.owner)
    page = client.get(run_path(run)).content.decode()
    assert f'data-poll="{run_path(run)}progress"' in page
    assert "0 of 2 holds have their result" in page
    assert "data-poll" in client.get(f"{run_path(run)}progress", **HTMX).content.decode()
    engine.run_once()
    after = client.get(f"{run_path(run)}progress", **HTMX).content.decode()
    assert "2 of 2 holds have their result" in after and "data-poll" not in after
    assert client.get(f"{run_path(run)}progress").status_code == 303


def test_a_run_is_aborted_with_a_reason_and_says_what_was_left(scenes: Scenes) -> None:
    run = begun(selected(some(scenes, 3), by_person(scenes.owner)), Verb.TAKE, by_person(scenes.owner))
    record_batch(run.pk, take, 1)
    client = client_of(scenes.owner)
    lacking = client.post(f"{run_path(run)}abort", {"version": "1", "reason": ""})
    assert lacking.status_code == 422 and "Write the reason" in lacking.content.decode()
    page = client.post(
        f"{run_path(run)}abort", {"version": "1", "reason": "Wrong view."}, follow=True
    ).content.decode()
    assert "Aborted. What was done stays done" in page
    assert "The run was aborted before its turn." in page
    stale = client.post(f"{run_path(run)}abort", {"version": "1", "reason": "Still wrong."})
    assert stale.status_code == 409
    assert (
        "This run has ended meanwhile." in stale.content.decode() and "Still wrong." in stale.content.decode()
    )


def test_the_teams_runs_are_listed_newest_first(scenes: Scenes) -> None:
    by = by_person(scenes.owner)
    first = ran(selected(some(scenes, 1), by), Verb.TAKE, by)
    second = begun(selected(some(scenes, 1), by), Verb.CHECK_NOW, by)
    page = client_of(scenes.owner).get("/selections/").content.decode()
    assert page.index(run_path(second)) < page.index(run_path(first))
    assert "1 still to come" in page and "1 done" in page
    assert run_path(first) not in client_of(make_cast().rita).get("/selections/").content.decode()


def test_an_item_leads_from_its_operation_to_its_run(scenes: Scenes) -> None:
    opened, by = scenes.unknown(), by_person(scenes.owner)
    run = ran(selected([scenes.hold(opened)], by), Verb.TAKE, by)
    page = client_of(scenes.owner).get(f"/operations/{public('op', opened.id)}/").content.decode()
    assert public("run", run.pk) in page


# Other teams, and those who may not


def test_another_teams_selections_and_runs_do_not_exist(scenes: Scenes) -> None:
    holds = some(scenes, 1)
    _client, path = selection_of(scenes, holds)
    run = ran(Selection.objects.get(), Verb.TAKE, by_person(scenes.owner))
    rita = client_of(make_cast().rita)
    for address in (path, run_path(run), f"{run_path(run)}progress", f"{run_path(run)}items.csv"):
        assert rita.get(address).status_code == 404, address
    assert rita.post(f"{path}runs/", {"verb": "take"}).status_code == 404
    assert rita.post(f"{run_path(run)}abort", {"version": "1", "reason": "x"}).status_code == 404
    assert rita.get(f"/replays/plan/?selection={path.split('/')[2]}").status_code == 404
    assert (
        "never means “all”"
        in rita.post("/selections/ticked/", {"hold": [tick(holds[0])]}, follow=True).content.decode()
    )


def test_holds_of_another_of_ones_teams_are_not_acted_on_with_this_teams_roles(scenes: Scenes) -> None:
    hold, rita = some(scenes, 1)[0], person("Rita")
    add_team(slug="aaa", name="Aaa", fallback_owner=rita)  # the first by name: chosen
    Membership.objects.create(person=rita, team=scenes.desk.team, role=Role.VIEWER.value)
    client = client_of(rita)
    for data in ({"hold": [tick(hold)], "owner": "me"}, {"one": tick(hold)}):
        client.post("/inbox/assign/", data)
        client.post("/inbox/check/", data)
    hold.refresh_from_db()
    assert hold.owner_id is None
    assert not BulkItem.objects.exists() and not Entry.objects.filter(kind="check_requested").exists()


def test_a_viewer_selects_nothing(scenes: Scenes) -> None:
    hold = some(scenes, 1)[0]
    vera = client_of(scenes.member("Vera", Role.VIEWER))
    for path in ("/selections/ticked/", "/selections/view/"):
        assert vera.post(path, {"hold": [tick(hold)]}).status_code == 403, path
    assert "that match" not in vera.get("/").content.decode()
    assert not Selection.objects.exists()
