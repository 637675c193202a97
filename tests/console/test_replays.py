"""Plan, start and watch a replay in the console: what is read is what is started, and everything works without a script."""

from __future__ import annotations

import csv
import html as markup
import io
import re
from typing import Any

import pytest
from django.test import Client
from people import client_of, person
from scenes import EVERY_STEP_QUESTION, REJECTED, Scenes, path_of

from opsledger.accounts.actions import add_team
from opsledger.accounts.roles import Role
from opsledger.console import replay_pages
from opsledger.console.forms import by_person
from opsledger.engine import replays
from opsledger.journal.models import Entry
from opsledger.ledger.actions.interventions import settle_cancel
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.replays import settle_pause_replay
from opsledger.ledger.models import Hold, Replay
from opsledger.ledger.queries import replays as reading
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from opsledger.rules.replays import Reason


def op(opened: Opened) -> str:
    return public("op", opened.id)


def plan_url(*operations: Opened, **more: str) -> str:
    words = [f"operation={op(one)}" for one in operations] + [
        f"{name}={value}" for name, value in more.items()
    ]
    return f"/replays/plan/?{'&'.join(words)}"


def text_of(response: Any) -> str:
    return markup.unescape(response.content.decode())


def fields(page: str) -> dict[str, str]:
    """The hidden fields of the start form, as a browser without a script would send them."""
    form = page[page.index('id="start"') :]
    found = {
        name: re.search(rf'name="{name}" value="([^"]*)"', form) for name in ("plan", "plan_digest", "query")
    }
    return {name: markup.unescape(match[1]) for name, match in found.items() if match}


def form_of(client: Client, *operations: Opened, **changes: Any) -> dict[str, Any]:
    page = client.get(plan_url(*operations)).content.decode()
    touches = re.findall(r'name="touches" value="([^"]+)"', page)
    values: dict[str, Any] = {
        "name": "after the incident", "reason": "The queue was closed.", "touches": touches, "mended": "yes",
        "rate:crm_classic": "100",
    }  # fmt: skip
    return fields(page) | values | changes


def started(scenes: Scenes, *operations: Opened, **changes: Any) -> Replay:
    client = client_of(scenes.owner)
    response = client.post("/replays/start", form_of(client, *operations, **changes))
    assert response.status_code == 303, text_of(response)
    return Replay.objects.latest("started_at")


def address(replay: Replay, what: str = "") -> str:
    return f"/replays/{public('rpl', replay.pk)}/{what}"


# The plan


def test_the_plan_shows_three_lists_and_what_each_touches(scenes: Scenes) -> None:
    rejected, asked, kept = scenes.rejected(), scenes.unknown(), scenes.unknown()
    scenes.settle(kept, Answer.HAPPENED, reference="T-77")
    disputed = scenes.disputed()

    page = text_of(client_of(scenes.owner).get(plan_url(rejected, asked, kept, disputed)))

    assert [int(one) for one in re.findall(r'<dd class="tn">(\d+)</dd>', page)] == [4, 2, 1, 1]
    assert "T-77" in page
    assert "A person is asked about it: disputed." in page
    assert "Touches another system: <b>crm_classic</b>" in page
    assert "Sent only after its absence is proven" in page
    assert "No attempt took effect" in page
    assert "Open hold" in page


def test_planning_writes_nothing(scenes: Scenes) -> None:
    rejected = scenes.rejected()
    before = Entry.objects.count()
    client = client_of(scenes.owner)

    assert client.get(plan_url(rejected)).status_code == 200
    assert client.post("/replays/plan/file", form_of(client, rejected)).status_code == 200

    assert Entry.objects.count() == before
    assert not Replay.objects.exists()


@pytest.mark.parametrize(
    "query",
    ["", "from=operations", "from=operations&q=of-no-operation", "from=inbox&view=disputed", "hold=hold_0"],
)
def test_an_empty_scope_is_never_everything(scenes: Scenes, query: str) -> None:
    scenes.rejected()
    response = client_of(scenes.owner).get(f"/replays/plan/?{query}")
    assert response.status_code in {303, 400}


@pytest.mark.parametrize("newest", ["Maria Lopez, maria@customers.example", "mail", "crm\ufffd"])
def test_what_a_link_says_to_be_a_destination_is_one_of_the_plan(scenes: Scenes, newest: str) -> None:
    """It would be written to the journal with the start, where no text of anybody's may stand."""
    client, opened = client_of(scenes.owner), scenes.rejected()

    answer = client.get(plan_url(opened, newest=newest))

    assert answer.status_code == 400
    assert "do not touch" in text_of(answer)
    assert client.get(plan_url(opened, newest="crm_classic")).status_code == 200


def test_a_plan_comes_from_a_filter_an_inbox_view_and_ticked_holds(scenes: Scenes) -> None:
    client, one, other = client_of(scenes.owner), scenes.rejected(), scenes.unknown()
    holds = [public("hold", hold.pk) for hold in Hold.objects.order_by("pk")]

    by_filter = text_of(client.get("/replays/plan/?from=operations&state=held"))
    by_view = text_of(client.get("/replays/plan/?from=inbox&reason=rejected_by_destination"))
    ticked = client.post("/replays/plan/holds", {"hold": holds})

    assert f"/operations/{op(one)}/" in by_filter
    assert f"/operations/{op(other)}/" in by_filter
    assert f"/operations/{op(one)}/" in by_view
    assert f"/operations/{op(other)}/" not in by_view
    assert ticked.status_code == 303
    assert f"/operations/{op(other)}/" in text_of(client.get(ticked["Location"]))


def test_the_pages_lead_to_the_plan_only_those_who_may(scenes: Scenes) -> None:
    opened = scenes.rejected()
    viewer = client_of(scenes.member("Vera", Role.VIEWER))
    for path in (path_of(opened), "/operations/?state=held", "/"):
        assert "Plan a replay" in _room(client_of(scenes.owner).get(path)), path
        assert "Plan a replay" not in _room(viewer.get(path)), path


def _room(answer: Any) -> str:
    """The page without the list of keys, which is the same for everybody."""
    return text_of(answer).partition("<main")[2].partition("</main>")[0]


def test_long_lists_show_their_first_rows_and_the_file_has_all(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = [scenes.rejected() for _ in range(3)]
    monkeypatch.setattr(replay_pages, "SHOWN_MAX", 2)
    client = client_of(scenes.owner)

    page = text_of(client.get(plan_url(*operations)))
    file = client.post("/replays/plan/file", form_of(client, *operations))

    assert "The first 2 are shown" in page
    text = b"".join(file.streaming_content).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["operation"] for row in rows} == {op(one) for one in operations}
    assert "attachment" in file["Content-Disposition"]


# Starting


def test_a_start_begins_what_was_read_and_shows_it(scenes: Scenes) -> None:
    opened = scenes.rejected()

    replay = started(scenes, opened)
    replays.run_once()
    scenes.desk.send()
    replays.run_once()

    page = text_of(client_of(scenes.owner).get(address(replay)))
    assert "after the incident" in page
    assert "The queue was closed." in page
    assert "1 of 1 step is over" in page
    assert "1 recovered" in page
    assert "data-poll" not in page, "nothing is asked for once it has ended"
    assert "Recovered" in page
    operation = text_of(client_of(scenes.owner).get(path_of(opened)))
    assert "replay began step 1" in operation


def test_a_double_click_starts_once(scenes: Scenes) -> None:
    client, opened = client_of(scenes.owner), scenes.rejected()
    form = form_of(client, opened)

    first, second = client.post("/replays/start", form), client.post("/replays/start", form)

    assert first["Location"] == second["Location"]
    assert Replay.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "Give the batch a name"),
        ({"reason": ""}, "Write the reason"),
        ({"touches": []}, "This touches another system: crm_classic."),
        ({"rate:crm_classic": "fast"}, "Write how many steps a second"),
        ({"rate:crm_classic": "0"}, "must be from 0.1 to 1000"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_missing_is_said_beside_its_field_and_nothing_typed_is_lost(
    scenes: Scenes, changes: dict[str, Any], said: str
) -> None:
    client = client_of(scenes.owner)
    good = form_of(client, scenes.rejected())
    response = client.post("/replays/start", good | changes)

    page = text_of(response)
    assert response.status_code == 422
    assert said in page
    assert 'aria-invalid="true"' in page
    kept = good | changes
    assert all(str(kept[name]) in page for name in ("name", "reason", "rate:crm_classic"))
    assert not Replay.objects.exists()
    mended = client.post("/replays/start", good | fields(response.content.decode()))
    assert mended.status_code == 303, "the plan of the refused form can still be started"


def test_a_plan_that_moved_is_shown_with_what_was_and_what_is(scenes: Scenes) -> None:
    client, moves, stays = client_of(scenes.owner), scenes.rejected(), scenes.rejected()
    form = form_of(client, moves, stays)
    settle_cancel(
        moves.id,
        "Not wanted any more.",
        by_person(scenes.owner),
        version=scenes.desk.operation(moves).version,
    )

    response = client.post("/replays/start", form)

    page = text_of(response)
    assert response.status_code == 409
    assert "1 step changed since you read the plan. Nothing was started." in page
    assert "Its operation was cancelled." in page
    assert "The queue was closed." in page
    assert not Replay.objects.exists()
    second = client.post("/replays/start", form | fields(response.content.decode()))
    assert second.status_code == 303


def test_two_owners_start_the_same_steps_and_the_second_sees_which_replay_has_them(scenes: Scenes) -> None:
    opened, olga = scenes.rejected(), scenes.member("Olga", Role.OWNER)
    mine, hers = client_of(scenes.owner), client_of(olga)
    my_form, her_form = form_of(mine, opened), form_of(hers, opened)

    first, second = mine.post("/replays/start", my_form), hers.post("/replays/start", her_form)

    assert (first.status_code, second.status_code) == (303, 409)
    assert public("rpl", Replay.objects.get().pk) in text_of(second)


def test_somebody_elses_plan_is_refused(scenes: Scenes) -> None:
    olga = scenes.member("Olga", Role.OWNER)
    form = form_of(client_of(scenes.owner), scenes.rejected())
    response = client_of(olga).post("/replays/start", form)
    assert response.status_code == 400
    assert "made for another person or team" in text_of(response)


# One replay


def test_the_progress_is_a_part_of_its_own_that_stops_at_the_end(scenes: Scenes) -> None:
    opened = scenes.rejected()
    replay = started(scenes, opened)
    client = client_of(scenes.owner)
    asking = {"HX-Request": "true", "HX-Target": "replay-progress"}

    going = text_of(client.get(address(replay, "progress"), headers=asking))
    replays.run_once()
    scenes.desk.send()
    replays.run_once()
    ended = text_of(client.get(address(replay, "progress"), headers=asking))

    assert 'data-poll="' in going
    assert "0 of 1 step is over" in going
    assert "as they were when this page was opened" in going
    assert "as they were when" not in text_of(client.get(address(replay)))
    assert "data-poll" not in ended
    assert "1 of 1 step is over" in ended
    assert client.get(address(replay, "progress")).status_code == 303


def test_pause_resume_and_abort_need_a_reason_and_a_version(scenes: Scenes) -> None:
    replay = started(scenes, scenes.rejected())
    client = client_of(scenes.owner)

    empty = client.post(address(replay, "pause"), {"version": "1", "reason": " "})
    paused = client.post(address(replay, "pause"), {"version": "1", "reason": "wait"})
    late = client.post(address(replay, "abort"), {"version": "1", "reason": "my own words"})
    resumed = client.post(address(replay, "resume"), {"version": "2", "reason": "go on"})
    aborted = client.post(address(replay, "abort"), {"version": "3", "reason": "stop"})

    assert (empty.status_code, paused.status_code, late.status_code) == (422, 303, 409)
    assert (resumed.status_code, aborted.status_code) == (303, 303)
    assert "paused by now; Test owner decided that" in text_of(late)
    assert "my own words" in text_of(late)
    replays.run_once()
    replay.refresh_from_db()
    assert (replay.state, replay.aborted_count) == ("aborted", 1)


def test_a_second_owner_sees_who_paused_it(scenes: Scenes) -> None:
    olga = scenes.member("Olga", Role.OWNER)
    replay = started(scenes, scenes.rejected())
    settle_pause_replay(replay.pk, 1, "wait", by_person(olga))

    response = client_of(scenes.owner).post(address(replay, "pause"), {"version": "1", "reason": "wait"})

    assert response.status_code == 409
    assert "Olga decided that" in text_of(response)


def test_the_report_holds_every_step_and_no_formula(scenes: Scenes) -> None:
    opened = scenes.desk.open("classic_follow_up", "=cmd|' /C calc'!A0")
    scenes.send(REJECTED, says="rejected")
    kept = scenes.unknown()
    scenes.settle(kept, Answer.HAPPENED, reference="T-1")
    replay = started(scenes, opened, kept)

    response = client_of(scenes.owner).get(address(replay, "report.csv"))

    rows = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode("utf-8-sig"))))
    assert [row["state"] for row in rows] == ["waiting", "kept"]
    assert rows[0]["operation_id"] == "'=cmd|' /C calc'!A0"
    assert rows[1]["reference"] == "T-1"


def test_items_are_shown_by_their_result_page_by_page(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = scenes.unknown()
    scenes.settle(kept, Answer.HAPPENED, reference="T-1")
    replay = started(scenes, scenes.rejected(), scenes.rejected(), kept)
    monkeypatch.setattr(reading, "ITEMS_PAGE", 2)
    client = client_of(scenes.owner)

    first = text_of(client.get(address(replay)))
    more = re.search(r'rel="next" href="\?after=(\d+)', first)
    assert more
    assert text_of(client.get(address(replay, f"?after={more[1]}"))).count('<tr><th scope="row"') == 1
    assert text_of(client.get(address(replay, "?show=kept"))).count('<tr><th scope="row"') == 1
    assert client.get(address(replay, "?show=strange")).status_code == 400


# Who may


def test_only_owners_plan_start_and_decide_and_all_may_read(scenes: Scenes) -> None:
    opened = scenes.rejected()
    form = form_of(client_of(scenes.owner), opened)
    replay = started(scenes, scenes.rejected())
    decision = {"version": "1", "reason": "x"}
    writes = [("/replays/plan/holds", {}), ("/replays/plan/file", form), ("/replays/start", form)]
    writes += [(address(replay, what), decision) for what in ("pause", "resume", "abort")]
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
        client = client_of(scenes.member(role.value, role))
        assert client.get(plan_url(opened)).status_code == 403
        for path, data in writes:
            response = client.post(path, data)
            assert response.status_code == 403, (role, path)
            assert "you need the role owner" in text_of(response)
        for path in ("/replays/", address(replay), address(replay, "report.csv")):
            assert client.get(path).status_code == 200, (role, path)
    assert Replay.objects.count() == 1


def test_another_teams_replay_is_not_there(scenes: Scenes) -> None:
    replay = started(scenes, scenes.rejected())
    rita = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=rita)
    client = client_of(rita)
    for what in ("", "report.csv", "progress"):
        assert client.get(address(replay, what)).status_code == 404
    for what in ("pause", "resume", "abort"):
        assert client.post(address(replay, what), {"version": "1", "reason": "x"}).status_code == 404
    assert "after the incident" not in text_of(client.get("/replays/"))


def test_the_list_and_the_audit_name_a_replay(scenes: Scenes) -> None:
    replay = started(scenes, scenes.rejected())
    client = client_of(scenes.owner)
    assert address(replay) in text_of(client.get("/replays/"))
    audit = text_of(client.get("/audit/"))
    assert "Replay started" in audit
    assert f'href="{address(replay)}"' in audit
    assert 'Replays</span><b>1<span class="vh"> open' in text_of(client.get("/"))


# Words


def test_every_reason_has_words() -> None:
    assert set(replay_pages.REASONS) == set(Reason)


def test_a_plan_over_every_question_renders(scenes: Scenes) -> None:
    operations = [make(scenes) for make in EVERY_STEP_QUESTION.values()]
    page = text_of(client_of(scenes.owner).get(plan_url(*operations)))
    assert all(op(one) in page for one in operations)
    assert "{detail}" not in page


def test_the_start_says_after_how_many_unknown_outcomes_it_stops(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    page = client.get(plan_url(scenes.rejected())).content.decode()
    assert '<option value="3" selected>3 unknown outcomes</option>' in page
    opened = scenes.rejected()

    wrong = client.post("/replays/start", form_of(client, opened, stop="7"))
    done = client.post("/replays/start", form_of(client, opened, stop="1"))

    assert wrong.status_code == 422
    assert "Choose after how many unknown outcomes it stops." in wrong.content.decode()
    assert done.status_code == 303
    replay = Replay.objects.get()
    assert replay.stop_after == 1
    assert "It stops by itself after 1 unknown outcome." in client.get(done.url).content.decode()
    Replay.objects.update(stopped_after=1)
    assert "It paused by itself: 1 outcome of its steps is unknown." in client.get(done.url).content.decode()
