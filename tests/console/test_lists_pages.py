"""Lists and statements on pages: what they say is shown first, what is wrong is told, and nothing else is settled."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from people import client_of
from scenes import Scenes
from test_selections import hidden

from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine.wire import installed_wire
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.models import (
    BulkRun,
    Destination,
    Hold,
    ProviderStatement,
    ReadReference,
    ReferenceList,
    Replay,
)
from opsledger.lib.ids import public
from tests.bulk import counts, selected
from tests.desk import step_identity
from tests.replaying import unknown


@pytest.fixture(autouse=True)
def _reaches_the_sandbox(settings: Any) -> Iterator[None]:
    settings.ALLOWED_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    installed_wire.cache_clear()
    yield
    installed_wire.cache_clear()


def lost(scenes: Scenes, count: int = 1, *, acted: bool = True) -> list[tuple[Hold, str, str]]:
    """Open holds, each with its identity and the reference of its record; "" where there is none."""
    found = []
    for _ in range(count):
        Destination.objects.update(send_tokens=5.0)
        opened = unknown(scenes.desk, acted=acted)
        identity = step_identity(opened.id, 1)
        effects = scenes.desk.sandbox.effects(identity=identity)
        found.append((scenes.hold(opened), identity, effects[0]["reference"] if effects else ""))
    return found


def selection_of(scenes: Scenes, holds: list[Hold]) -> tuple[Client, str]:
    made = selected(holds, by_person(scenes.owner))
    return client_of(scenes.owner), f"/selections/{public('sel', made.pk)}/"


def kept(client: Client, selection: str, text: str) -> str:
    response = client.post(f"{selection}list/keep", {"list": text})
    assert response.status_code == 303, response.content.decode()
    return str(response["Location"])


def apply_form(client: Client, address: str, **more: str) -> dict[str, str]:
    page = client.get(address).content.decode()
    return {
        "shown": hidden(page, "shown"),
        "once": hidden(page, "once"),
        "reason": "Their export.",
    } | more


# Lists


def test_the_selection_leads_to_a_list_and_a_statement(scenes: Scenes) -> None:
    client, selection = selection_of(scenes, [hold for hold, _, _ in lost(scenes)])

    page = client.get(selection).content.decode()

    assert f'href="{selection}list/"' in page
    assert f'href="{selection}statement/"' in page


def test_a_pasted_list_is_shown_row_by_row_and_settles_what_it_names(scenes: Scenes) -> None:
    (first, one, reference), (second, _, _) = lost(scenes, 2)
    client, selection = selection_of(scenes, [first, second])
    assert "external id" in client.get(f"{selection}list/").content.decode()

    address = kept(client, selection, f"reference,identity\r\n{reference},{one}\r\nT-9,ol_nobody\r\n")
    page = client.get(address).content.decode()
    assert Hold.objects.filter(closed_at__isnull=True).count() == 2, "nothing is settled by showing"
    assert "Settle one hold" in page
    assert "No hold that was selected has this identity." in page
    assert "The list does not name it." in page
    assert "read at crm_classic first and compared" in page

    response = client.post(f"{address}apply", apply_form(client, address))

    assert response.status_code == 303
    run = BulkRun.objects.get()
    assert response["Location"] == f"/selections/runs/{public('run', run.pk)}/"
    assert counts(run) == {"done": 1, "left": 1}
    told = client.get(response["Location"]).content.decode()
    assert "The list does not name it." in told
    first.refresh_from_db()
    assert first.step.reference == reference


def test_an_attached_list_is_kept_with_its_name(scenes: Scenes) -> None:
    ((hold, identity, reference),) = lost(scenes)
    client, selection = selection_of(scenes, [hold])
    content = f"\ufeffexternal_id;id\n{identity};{reference}\n".encode()

    response = client.post(
        f"{selection}list/keep", {"list": "", "file": SimpleUploadedFile("tasks.csv", content)}
    )

    assert response.status_code == 303
    row = ReferenceList.objects.get()
    assert (row.file_name, bytes(row.content)) == ("tasks.csv", content)
    assert "tasks.csv" in client.get(f"{selection}list/").content.decode()


@pytest.mark.parametrize(
    ("posted", "says"),
    [
        ({"list": "  "}, "Paste the list, or attach it as a file."),
        ({"list": 'reference,identity\n"T-1,ol_x'}, "From line 2 on the list can’t be read"),
        ({"list": "T-1,T-2\n"}, "No cell of the list is the identity"),
        ({"file": b"x" * 2_000_001}, "The list has 2,000,001 bytes"),
        ({"file": b"x" * 3_000_000}, "The list has 2,000,001 bytes"),
        ({"file": b"reference\n\xff\n"}, "Line 2 is not UTF-8"),
        ({"file": b"reference\nT\0-1\n"}, ""),
    ],
    ids=[
        "nothing",
        "an open quote",
        "nobody’s",
        "too long",
        "far too long",
        "not UTF-8",
        "a NUL is one bad row",
    ],
)
def test_a_list_that_cant_be_read_is_told_and_what_was_typed_stays(
    scenes: Scenes, posted: dict[str, Any], says: str
) -> None:
    client, selection = selection_of(scenes, [hold for hold, _, _ in lost(scenes)])
    if isinstance(posted.get("file"), bytes):
        posted = {"file": SimpleUploadedFile("list.csv", posted["file"])}

    response = client.post(f"{selection}list/keep", posted)

    if not says:
        assert response.status_code == 303
        assert "It can’t be read." in client.get(response["Location"]).content.decode()
        return
    page = response.content.decode()
    assert response.status_code == 422
    assert says in page
    assert "text following" not in page
    assert ReferenceList.objects.count() == 0
    if posted.get("list", "").strip():
        assert "T-1" in page


def test_far_more_than_a_page_takes_is_no_fault_of_ours(scenes: Scenes) -> None:
    client, selection = selection_of(scenes, [hold for hold, _, _ in lost(scenes)])

    response = client.post(f"{selection}list/keep", {"list": "x" * 6_000_000})

    assert response.status_code == 400
    assert "This is more than a page takes" in response.content.decode()
    assert ReferenceList.objects.count() == 0


def test_a_list_needs_a_reason_and_keeps_it_when_something_moved(scenes: Scenes) -> None:
    (first, one, reference), (second, two, other) = lost(scenes, 2)
    client, selection = selection_of(scenes, [first, second])
    address = kept(client, selection, f"reference,identity\n{reference},{one}\n{other},{two}\n")
    form = apply_form(client, address)

    lacking = client.post(f"{address}apply", form | {"reason": " "})
    settle_assign([second.pk], scenes.owner.pk, by_person(scenes.owner))
    moved = client.post(f"{address}apply", form)

    assert lacking.status_code == 422
    assert "Write the reason" in lacking.content.decode()
    page = moved.content.decode()
    assert moved.status_code == 409
    assert "changed while you were reading" in page
    assert "Their export." in page
    assert BulkRun.objects.count() == 0
    again = client.post(f"{address}apply", apply_form(client, address))
    assert again.status_code == 303
    assert counts(BulkRun.objects.get()) == {"done": 1, "skipped": 1}


def test_the_same_press_twice_leads_to_one_run(scenes: Scenes) -> None:
    ((hold, identity, reference),) = lost(scenes)
    client, selection = selection_of(scenes, [hold])
    address = kept(client, selection, f"reference,identity\n{reference},{identity}\n")
    form = apply_form(client, address)

    first, second = (client.post(f"{address}apply", form) for _ in range(2))

    assert first["Location"] == second["Location"]
    assert BulkRun.objects.count() == 1


def test_references_alone_are_read_by_a_press_and_shown_again(scenes: Scenes) -> None:
    ((hold, _, reference),) = lost(scenes)
    client, selection = selection_of(scenes, [hold])
    address = kept(client, selection, f"{reference}\n")
    assert "Read 1 reference" in client.get(address).content.decode()
    assert ReadReference.objects.count() == 0, "a GET reads nothing"

    assert client.post(f"{address}read").status_code == 303

    page = client.get(address).content.decode()
    assert "Read 1 reference" not in page
    assert "Settle one hold" in page


def test_rows_are_shown_by_kind_and_as_a_file_that_no_spreadsheet_runs(scenes: Scenes) -> None:
    ((hold, identity, reference),) = lost(scenes)
    client, selection = selection_of(scenes, [hold])
    rows = "".join(f"=T-{number},ol_{number}\n" for number in range(150))
    address = kept(client, selection, f"reference,identity\n{reference},{identity}\n{rows}")

    matching = client.get(f"{address}?show=matches").content.decode()
    first = client.get(f"{address}?show=no_such_identity").content.decode()
    later = client.get(f"{address}?show=no_such_identity&after=102").content.decode()
    file = b"".join(client.get(f"{address}rows.csv").streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]

    assert "ol_149" not in matching
    assert "after=102" in first
    assert "ol_149" in later
    told = list(csv.DictReader(io.StringIO(file)))
    assert len(told) == 151
    assert {row["verdict"] for row in told} == {"matches", "no_such_identity"}
    assert told[1]["reference"].startswith("'=")
    assert client.get(f"{address}?show=else").status_code == 400
    assert client.get(f"{address}?after=x").status_code == 400


def test_what_a_list_holds_is_shown_as_text_and_sensitive_fields_masked(scenes: Scenes) -> None:
    ((hold, identity, _),) = lost(scenes)
    client, selection = selection_of(scenes, [hold])
    address = kept(
        client,
        selection,
        f"reference,identity,account\n<script>alert(1)</script>,{identity},ACC-000123\n",
    )

    page = client.get(address).content.decode()

    assert "<script>alert" not in page
    assert "ACC-000123" not in page
    assert "ACC-4417" not in page
    assert "account" in page


def test_a_list_is_not_offered_where_it_does_not_fit(scenes: Scenes) -> None:
    opened = scenes.rejected()
    client, selection = selection_of(scenes, [scenes.hold(opened)])

    page = client.get(f"{selection}list/").content.decode()
    response = client.post(f"{selection}list/keep", {"list": "T-1\n"})

    assert "can’t be answered with “It happened”" in page
    assert "<textarea" not in page
    assert response.status_code == 422


# Statements


def say(client: Client, selection: str, **more: Any) -> Any:
    posted = {"words": "None reached us.", "how": "By mail, to their second line.", "ticket": "SUP-7"}
    return client.post(f"{selection}statement/keep", posted | more)


def test_a_statement_is_shown_by_what_it_covers_and_leads_to_a_plan_that_is_started(scenes: Scenes) -> None:
    (first, one, _), (second, _, _) = lost(scenes, 2, acted=False)
    client, selection = selection_of(scenes, [first, second])
    assert "sent again by a replay" in client.get(f"{selection}statement/").content.decode()

    kept_at = say(client, selection, list=f"{one}\r\n")["Location"]
    page = client.get(kept_at).content.decode()
    assert "None reached us." in page
    assert "SUP-7" in page
    assert "The statement’s list does not name it." in page
    statement = ProviderStatement.objects.get()
    name = public("stm", statement.pk)
    planned = client.get(f"/replays/plan/?statement={name}").content.decode()
    assert name in planned
    assert "Did not happen, says the provider; sent again" in planned
    assert Replay.objects.count() == 0

    form = {"plan": hidden(planned, "plan"), "plan_digest": hidden(planned, "plan_digest")}
    form |= {"name": "by statement", "reason": "They say so.", "touches": "crm_classic", "query": ""}
    started = client.post("/replays/start", form)

    assert started.status_code == 303
    replay = Replay.objects.get()
    assert (replay.statement_id, replay.item_count) == (statement.pk, 1)
    assert Hold.objects.filter(closed_at__isnull=True).count() == 2, "the engine begins it, not the press"


@pytest.mark.parametrize(
    ("posted", "says"),
    [
        ({"words": " "}, "Write what the provider said, or attach it."),
        ({"how": ""}, "Say how it was asked, and who answered."),
        ({"list": "ol_nobody\n"}, "The statement covers none of the selected holds"),
        ({"list": '"open'}, "can’t be read"),
    ],
    ids=["nothing said", "not asked", "covers nobody", "unreadable"],
)
def test_a_statement_that_lacks_something_is_told_and_what_was_typed_stays(
    scenes: Scenes, posted: dict[str, str], says: str
) -> None:
    client, selection = selection_of(scenes, [hold for hold, _, _ in lost(scenes, acted=False)])

    response = say(client, selection, **posted)

    assert response.status_code == 422
    page = response.content.decode()
    assert says in page
    assert "SUP-7" in page
    assert ProviderStatement.objects.count() == 0


def test_an_attached_statement_comes_back_as_it_was_and_never_inside_a_page(scenes: Scenes) -> None:
    client, selection = selection_of(scenes, [hold for hold, _, _ in lost(scenes, acted=False)])
    letter = SimpleUploadedFile("letter.html", b"<script>alert(1)</script>\0")

    address = say(client, selection, words="", file=letter)["Location"]
    page, file = client.get(address).content.decode(), client.get(f"{address}file")

    assert "letter.html" in page
    assert "<script>alert" not in page
    assert file.content == b"<script>alert(1)</script>\0"
    assert file["Content-Type"] == "application/octet-stream"
    assert file["Content-Disposition"].startswith("attachment")
    assert file["Cache-Control"] == "no-store, private"


def test_a_character_that_cant_be_stored_is_no_fault(scenes: Scenes) -> None:
    client, selection = selection_of(scenes, [hold for hold, _, _ in lost(scenes, acted=False)])

    assert say(client, selection, words="a\0b", how="c\0d", ticket="e\0f").status_code == 303
    assert ProviderStatement.objects.get().words == "a␀b"


def test_a_plan_of_a_statement_is_for_those_who_plan_in_its_team(scenes: Scenes) -> None:
    client, selection = selection_of(scenes, [hold for hold, _, _ in lost(scenes, acted=False)])
    say(client, selection)
    path = f"/replays/plan/?statement={public('stm', ProviderStatement.objects.get().pk)}"

    assert client_of(scenes.member("Omar", Role.OPERATOR)).get(path).status_code == 403
    assert client.get(f"/replays/plan/?statement={public('stm', uuid4())}").status_code == 404
    assert client.get("/replays/plan/?statement=x").status_code == 400


def test_the_operations_history_names_the_list_and_its_line(scenes: Scenes) -> None:
    ((hold, identity, reference),) = lost(scenes)
    client, selection = selection_of(scenes, [hold])
    address = kept(client, selection, f"reference,identity\n{reference},{identity}\n")
    client.post(f"{address}apply", apply_form(client, address))

    page = client.get(f"/operations/{public('op', hold.operation_id)}/").content.decode()

    assert public("lst", ReferenceList.objects.get().pk) in page
    assert "Their export." in page
    assert json.dumps(reference).strip('"') in page
