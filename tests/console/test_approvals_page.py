"""What waits for an approval, what exactly would be sent, who may decide, and that one decision is made once."""

from __future__ import annotations

import html as markup
import json
import re
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connections
from people import client_of, person
from scenes import REJECTED, Scenes, hold_path, path_of

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.journal.models import Entry
from opsledger.ledger.actions.intake import open_intended
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.actions.wanted import Wanted, WantedContent
from opsledger.ledger.models import Approval, ContentVersion, Hold, Revision
from opsledger.ledger.queries import nav
from opsledger.lib.ids import public
from opsledger.local.postgres import Urls
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind
from tests.by_hand import replaced_by_hand
from tests.desk import AUTOMATION, LETTER, LETTER_PARAMS, params, step_identity

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "approval"}
OTHER_TEXT = "Your order is on its way. A colleague will write once it has arrived."


@pytest.fixture
def olga(scenes: Scenes) -> Person:
    """A second owner."""
    return scenes.member("Olga", Role.OWNER)


def text_of(response: Any) -> str:
    return markup.unescape(response.content.decode())


def newest(scenes: Scenes, content_id: str = "spring-launch:letter") -> ContentVersion:
    return ContentVersion.objects.filter(team=scenes.desk.team, content_id=content_id).latest("number")


def address(version: ContentVersion, what: str = "") -> str:
    return f"/approvals/{public('cv', version.pk)}/{what}"


def form_of(client: Any, version: ContentVersion) -> dict[str, str]:
    """The hidden fields of the decision form, as a browser would send them."""
    page = client.get(address(version)).content.decode()
    return {
        name: re.search(rf'name="{name}" value="([^"]*)"', page)[1]  # type: ignore[index]
        for name in ("version", "covered_digest", "step", "after")
    }


def approve(client: Any, version: ContentVersion, **more: Any) -> Any:
    return client.post(address(version, "decide"), form_of(client, version) | {"answer": "approve", **more})


# The list


def test_the_list_tells_what_waits_for_me_what_for_others_and_what_was_decided(
    scenes: Scenes, olga: Person
) -> None:
    scenes.desk.letter()
    scenes.desk.letter()
    client = client_of(scenes.owner)
    page = text_of(client.get("/approvals/"))
    assert "Waiting for you" in page
    assert "Model draft-writer-2" in page
    assert "2 operations wait" in page
    assert approve(client, newest(scenes)).status_code == 303
    scenes.desk.propose(by_person(scenes.owner), author=scenes.owner.email, text=OTHER_TEXT)
    page = text_of(client.get("/approvals/"))
    assert "You wrote it" in page
    assert "Waiting for others" in page
    assert "Version 1 of spring-launch:letter" in page
    assert "Waiting for you" in text_of(client_of(olga).get("/approvals/"))


def test_the_number_beside_the_navigation_counts_what_this_person_may_decide(
    scenes: Scenes, olga: Person
) -> None:

    def waiting(person: Person) -> int:
        return nav.counts([scenes.desk.team.pk], person.pk, approver=True)["approvals"]

    scenes.desk.letter()
    scenes.desk.letter()
    assert (waiting(scenes.owner), waiting(olga)) == (1, 1)
    scenes.desk.propose(by_person(scenes.owner), author=scenes.owner.email, text=OTHER_TEXT)
    assert (waiting(scenes.owner), waiting(olga)) == (0, 1)
    revised(scenes)
    assert (waiting(scenes.owner), waiting(olga)) == (0, 2)
    page = client_of(olga).get("/approvals/").content.decode()
    assert '<b>2<span class="vh"> wait for you</span></b>' in page
    viewer = scenes.member("Vera", Role.VIEWER)
    assert "wait for you" not in client_of(viewer).get("/").content.decode()


def by_hand(scenes: Scenes) -> None:
    scenes.desk.propose(AUTOMATION, kind=AuthorKind.MODEL, author="draft-writer-2")
    scenes.desk.letter(by=by_person(scenes.owner))


def by_hand_and_by_others(scenes: Scenes) -> None:
    by_hand(scenes)
    scenes.desk.letter()


def recorded_and_changed_by_another(scenes: Scenes) -> None:
    by, other = by_person(scenes.owner), by_person(Person.objects.get(display_name="Olga"))
    wanted = Wanted("test:by-hand", "classic_follow_up", params("classic_follow_up"))
    opened = open_intended(scenes.desk.team.pk, [wanted], by)[0].opened
    assert opened is not None
    scenes.send(REJECTED, says="rejected")
    hold = scenes.hold(opened)
    changed = Decision(Answer.REVISE, "Their queue moved.", hold.version, params={"queue": "launch-desk"})
    settle_hold(hold.pk, changed, other)


# What waits, by whom it was recorded, and for how many decisions it counts: the recorder's, and another owner's.
RECORDED: dict[str, tuple[Any, tuple[int, int]]] = {
    "all of it by hand": (by_hand, (0, 1)),
    "some of it by hand": (by_hand_and_by_others, (1, 1)),
    "one request, changed by the other": (recorded_and_changed_by_another, (0, 0)),
}


@pytest.mark.parametrize(("scene", "counts"), RECORDED.values(), ids=RECORDED.keys())
def test_what_somebody_recorded_counts_as_waiting_for_others(
    scenes: Scenes, olga: Person, scene: Any, counts: tuple[int, int]
) -> None:
    scene(scenes)
    for who, count in zip((scenes.owner, olga), counts, strict=True):
        assert nav.counts([scenes.desk.team.pk], who.pk, approver=True)["approvals"] == count, who
        page = text_of(client_of(who).get("/approvals/"))
        assert ("Waiting for you" in page, "Waiting for others" in page) == (bool(count), not count)
        assert (f'<b>{count}<span class="vh"> wait for you</span></b>' in page) == bool(count)


def test_a_version_whose_operations_one_recorded_oneself_is_not_offered_for_approval(
    scenes: Scenes, olga: Person
) -> None:
    by_hand(scenes)
    page = text_of(client_of(scenes.owner).get(address(newest(scenes))))
    assert "You recorded all that waits for it, so somebody else has to approve it." in page
    assert "Approve version" not in page
    assert "Reject version" in page
    assert "Approve version" in text_of(client_of(olga).get(address(newest(scenes))))


def test_a_viewer_reads_everything_and_is_offered_nothing(scenes: Scenes) -> None:
    scenes.desk.letter()
    version = newest(scenes)
    client = client_of(scenes.member("Vera", Role.VIEWER))
    assert "To approve content that is not one’s own, you need the role owner" in text_of(
        client.get("/approvals/")
    )
    page = text_of(client.get(address(version)))
    assert "What would be sent" in page
    for offered in ("decide", "reveal", "propose/"):
        assert f'{offered}"' not in page, offered


# What would be sent


def test_the_request_is_shown_beside_the_approved_one_word_by_word(scenes: Scenes, olga: Person) -> None:
    scenes.desk.letter()
    approve(client_of(olga), newest(scenes))
    propose_by_model(scenes, subject="Thank you for joining the spring launch")
    page = text_of(client_of(olga).get(address(newest(scenes))))
    assert "Thank you for <del>ordering from </del>the spring launch, Alder Works" in page
    assert "Thank you for <ins>joining </ins>the spring launch, Alder Works" in page
    assert "1 line changed" in page


def test_sensitive_values_stay_masked_and_a_change_of_them_is_still_told(
    scenes: Scenes, olga: Person
) -> None:
    """Both texts end alike, so that their masks are the same."""
    scenes.desk.letter()
    approve(client_of(olga), newest(scenes))
    propose_by_model(scenes, text="Something else entirely; we hope that you like it.")
    page = text_of(client_of(olga).get(address(newest(scenes))))
    assert LETTER["text"] not in page
    assert "Something else entirely" not in page
    assert "contact@customers.example" not in page
    assert page.count("Another value, masked alike on both sides.") == 2  # in the request, and in the fields


def test_revealing_is_journaled_for_the_content_and_for_the_operation_before_it_shows(
    scenes: Scenes, olga: Person
) -> None:
    opened = scenes.desk.letter()
    version = newest(scenes)
    page = text_of(
        client_of(olga).post(address(version, "reveal"), HTTP_HX_REQUEST="true", HTTP_HX_TARGET="approval")
    )
    assert LETTER["text"] in page
    assert "contact@customers.example" in page
    kinds = Entry.objects.filter(kind="revealed", actor=f"person:{olga.pk}").values_list(
        "subject_id", flat=True
    )
    assert set(kinds) == {opened.id, version.of_id}
    assert LETTER["text"] not in text_of(client_of(olga).get(address(version)))


def test_the_covered_operations_are_named_in_pages_and_one_digest_is_over_all(
    scenes: Scenes, olga: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opsledger.console.approval_pages.COVERED_PAGE", 2)
    for number in range(5):
        scenes.desk.letter(f"letter:{number}")
    client, version = client_of(olga), newest(scenes)
    seen, path = [], address(version)
    while path:
        page = client.get(path).content.decode()
        seen += re.findall(r"letter:\d", page.split('id="covers"')[1].split("</section>")[0])
        following = re.search(r'rel="next" href="(\?after=[^"#]*)', page)
        path = address(version) + following[1] if following else ""
    assert sorted(set(seen)) == [f"letter:{number}" for number in range(5)]
    assert approve(client, version).status_code == 303
    assert Approval.objects.get().covered_count == 5
    assert not Hold.objects.filter(closed_at__isnull=True).exists()


def test_another_operation_may_be_chosen_to_show_its_request(scenes: Scenes, olga: Person) -> None:
    first, second = scenes.desk.letter(), scenes.desk.letter()
    step = scenes.desk.step(second)
    page = text_of(client_of(olga).get(f"{address(newest(scenes))}?step={public('stp', step.pk)}"))
    assert step_identity(second.id, 1) in page
    assert step_identity(first.id, 1) not in page


# Who


def test_nobody_approves_what_they_wrote_or_asked_for_and_the_page_says_why(
    scenes: Scenes, olga: Person
) -> None:
    scenes.desk.letter()
    scenes.desk.propose(by_person(scenes.owner), author=olga.email, text=OTHER_TEXT)  # asked for by the owner
    version = newest(scenes)
    for who, why in ((olga, "You wrote it"), (scenes.owner, "You asked for it")):
        client = client_of(who)
        page = text_of(client.get(address(version)))
        assert f"{why}, so somebody else has to approve it." in page
        assert f"Approve version {version.number}" not in page
        assert "Nobody may approve this." in page
        assert "left out when you approve" not in page
        assert "Test owner, the fallback owner of Desk" in page
        refused = approve(client, version)
        assert refused.status_code == 403
        assert why in text_of(refused)
    assert not Approval.objects.filter(content_version=version).exists()


def test_what_i_recorded_is_left_out_and_named_and_waits_on(scenes: Scenes, olga: Person) -> None:
    other = scenes.desk.letter("letter:other")
    mine = scenes.desk.letter("letter:mine", by=by_person(olga))
    client, version = client_of(olga), newest(scenes)
    page = text_of(client.get(address(version)))
    assert "1 of them is left out when you approve, because you recorded it" in page
    assert "You recorded it: left out when you approve." in page
    assert approve(client, version).status_code == 303
    assert "One operation is left for somebody else" in text_of(client.get(address(version)))
    assert not Hold.objects.filter(operation_id=other.id, closed_at__isnull=True).exists()
    assert scenes.hold(mine).reason == "approval_needed"
    assert approve(client, version).status_code == 403
    assert approve(client_of(scenes.owner), version).status_code == 303


# Deciding, once


def test_reading_changes_nothing(scenes: Scenes, olga: Person) -> None:
    opened = scenes.desk.letter()
    client, version = client_of(olga), newest(scenes)
    step = scenes.desk.step(opened)
    before = Entry.objects.count()
    for path in ("/approvals/", address(version), address(version, "propose/"),
                 f"/approvals/requests/{public('stp', step.pk)}/",
                 f"/approvals/holds/{public('hold', scenes.hold(opened).pk)}/"):  # fmt: skip
        for answer in (client.get(path), client.head(path)):
            assert answer.status_code in {200, 303, 405}, path
    for path in (address(version, "decide"), address(version, "reveal"), address(version, "propose/version")):
        assert (client.get(path).status_code, client.head(path).status_code) == (405, 405), path
    assert Entry.objects.count() == before
    assert newest(scenes).state == "proposed"


def test_pressed_twice_it_is_one_decision(scenes: Scenes, olga: Person) -> None:
    scenes.desk.letter()
    client, version = client_of(olga), newest(scenes)
    form = form_of(client, version) | {"answer": "approve"}
    assert [client.post(address(version, "decide"), form).status_code for _ in range(2)] == [303, 303]
    assert Approval.objects.count() == 1
    assert "Your decision was recorded already." in text_of(client.get(address(version)))


def test_two_owners_at_the_same_moment_one_decides_and_the_other_sees_who(
    scenes: Scenes, olga: Person
) -> None:
    scenes.desk.letter()
    version, barrier = newest(scenes), Barrier(2)
    clients = {who.display_name: client_of(who) for who in (olga, scenes.owner)}
    forms = {name: form_of(client, version) | {"answer": "approve"} for name, client in clients.items()}
    answers: dict[str, Any] = {}

    def press(name: str) -> None:
        barrier.wait()
        answers[name] = clients[name].post(address(version, "decide"), forms[name])
        connections.close_all()

    threads = [Thread(target=press, args=(name,)) for name in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = sorted(answers, key=lambda name: answers[name].status_code)
    assert [answers[first].status_code, answers[second].status_code] == [303, 409]
    assert f"{first} approved this version at" in text_of(answers[second])
    assert Approval.objects.count() == 1


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["a page", "htmx"])
def test_a_decision_on_what_changed_meanwhile_is_409_with_the_typed_reason(
    scenes: Scenes, olga: Person, headers: dict[str, str]
) -> None:
    scenes.desk.letter()
    client, version = client_of(olga), newest(scenes)
    form = form_of(client, version) | {"answer": "approve", "reason": "I read it from top to end."}
    scenes.desk.letter()  # another one that it would cover
    response = client.post(address(version, "decide"), form, **headers)
    page = text_of(response)
    assert response.status_code == 409
    assert "What this version covers changed while you were reading it." in page
    assert "I read it from top to end.</textarea>" in page
    assert "2 operations" in page
    assert not Approval.objects.exists()
    assert approve(client, version).status_code == 303


def test_a_decision_after_a_newer_version_is_409_and_shows_the_reason_to_copy(
    scenes: Scenes, olga: Person
) -> None:
    scenes.desk.letter()
    client, version = client_of(olga), newest(scenes)
    form = form_of(client, version) | {"answer": "approve", "reason": "I read it from top to end."}
    propose_by_model(scenes, text=OTHER_TEXT)
    response = client.post(address(version, "decide"), form)
    page = text_of(response)
    assert response.status_code == 409
    assert "A newer version took the place of this one." in page
    assert "readonly>I read it from top to end.</textarea>" in page


def test_rejecting_needs_a_reason_and_keeps_what_was_ticked(scenes: Scenes, olga: Person) -> None:
    scenes.desk.letter()
    client = client_of(olga)
    approve(client, newest(scenes))
    propose_by_model(scenes, text=OTHER_TEXT)
    version = newest(scenes)
    form = form_of(client, version) | {"answer": "reject"}
    response = client.post(address(version, "decide"), form)
    page = text_of(response)
    assert response.status_code == 422
    assert "Write the reason" in page
    assert 'name="return" form="decision"' in page
    assert "Goes back to version 1" in page
    assert 'value="reject" aria-describedby="c-reject" checked' in page
    assert newest(scenes).state == "proposed"


def test_a_rejection_returns_the_ticked_ones_and_cancels_the_others(scenes: Scenes, olga: Person) -> None:
    kept, ended = scenes.desk.letter(), scenes.desk.letter()
    client = client_of(olga)
    approve(client, newest(scenes))
    propose_by_model(scenes, text=OTHER_TEXT)
    version = newest(scenes)
    form = form_of(client, version) | {"answer": "reject", "reason": "It promises too much."}
    response = client.post(address(version, "decide"), form | {"return": [public("op", kept.id)]})
    assert response.status_code == 303
    page = text_of(client.get(address(version)))
    assert "One operation is back at the approved version. One is cancelled." in page
    assert "Olga rejected it. It is never sent." in page
    assert "It promises too much." in page
    assert scenes.desk.operation(ended).state == "cancelled"
    assert scenes.desk.step(kept).content_number == 1
    told = text_of(client.get(path_of(kept)))
    assert "Olga rejected content version 2" in told
    assert "It is back at version 1." in told


def test_without_an_approved_version_nothing_is_offered_to_return_to(scenes: Scenes, olga: Person) -> None:
    opened = scenes.desk.letter()
    client, version = client_of(olga), newest(scenes)
    page = text_of(client.get(address(version)))
    assert "No other version is approved, so 1 waiting operation is cancelled." in page
    assert 'name="return"' not in page
    form = form_of(client, version) | {"answer": "reject", "reason": "Not like this."}
    assert client.post(address(version, "decide"), form).status_code == 303
    assert scenes.desk.operation(opened).state == "cancelled"


def test_what_comes_to_wait_later_is_approved_by_itself(scenes: Scenes, olga: Person) -> None:
    scenes.desk.letter()
    client, version = client_of(olga), newest(scenes)
    approve(client, version)
    page = text_of(client.get(address(version)))
    assert "What comes to wait for it later needs an approval of its own." in page
    scenes.desk.letter()
    assert "Approve version 1" in text_of(client.get(address(version)))
    assert approve(client, version).status_code == 303
    assert Approval.objects.count() == 2


# Proposing


def test_an_operator_proposes_a_version_with_what_was_typed_and_what_was_kept(scenes: Scenes) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    opened = scenes.desk.letter()
    client, version = client_of(omar), newest(scenes)
    page = text_of(client.get(address(version, "propose/")))
    assert LETTER["text"] not in page
    assert "Kept as it is (••••" in page
    assert '<output class="fixed" id="field.sender">launch-care desk</output>' in page
    typed = {"field.subject": "Thank you for joining", "field.text": "", "field.sender": "somebody else"}
    response = client.post(address(version, "propose/version"), typed)
    assert response.status_code == 303
    made = newest(scenes)
    assert json.loads(made.body) == LETTER | {"subject": "Thank you for joining"}
    assert (made.number, made.author_person_id, made.origin) == (2, omar.pk, "edit of version 1")
    assert scenes.desk.step(opened).content_number == 2
    again = client.post(address(version, "propose/version"), typed)
    assert again.status_code == 303
    assert newest(scenes).number == 2


def test_a_proposal_on_an_older_version_is_409_and_keeps_the_text(scenes: Scenes) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    scenes.desk.letter()
    version = newest(scenes)
    propose_by_model(scenes, text=OTHER_TEXT)
    typed = {"field.subject": "Thank you for joining", "field.text": "We will write."}
    response = client_of(omar).post(address(version, "propose/version"), typed)
    page = text_of(response)
    assert response.status_code == 409
    assert "Version 2 was proposed while you were writing." in page
    assert "Thank you for joining" in page
    assert "We will write." in page
    assert newest(scenes).number == 2


def test_a_field_that_is_too_long_says_so_beside_it_and_nothing_is_lost(scenes: Scenes) -> None:
    scenes.desk.letter()
    version = newest(scenes)
    response = client_of(scenes.owner).post(
        address(version, "propose/version"), {"field.subject": "word " * 60, "field.text": ""}
    )
    page = text_of(response)
    assert response.status_code == 422
    assert "at most 150 fit." in page
    assert "word word word" in page
    assert newest(scenes).number == 1


def test_an_owner_may_see_the_text_to_edit_it_which_is_journaled(scenes: Scenes) -> None:
    scenes.desk.letter()
    version = newest(scenes)
    client = client_of(scenes.owner)
    page = text_of(client.post(address(version, "propose/reveal"), {"field.subject": "Typed before"}))
    assert LETTER["text"] in page
    assert "Typed before" in page
    assert Entry.objects.filter(kind="revealed", subject_id=version.of_id).count() == 1
    operator = client_of(scenes.member("Omar", Role.OPERATOR))
    assert operator.post(address(version, "propose/reveal")).status_code == 403


def replaced(scenes: Scenes, opened: Any) -> None:
    """Another operation takes its place, of another content."""
    name = scenes.desk.operation(opened).operation_id
    content = WantedContent(
        "another/letter", fields=LETTER, author_kind=AuthorKind.MODEL, author="draft-writer-2"
    )
    wanted = Wanted("new:1", "campaign_letter", dict(LETTER_PARAMS), replaces=name, content=content)
    assert open_intended(scenes.desk.team.pk, [wanted], AUTOMATION)[0].opened is not None


def test_what_another_operation_replaces_is_said_to_be_left_out_and_not_listed(
    scenes: Scenes, olga: Person
) -> None:
    gone, stays = scenes.desk.letter("gone:1"), scenes.desk.letter("stays:1")
    replaced(scenes, gone)
    version = newest(scenes)
    client = client_of(olga)
    page = text_of(client.get(address(version)))
    assert "1 operation that waits is left out of an approval" in page
    assert "Replaced by operation" in page
    assert "1 waiting operation may send exactly what is shown" in page
    assert (
        "What an approval covers <small>1 operation</small>" in client.get(address(version)).content.decode()
    )
    assert page.count("Shown above") == 1

    assert approve(client, version).status_code == 303

    assert (scenes.desk.step(gone).state, scenes.desk.step(stays).state) == ("waiting", "ready")
    page = text_of(client.get(address(version)))
    assert "Nothing that waits for it may be sent any more." in page
    assert "What an approval covers <small>0 operations</small>" in page


@pytest.mark.parametrize("others", ["", "return"])
def test_what_another_operation_replaces_is_cancelled_by_a_rejection(
    scenes: Scenes, olga: Person, others: str
) -> None:
    gone, stays = scenes.desk.letter("gone:1"), scenes.desk.letter("stays:1")
    client = client_of(olga)
    approve(client, newest(scenes))
    propose_by_model(scenes, text=OTHER_TEXT)
    replaced(scenes, gone)
    version = newest(scenes)
    ticked = public("op", scenes.desk.operation(stays).pk)

    answer = client.post(
        address(version, "decide"),
        form_of(client, version) | {"answer": "reject", "reason": "No.", "return": ticked, "others": others},
    )

    assert answer.status_code == 303
    assert scenes.desk.operation(gone).state == "cancelled"
    assert scenes.desk.step(stays).content_number == 1


def test_a_changed_request_of_a_replaced_operation_can_only_be_rejected(
    scenes: Scenes, olga: Person, database_urls: Urls
) -> None:
    opened, client = revised(scenes), client_of(olga)
    other = scenes.open()
    replaced_by_hand(database_urls, other.id, opened.id)

    page = text_of(client.get(request_address(scenes, opened)))

    assert "replaces this one, and both would take effect: nobody approves it any more." in page
    assert "Approve revision" not in page
    assert "Reject revision 2" in page


# One request: revisions


def revised(scenes: Scenes, **changed: Any) -> Any:
    """An operation whose request was refused, and which an owner then changed."""
    opened = scenes.rejected()
    scenes.settle(opened, Answer.REVISE, params=changed or {"queue": "launch-desk"})
    return opened


def request_address(scenes: Scenes, opened: Any, what: str = "") -> str:
    return f"/approvals/requests/{public('stp', scenes.desk.step(opened).pk)}/{what}"


def request_form(client: Any, path: str) -> dict[str, str]:
    page = client.get(path).content.decode()
    names = ("revision", "covered_digest", "version")
    read = {name: re.search(rf'name="{name}" value="([^"]*)"', page)[1] for name in names}  # type: ignore[index]
    return {"answer": "approve", **read}


def propose_by_model(scenes: Scenes, **changed: str) -> None:
    scenes.desk.propose(AUTOMATION, kind=AuthorKind.MODEL, author="draft-writer-2", **changed)


def test_the_panel_changes_a_refused_request_which_then_waits_for_somebody_else(
    scenes: Scenes, olga: Person
) -> None:
    opened = scenes.rejected()
    hold, client = scenes.hold(opened), client_of(scenes.owner)
    page = text_of(client.get(path_of(opened)))
    assert "The changed request is revision 2: it has a new key" in page
    assert "ACC-4417" not in page
    form = {"answer": "revise", "version": str(hold.version), "params.queue": "launch-desk", "params.account": "",
            "params.campaign": "spring launch", "reason": "The queue was renamed."}  # fmt: skip
    assert client.post(hold_path(hold, "settle"), form).status_code == 303
    path = request_address(scenes, opened)
    assert "You changed its request, so somebody else has to approve it." in text_of(client.get(path))
    own = {"answer": "approve", "revision": "2", "covered_digest": "0" * 64}
    assert client.post(f"{path}decide", own).status_code == 403
    theirs = client_of(olga)
    page = text_of(theirs.get(path))
    assert "launch-<del>care</del>" in page
    assert "launch-<ins>desk</ins>" in page
    form = request_form(theirs, path)
    assert [theirs.post(f"{path}decide", form).status_code for _ in range(2)] == [303, 303]
    assert Approval.objects.count() == 1
    scenes.desk.send()
    told = text_of(theirs.get(path_of(opened)))
    assert "Test owner answered: the request is changed" in told
    assert "Olga approved what is to be sent" in told
    assert "approved by Olga" in told


def rejected_form(client: Any, path: str, **changed: str) -> dict[str, str]:
    return request_form(client, path) | {"answer": "reject", "reason": "The old queue is right."} | changed


def test_a_changed_request_is_rejected_and_its_step_ended(scenes: Scenes, olga: Person) -> None:
    opened, theirs = revised(scenes), client_of(olga)
    path = request_address(scenes, opened)
    page = text_of(theirs.get(path))
    assert "No other request of this step is approved, so the step is ended" in page
    assert 'name="return"' not in page
    form = rejected_form(theirs, path)

    assert [theirs.post(f"{path}decide", form).status_code for _ in range(2)] == [303, 303]

    page = text_of(theirs.get(path))
    assert "Olga rejected revision 2" in page
    assert "The old queue is right." in page
    assert scenes.desk.step(opened).state == "cancelled"
    assert "Olga rejected revision 2 of the request" in text_of(theirs.get(path_of(opened)))
    assert "Changed request rejected" in text_of(theirs.get("/audit/"))
    assert Entry.objects.filter(kind="request_rejected").count() == 1


@pytest.mark.parametrize("ticked", [True, False])
def test_a_ticked_rejection_goes_back_to_the_approved_request(
    scenes: Scenes, olga: Person, ticked: bool
) -> None:
    opened, theirs = revised(scenes), client_of(olga)
    path = request_address(scenes, opened)
    theirs.post(f"{path}decide", request_form(theirs, path))
    scenes.send(REJECTED, says="rejected", sentence="The reply was 422.")
    scenes.settle(opened, Answer.REVISE, params={"queue": "another-desk"})
    page = text_of(theirs.get(path))
    assert "On rejection, go back to the request of revision 2" in page
    assert "It was sent before and had no effect" in page
    assert 'aria-describedby="c-back" checked' not in page

    theirs.post(f"{path}decide", rejected_form(theirs, path, **({"return": "yes"} if ticked else {})))

    step = scenes.desk.step(opened)
    assert (step.revision, step.state) == ((4, "ready") if ticked else (3, "cancelled"))
    words = "It is back at the request of revision 2, and approved by you" if ticked else "is ended"
    assert words.split(",")[0] in text_of(theirs.get(path_of(opened)))


def test_who_changed_a_request_may_reject_it_but_not_approve_it(scenes: Scenes) -> None:
    opened, mine = revised(scenes), client_of(scenes.owner)
    path = request_address(scenes, opened)
    assert 'value="approve"' not in mine.get(path).content.decode()

    assert mine.post(f"{path}decide", rejected_form(mine, path)).status_code == 303

    assert scenes.desk.step(opened).state == "cancelled"


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"reason": " "}, 422, "Write the reason"),
        ({"answer": ""}, 422, "Choose whether you approve or reject it."),
        ({"version": ""}, 422, "lacks the version that it was made on"),
        ({"version": "1"}, 409, "This operation changed while you were reading it."),
        ({"covered_digest": "0" * 64}, 409, "The request changed while you were reading it."),
        ({"return": "yes"}, 422, "No earlier request of this step is approved"),
    ],
    ids=["no reason", "no answer", "no version", "another version", "another digest", "nothing to return to"],
)
def test_a_rejection_that_can_not_be_changes_nothing_and_keeps_what_was_typed(
    scenes: Scenes, olga: Person, changed: dict[str, str], status: int, said: str
) -> None:
    opened, theirs = revised(scenes), client_of(olga)
    path = request_address(scenes, opened)
    before = Entry.objects.count()

    response = theirs.post(f"{path}decide", rejected_form(theirs, path, **changed))

    page = text_of(response)
    assert (response.status_code, said in page) == (status, True)
    assert changed.get("reason", "The old queue is right.") in page
    assert (scenes.desk.step(opened).state, Entry.objects.count()) == ("waiting", before)


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({}, "revise_error", "Nothing is changed yet."),
        ({"params.due_date": "soon"}, "params.due_date_error", "must be a date"),
        ({"params.queue": "x" * 60}, "params.queue_error", "at most 40 fit"),
    ],
    ids=["nothing", "no date", "too long"],
)
def test_a_change_that_can_not_be_is_refused_beside_its_field(
    scenes: Scenes, typed: dict[str, str], field: str, said: str
) -> None:
    opened = scenes.rejected()
    hold = scenes.hold(opened)
    form = {"answer": "revise", "version": str(hold.version), "reason": "The queue was renamed."} | typed
    response = client_of(scenes.owner).post(hold_path(hold, "settle"), form)
    page = text_of(response)
    assert response.status_code == 422
    assert f'id="{field}"' in page
    assert said in page
    assert scenes.desk.step(opened).revision == 1


def test_missing_data_is_supplied_in_the_panel(scenes: Scenes) -> None:
    opened = scenes.missing()
    hold = scenes.hold(opened)
    form = {"answer": "revise", "version": str(hold.version), "reason": "The customer told us."}
    client = client_of(scenes.owner)
    assert client.post(hold_path(hold, "settle"), form | {"params.account": "ACC-1"}).status_code == 303
    assert scenes.hold(opened).reason == "approval_needed"
    assert "Nothing was approved or sent before it" in text_of(client.get(request_address(scenes, opened)))


def test_it_did_not_happen_may_go_on_as_a_changed_request(scenes: Scenes) -> None:
    opened = scenes.unknown()
    hold = scenes.hold(opened)
    form = {"answer": "absent", "then": "revise", "checked_how": "Searched.", "version": str(hold.version),
            "reason": "Their queue was renamed.", "params.queue": "launch-desk"}  # fmt: skip
    assert client_of(scenes.owner).post(hold_path(hold, "settle"), form).status_code == 303
    assert scenes.desk.step(opened).revision == 2
    assert scenes.hold(opened).reason == "approval_needed"


def test_an_untouched_field_keeps_its_value_byte_for_byte(scenes: Scenes) -> None:
    """Line ends of two characters and text that a page can’t hold are not what a browser sends back."""
    odd = "Call\r\nAlder \ud83d Works\x00"
    opened = scenes.open(subject=odd)
    scenes.send(REJECTED, says="rejected", sentence="The reply was 422.")
    hold = scenes.hold(opened)
    form = {"answer": "revise", "version": str(hold.version), "params.queue": "launch-desk", "reason": "Renamed.",
            "params.subject": "Call\r\nAlder � Works␀"}  # fmt: skip
    assert client_of(scenes.owner).post(hold_path(hold, "settle"), form).status_code == 303
    assert Revision.objects.get(step__operation_id=opened.id).params == '{"queue":"launch-desk"}'


# Where they are found


def test_the_inbox_the_hold_and_the_operation_lead_to_what_is_approved(scenes: Scenes) -> None:
    opened = scenes.desk.letter()
    hold, client = scenes.hold(opened), client_of(scenes.owner)
    link = f"/approvals/holds/{public('hold', hold.pk)}/"
    for address_of_inbox in ("/", "/?view=awaiting"):
        assert f'href="{link}"' in client.get(address_of_inbox).content.decode()
    assert client.get(link)["Location"] == address(newest(scenes))
    assert client.get(hold_path(hold, ""))["Location"] == link
    page = text_of(client.get(path_of(opened)))
    assert "See what would be sent, and decide" in page
    assert "content version 1, not approved" in page
    assert f'href="{address(newest(scenes), "propose/")}"' in page
    other = revised(scenes)
    link = f"/approvals/holds/{public('hold', scenes.hold(other).pk)}/"
    assert client.get(link)["Location"] == request_address(scenes, other)


def test_the_audit_page_says_in_words_what_was_decided_over_content(scenes: Scenes, olga: Person) -> None:
    scenes.desk.letter()
    approve(client_of(olga), newest(scenes))
    propose_by_model(scenes, text=OTHER_TEXT)
    page = text_of(client_of(olga).get("/audit/"))
    for words in ("Content version proposed", "Content version approved", "Request approved",
                  "Operation moved to another content version"):  # fmt: skip
        assert words in page, words
    assert f'href="{address(newest(scenes))}"' in page


def test_another_teams_approvals_do_not_exist(scenes: Scenes) -> None:
    opened = scenes.desk.letter()
    version, hold = newest(scenes), scenes.hold(opened)
    rita = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=rita, also=[Role.ADMIN])
    client = client_of(rita)
    before = Entry.objects.count()
    for path in (address(version), address(version, "propose/"), request_address(scenes, opened),
                 f"/approvals/holds/{public('hold', hold.pk)}/"):  # fmt: skip
        assert client.get(path).status_code == 404, path
    for path in (address(version, "decide"), address(version, "reveal"), address(version, "propose/version"),
                 address(version, "propose/reveal"), request_address(scenes, opened, "decide"),
                 request_address(scenes, opened, "reveal")):  # fmt: skip
        assert client.post(path, {"answer": "approve"}).status_code == 404, path
    assert "spring-launch:letter" not in client.get("/approvals/").content.decode()
    assert Entry.objects.count() == before
