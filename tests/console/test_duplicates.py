"""Several records of one action: each with its fields and its uses, one is kept, of the others is said what was done."""

from __future__ import annotations

import html as markup
import json
import re
from typing import Any

from django.test import Client
from people import client_of
from scenes import Scenes, hold_path, path_of

from opsledger.accounts.roles import Role
from opsledger.console.duplicates import field_of
from opsledger.journal.models import Entry
from opsledger.ledger.definitions import reference_key
from opsledger.ledger.queries.dependents import dependents_of

KEPT, OTHER = "T-58409", "T-58401"


def page_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return markup.unescape(response.content.decode())


def keep(client: Client, scenes: Scenes, opened: Any, **data: str) -> Any:
    hold = scenes.hold(opened)
    fields = {"version": str(hold.version), "answer": "keep_one", "reason": "Compared both there.", **data}
    return client.post(hold_path(hold, "settle"), fields)


def test_every_record_is_shown_with_its_fields_its_link_and_what_was_searched(scenes: Scenes) -> None:
    opened = scenes.duplicate()

    page = page_of(client_of(scenes.owner), path_of(opened))

    for reference in (OTHER, KEPT):
        assert f"Approved values against record {reference}" in re.sub(r"<[^>]+>", "", page)
        assert f"{scenes.desk.sandbox.url}/crm/tasks/{reference}.html" in page
    assert page.count("Only one attempt was made of it.") == 2
    assert page.count("Nothing that was searched names it.") == 2
    assert "none of the team was recorded after it" in page


def test_who_may_not_answer_sees_the_records_all_the_same(scenes: Scenes) -> None:
    page = page_of(client_of(scenes.member("Vera", Role.VIEWER)), path_of(scenes.duplicate()))

    assert "The records that were found" in page
    assert 'name="kept_reference"' not in page


def test_steps_and_operations_that_name_a_record_are_found(scenes: Scenes) -> None:
    opened = scenes.duplicate()
    naming = scenes.open(subject=f"Call about {OTHER}.")
    neighbour = scenes.open(subject=f"Call about {OTHER}7.")
    assert neighbour.id != naming.id

    found = dependents_of(scenes.desk.team.pk, opened.id, 1, [OTHER, KEPT])
    page = page_of(client_of(scenes.owner), path_of(opened))

    assert [(use.operation_id, use.sent) for use in found.uses[OTHER]] == [(naming.id, False)]
    assert found.uses[KEPT] == []
    assert (found.operations_read, found.more_exist) == (2, False)
    assert "the requests of the 2 operations recorded after it" in page
    assert "not sent yet, and keeps its request" in page


def test_of_each_record_that_is_not_kept_it_must_be_said_what_was_done(scenes: Scenes) -> None:
    opened, client = scenes.duplicate(), client_of(scenes.owner)

    silent = keep(client, scenes, opened, kept_reference=KEPT, **{field_of(KEPT): "This one stays."})

    page = markup.unescape(silent.content.decode())
    assert silent.status_code == 422
    assert "Write what was done with this record" in page
    assert "This one stays." in page  # what was typed is still there
    assert scenes.desk.step(opened).reference is None
    assert not Entry.objects.filter(subject_id=opened.id, kind="answered").exists()


def test_the_one_that_is_kept_becomes_the_reference_and_the_other_is_on_record(scenes: Scenes) -> None:
    opened, client = scenes.duplicate(), client_of(scenes.owner)

    done = keep(
        client, scenes, opened, kept_reference=KEPT, **{field_of(OTHER): "Closed by Ann, no mail went."}
    )

    assert done.status_code == 303
    assert scenes.desk.step(opened).reference == KEPT
    entry = json.loads(Entry.objects.get(subject_id=opened.id, kind="answered").body)
    assert entry["extra_records"] == [reference_key(OTHER)]
    assert "Closed by Ann" not in json.dumps(entry)
    page = page_of(client, path_of(opened))
    assert f"Record {OTHER}, not kept" in page
    assert "Closed by Ann, no mail went." in page
    file = client.get(f"{path_of(opened)}evidence-file").content.decode()
    assert f"Known extra record, not kept: `{OTHER}` (SHA-256 `{reference_key(OTHER)}`)" in file
    assert "Closed by Ann" not in file
