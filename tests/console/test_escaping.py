"""A payload is text wherever it appears: in lists, pages, fragments, titles, toasts and files."""

from __future__ import annotations

import pytest
from people import client_of
from scenes import UNKNOWN, Scenes, hold_path, path_of

from opsledger.console.forms import by_person
from opsledger.ledger.actions.notes import settle_note_on_operation
from opsledger.ledger.models import Evidence
from opsledger.lib.ids import public

LIVE = '<b hx-post="/inbox/assign/" hx-trigger="load">x</b>'


@pytest.fixture
def planted(scenes: Scenes):  # type: ignore[no-untyped-def]
    """An operation whose id, parameters, reply, reference and note all try to become markup."""
    opened = scenes.open(f"id:{LIVE}", company=LIVE, subject=LIVE)
    scenes.send(UNKNOWN, sentence=f"The reply said {LIVE}.", content=LIVE.encode())
    scenes.look(opened, scenes.record(opened, f"T-{LIVE}", subject=LIVE))
    settle_note_on_operation(opened.id, LIVE, by_person(scenes.owner))
    return opened


def test_markup_in_what_strangers_sent_is_shown_as_text_on_every_page(scenes: Scenes, planted) -> None:  # type: ignore[no-untyped-def]
    client, hold = client_of(scenes.owner), scenes.hold(planted)
    evidence = Evidence.objects.filter(operation_id=planted.id, kind="reply").get()
    htmx = {"HTTP_HX_REQUEST": "true"}
    answers = {
        "inbox": client.get("/"),
        "operation": client.get(path_of(planted)),
        "operations": client.get("/operations/"),
        "search": client.get("/operations/", {"q": LIVE}),
        "audit": client.get("/audit/"),
        "evidence": client.get(f"{path_of(planted)}evidence/{public('ev', evidence.pk)}/"),
        "strip": client.get(path_of(planted), HTTP_HX_TARGET="strip", **htmx),
        "decide": client.get(path_of(planted), HTTP_HX_TARGET="decide", **htmx),
        "refused": client.post(hold_path(hold, "settle"), {"version": "9", "answer": LIVE, "reason": LIVE}),
        "looked up": client.post(
            hold_path(hold, "look-up"), {"reference": LIVE}, HTTP_HX_TARGET="comparison", **htmx
        ),
        "revealed": client.post(f"{path_of(planted)}reveal"),
        "bad filter": client.get("/", {"view": LIVE}),
    }
    for name, response in answers.items():
        text = response.content.decode()
        assert LIVE not in text, name
        assert "<b hx-post" not in text, name
        assert "&lt;b hx-post=" in text or "&lt;b" in text, name


def test_what_is_announced_is_escaped_too(scenes: Scenes, planted) -> None:  # type: ignore[no-untyped-def]
    client = client_of(scenes.owner)
    client.post(f"{path_of(planted)}notes", {"text": LIVE})
    page = client.get(path_of(planted)).content.decode()
    assert LIVE not in page


def test_a_deceiving_id_is_marked_and_kept_byte_for_byte(scenes: Scenes) -> None:
    scenes.unknown("req-1 ")
    page = client_of(scenes.owner).get("/operations/").content.decode()
    assert "req-1<mark>U+0020</mark>" in page
    assert client_of(scenes.owner).get("/operations/", {"q": "req-1 "}).status_code == 303
