"""Nobody decides on a stale page, nothing is decided twice, and what was typed is never lost."""

from __future__ import annotations

import html as markup
import re
from threading import Barrier, Thread
from typing import Any

from django.db import connections
from people import client_of
from scenes import Scenes, hold_path, path_of

from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.models import Operation
from opsledger.rules.answers import Answer
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import Outcome

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "operation"}
ABSENT = {
    "answer": "absent",
    "then": "end",
    "checked_how": "Searched.",
    "reason": "I searched by our identity.",
}


def answers(opened: Any) -> int:
    return Entry.objects.filter(subject_id=opened.id, kind="answered").count()


def test_the_second_of_two_owners_is_told_what_the_first_said_and_nothing_of_theirs_is_recorded(
    scenes: Scenes,
) -> None:
    olga = scenes.member("Olga", Role.OWNER)
    opened = scenes.unknown()
    hold = scenes.hold(opened)
    scenes.settle(opened, Answer.HAPPENED, reference="T-1")
    typed = ABSENT | {"version": str(hold.version)}
    for headers in ({}, HTMX):
        response = client_of(olga).post(hold_path(hold, "settle"), typed, **headers)
        assert response.status_code == 409
        assert "readonly>I searched by our identity.</textarea>" in response.content.decode()
    page = markup.unescape(response.content.decode())
    assert "This hold changed: Test owner answered “it happened”" in page
    assert "Nothing of yours was recorded." in page
    assert answers(opened) == 1
    assert scenes.desk.step(opened).state == "confirmed"


def test_a_hold_that_changed_shows_the_fresh_panel_with_the_typed_reason(scenes: Scenes) -> None:
    opened = scenes.unknown()
    hold = scenes.hold(opened)
    settle_assign([hold.pk], scenes.owner.pk, by_person(scenes.owner))  # its version grows
    client = client_of(scenes.owner)
    typed = ABSENT | {"version": str(hold.version), "reason": "Three hundred words, " * 20}
    response = client.post(hold_path(hold, "settle"), typed, **HTMX)
    page = markup.unescape(response.content.decode())
    assert response.status_code == 409
    assert (response["HX-Retarget"], response["X-Ops-Fragment"]) == ("#decide", "1")
    assert page.lstrip().startswith('<div id="decide">')
    assert "This hold changed while you were reading it." in page
    assert "Three hundred words, " * 20 in page
    assert re.search(r'<input [^>]*value="absent"[^>]* checked>', page)
    assert f'name="version" value="{scenes.hold(opened).version}"' in page
    assert answers(opened) == 0
    again = client.post(
        hold_path(hold, "settle"), typed | {"version": str(scenes.hold(opened).version)}, **HTMX
    )
    assert again.status_code == 303
    assert answers(opened) == 1


def test_evidence_that_ended_a_hold_is_named(scenes: Scenes) -> None:
    from opsledger.ledger.actions.record import Sent, record_sends

    opened = scenes.unknown()
    hold, attempt = scenes.hold(opened), scenes.desk.step(opened).attempts.get()
    evidence = scenes.evidence(1, "crm_classic", "found", "The reply came late.", attempt_id=attempt.pk)
    late = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="T-1")
    record_sends([Sent(opened.id, 1, attempt.pk, late, evidence, f"destination:{evidence.origin}")])
    response = client_of(scenes.owner).post(
        hold_path(hold, "settle"), ABSENT | {"version": str(hold.version)}
    )
    assert response.status_code == 409
    assert "This hold changed: evidence ended it" in response.content.decode()


def test_the_same_answer_pressed_twice_is_one_answer(scenes: Scenes) -> None:
    opened = scenes.unknown()
    hold, client = scenes.hold(opened), client_of(scenes.owner)
    first = client.post(hold_path(hold, "settle"), ABSENT | {"version": str(hold.version)})
    second = client.post(hold_path(hold, "settle"), ABSENT | {"version": str(hold.version)})
    assert (first.status_code, second.status_code) == (303, 303)
    assert answers(opened) == 1
    assert "Your answer was recorded already." in client.get(path_of(opened)).content.decode()


def test_still_unknown_pressed_twice_is_one_answer(scenes: Scenes) -> None:
    opened = scenes.unknown()
    hold, client = scenes.hold(opened), client_of(scenes.owner)
    data = {
        "answer": "unknown",
        "next_check": "60",
        "reason": "Their search lags.",
        "version": str(hold.version),
    }
    assert [client.post(hold_path(hold, "settle"), data).status_code for _ in range(2)] == [303, 303]
    assert answers(opened) == 1


def test_two_owners_at_the_same_moment_one_decides(scenes: Scenes) -> None:
    olga = scenes.member("Olga", Role.OWNER)
    opened = scenes.unknown()
    hold, barrier = scenes.hold(opened), Barrier(2)
    statuses: list[int] = []

    def answer(who: Any, data: dict[str, str]) -> None:
        client = client_of(who)
        barrier.wait()
        statuses.append(
            client.post(hold_path(hold, "settle"), data | {"version": str(hold.version)}).status_code
        )
        connections.close_all()

    mine = {
        "answer": "happened",
        "happened_as": "confirmed",
        "no_reference_why": "None is shown.",
        "reason": "Seen.",
    }
    threads = [Thread(target=answer, args=one) for one in ((scenes.owner, mine), (olga, ABSENT))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [303, 409]
    assert answers(opened) == 1


def test_cancelling_and_taking_back_carry_the_version_that_was_read(scenes: Scenes) -> None:
    opened = scenes.unknown()
    scenes.settle(opened, Answer.ABSENT_SEND_AGAIN, checked_how="Searched.")
    version = str(Operation.objects.get(pk=opened.id).version - 1)
    client = client_of(scenes.owner)
    for action in ("cancel", "steps/1/withdraw"):
        response = client.post(
            f"{path_of(opened)}{action}", {"version": version, "reason": "kept reason of mine"}
        )
        page = response.content.decode()
        assert response.status_code == 409, action
        assert "This operation changed while you were reading it." in page
        assert "kept reason of mine" in page
    assert scenes.desk.operation(opened).state == "running"


def test_the_page_is_told_while_somebody_types_and_shows_the_new_state_on_request(scenes: Scenes) -> None:
    opened = scenes.unknown()
    hold, client = scenes.hold(opened), client_of(scenes.owner)
    watch = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "hold-watch"}
    address = f"{hold_path(hold, 'watch')}?version={hold.version}"
    assert "changed" not in client.get(address, **watch).content.decode()
    settle_assign([hold.pk], scenes.owner.pk, by_person(scenes.owner))
    told = client.get(address, **watch).content.decode()
    assert "This hold changed while you were reading." in told
    assert "data-poll" not in told
    shown = client.post(
        hold_path(hold, "settle"), ABSENT | {"version": str(hold.version), "refresh": "1"}, **HTMX
    )
    assert shown.status_code == 200
    assert "I searched by our identity." in shown.content.decode()
    assert answers(opened) == 0


def test_a_destination_goes_on_once_and_a_stale_page_changes_nothing(scenes: Scenes) -> None:
    hold = scenes.stopped()
    client = client_of(scenes.owner)
    data = {"version": str(hold.version), "rate": "5", "reason": "Their upgrade is done."}
    path = f"/destinations/holds/{hold_path(hold, '').split('/')[2]}/resume"
    stale = client.post(path, data | {"version": "99"})
    assert stale.status_code == 409
    assert "Their upgrade is done." in stale.content.decode()
    first, second = (client.post(path, data) for _ in range(2))
    assert [first.status_code, second.status_code] == [303, 409]
    assert "This hold ended while you were reading." in second.content.decode()
    assert Entry.objects.filter(subject_id=hold.destination_id, kind="sending_resumed").count() == 1
