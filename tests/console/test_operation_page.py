"""One operation’s page: what it asks, what each answer would do, what happened, and what can be done."""

from __future__ import annotations

import html as markup
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from people import client_of
from scenes import EVERY_STEP_QUESTION, UNKNOWN, Scenes, hold_path, path_of

from opsledger.accounts.roles import Role
from opsledger.console import decision
from opsledger.console.duplicates import field_of
from opsledger.console.forms import by_person
from opsledger.engine.wire import installed_wire
from opsledger.journal.models import Entry
from opsledger.ledger.actions.notes import settle_note_on_operation
from opsledger.ledger.models import Evidence, Hold, Operation, Step
from opsledger.ledger.queries.timeline import PAGE
from opsledger.lib.ids import public
from opsledger.rules.answers import ANSWERS, Answer, answers_for
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import HoldReason, Outcome
from tests.desk import step_identity

CARD_OF = {answer: spec[0] for spec in decision._CARDS for _, answer in spec[2]}


def page_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return markup.unescape(response.content.decode())


def post(client: Client, scenes: Scenes, opened: Any, answer: str, **data: Any) -> Any:
    """One answer as the form posts it."""
    hold = scenes.hold(opened)
    fields = {"version": str(hold.version), "answer": answer, "reason": "I looked at the destination."} | data
    return client.post(hold_path(hold, "settle"), fields)


# What it asks


def test_every_question_offers_its_honest_answers_with_their_consequences(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    for reason, make in EVERY_STEP_QUESTION.items():
        opened = make(scenes)
        page = page_of(client, path_of(opened))
        from opsledger.ledger.records import load

        record = load([opened.id])[opened.id].record
        wanted = {CARD_OF[answer] for answer in answers_for(record, record.holds[0])}
        offered = set(re.findall(r'name="answer" value="(\w+)" aria-describedby="c-\w+"', page))
        assert offered == wanted, reason
        for card in offered:
            assert re.search(rf'id="c-{card}">[^<]+\.', page), (reason, card)
        assert f"You are reading version {scenes.hold(opened).version} of this hold" in page
        assert "Protection: <b>" in page


def test_every_answer_has_a_card() -> None:
    assert {answer for answers in ANSWERS.values() for answer in answers} <= set(CARD_OF)


def test_what_an_answer_releases_or_cancels_is_foreseen_by_the_rules(scenes: Scenes) -> None:
    opened = scenes.expired()  # two steps; the first is unknown
    page = page_of(client_of(scenes.owner), path_of(opened))
    happened = re.search(r'id="c-happened">([^<]+)', page)
    absent = re.search(r'id="c-absent">([^<]+)', page)
    assert happened
    assert happened[1] == "Step 1 is confirmed with your reference. Step 2 is released to be sent."
    assert absent
    assert absent[1].endswith("Step 2 is cancelled. The operation ends as failed.")
    assert scenes.desk.step(opened).state == "unknown"
    assert not Step.objects.filter(operation_id=opened.id, number=2, request_digest__isnull=False).exists()


def test_the_default_answer_sends_nothing(scenes: Scenes) -> None:
    page = page_of(client_of(scenes.owner), path_of(scenes.unknown()))
    assert re.findall(r'name="answer" value="(\w+)"[^>]* checked', page) == ["unknown"]


def test_records_that_were_found_are_shown_field_by_field(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    differs = page_of(client, path_of(scenes.differs()))
    assert "2027-01-31" in differs
    assert "Differs" in differs
    assert "••••4417" in differs  # the account is sensitive on both sides
    assert "ACC-4417" not in differs
    duplicate = page_of(client, path_of(scenes.duplicate()))
    assert re.findall(r'name="kept_reference" value="([^"]+)"', duplicate) == ["T-58401", "T-58409"]
    assert "Nothing is deleted from here" in duplicate
    assert f"{scenes.desk.sandbox.url}/crm/tasks/T-58401.html" in duplicate


def test_a_record_that_a_later_lookup_found_no_more_is_still_told(scenes: Scenes) -> None:
    opened = scenes.proposed()
    client = client_of(scenes.owner)
    assert "An earlier lookup" not in page_of(client, path_of(opened))
    scenes.look(opened)
    page = page_of(client, path_of(opened))
    earlier, later = page.index("An earlier lookup, "), page.index("Lookup 2, ")
    assert earlier < page.index("The record T-58213 carries this step’s identity", earlier) < later
    assert "Nothing was found" in page[later : later + 80]


def test_both_statements_of_a_dispute_are_shown(scenes: Scenes) -> None:
    opened = scenes.unknown()
    claimed_id = Step.objects.get(operation_id=opened.id).attempts.get().pk
    scenes.settle(opened, Answer.ABSENT_END, checked_how="Searched by our identity.")
    from opsledger.ledger.actions.record import Sent, record_sends

    late = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="T-9")
    evidence = scenes.evidence(1, "crm_classic", "found", "The reply came after all.", attempt_id=claimed_id)
    record_sends([Sent(opened.id, 1, claimed_id, late, evidence, f"destination:{evidence.origin}")])
    page = page_of(client_of(scenes.owner), path_of(opened))
    assert "Two statements contradict each other." in page
    assert page.count("It happened as T-9") == 1  # the panel says it once, beside what was said first


# Answers


def test_it_did_not_happen_ends_or_sends_again_in_the_same_form(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    ended, again = scenes.unknown(), scenes.unknown()
    checked = {"checked_how": "Searched by our identity."}
    assert post(client, scenes, ended, "absent", then="end", **checked).status_code == 303
    assert post(client, scenes, again, "absent", then="again", **checked).status_code == 303
    assert scenes.desk.operation(ended).state == "failed"
    step = scenes.desk.step(again)
    assert (step.state, step.act) == ("ready", "send")
    page = page_of(client, path_of(ended))
    assert "answered: it did not happen; end as failed" in page
    assert "Searched by our identity." in page


def test_still_unknown_keeps_the_hold_and_moves_its_next_check(scenes: Scenes) -> None:
    opened = scenes.unknown()
    omar = scenes.member("Omar", Role.OPERATOR)
    before = scenes.hold(opened)
    response = post(client_of(omar), scenes, opened, "unknown", next_check="60", ticket="asked Ann, #77")
    assert response.status_code == 303
    after = scenes.hold(opened)
    assert after.pk == before.pk
    assert after.version > before.version
    assert timedelta(minutes=59) < after.due_at - timezone.now() < timedelta(minutes=61)


@pytest.fixture
def reachable(settings: Any) -> Iterator[None]:
    """The sandbox on this machine may be read."""
    settings.ALLOWED_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    installed_wire.cache_clear()
    yield
    installed_wire.cache_clear()


def test_a_typed_reference_is_read_and_compared_before_it_confirms(scenes: Scenes, reachable: None) -> None:
    """The record that was made confirms, another asks for a tick, and of a missing one nothing is compared."""
    client, desk = client_of(scenes.owner), scenes.desk
    same, other = desk.open("classic_follow_up"), desk.open("classic_follow_up", due_date="2026-12-20")
    for one in (same, other):
        desk.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=step_identity(one.id, 1))
    Step.objects.update(act_at=timezone.now())
    while desk.step(same).state != "unknown" or desk.step(other).state != "unknown":
        desk.send()
    made = {
        one: str(desk.sandbox.effects(identity=step_identity(one.id, 1))[0]["reference"])
        for one in (same, other)
    }
    looked = client.post(
        hold_path(scenes.hold(same), "look-up"), {"reference": made[other], "answer": "happened"}
    )
    page = markup.unescape(looked.content.decode())
    assert "does not carry this action’s own identity" in page
    assert "2026-12-20" in page
    refused = post(client, scenes, same, "happened", happened_as="confirmed", reference=made[other])
    assert refused.status_code == 422
    assert "Look at the comparison, and tick that you accept it." in refused.content.decode()
    nothing = post(client, scenes, same, "happened", happened_as="confirmed", reference="T-0")
    assert nothing.status_code == 422
    assert "Nothing was compared." in nothing.content.decode()
    assert desk.step(same).state == "unknown"
    done = post(client, scenes, same, "happened", happened_as="confirmed", reference=made[same])
    assert done.status_code == 303
    assert (desk.step(same).state, desk.step(same).reference) == ("confirmed", made[same])
    assert "Field by field" in page_of(client, path_of(same))
    taken = post(client, scenes, other, "happened", happened_as="confirmed", reference=made[same])
    assert taken.status_code == 422
    assert "holds this reference already" in taken.content.decode()
    accepted = post(
        client, scenes, other, "happened", happened_as="confirmed", reference="T-0", accept_difference="T-0"
    )
    assert accepted.status_code == 303
    assert "Nothing was compared" in page_of(client, path_of(other))


def test_what_is_missing_is_said_beside_its_field_and_what_was_typed_stays(scenes: Scenes) -> None:
    client, opened = client_of(scenes.owner), scenes.unknown()
    cases: list[tuple[dict[str, str], str, str]] = [
        ({"answer": "absent", "then": "end"}, "how", "Say how it was checked."),
        ({"answer": "happened", "happened_as": "confirmed"}, "ref", "or say why there is none"),
        ({"answer": "unknown", "next_check": "at"}, "next-at", "Write the day and the time"),
        ({"answer": "unknown", "next_check": "60", "reason": " "}, "why", "Write the reason"),
    ]
    for data, field, said in cases:
        response = post(client, scenes, opened, data.pop("answer"), ticket="kept text #7", **data)
        page = markup.unescape(response.content.decode())
        assert response.status_code == 422, data
        assert said in page
        assert re.search(rf'id="{field}"[^>]* aria-invalid="true"', page), data
        assert "kept text #7" in page
    assert post(client, scenes, opened, "delivered").status_code == 422  # not an answer of this hold
    assert post(client, scenes, opened, "").status_code == 422
    assert scenes.desk.step(opened).state == "unknown"
    assert not Entry.objects.filter(subject_id=opened.id, kind="answered").exists()


def test_other_answers_reach_the_ledger_with_what_they_need(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    kept, differs, tries = scenes.duplicate(), scenes.differs(), scenes.exhausted()
    gone, proven, closed = scenes.rejected(), scenes.not_proven(), scenes.expired()
    told = {field_of("T-58401"): "Ann deleted the other."}
    post(client, scenes, kept, "keep_one", kept_reference="T-58409", **told)
    post(client, scenes, differs, "ours")
    post(client, scenes, tries, "more_tries", tries="3")
    post(client, scenes, gone, "end_failed")
    post(client, scenes, proven, "leave_accepted")
    post(client, scenes, closed, "close", keep=["2"])
    assert scenes.desk.step(kept).reference == "T-58409"
    assert scenes.desk.step(differs).reference == "T-58300"
    assert scenes.desk.step(tries).tries_extra == 3
    assert scenes.desk.operation(gone).state == "failed"
    assert scenes.desk.operation(proven).state == "completed"
    first, second = Step.objects.filter(operation_id=closed.id).order_by("number")
    assert (first.state, first.never_known) == ("unknown", True)
    assert second.state != "cancelled"


# What happened


def test_the_timeline_tells_newest_first_and_filters(scenes: Scenes) -> None:
    opened = scenes.differs()
    settle_note_on_operation(opened.id, "Their search was late today.", by_person(scenes.owner))
    client = client_of(scenes.owner)
    page = page_of(client, path_of(opened))
    told = re.findall(r"<h3>([^<]+?) ?<", page)
    wanted = [
        "Test owner wrote a note",
        "Hold opened: Record differs",
        "Lookup found a record that differs",
        "Hold opened: Outcome unknown",
        "Attempt 1 of step 1",
        "Intended action recorded",
    ]
    assert [title for title in told if title in wanted] == wanted
    only = re.findall(r"<h3>([^<]+?) ?<", page_of(client, f"{path_of(opened)}?show=attempts"))
    assert "Attempt 1 of step 1" in only
    assert "Intended action recorded" not in only


def test_a_final_operation_is_not_asked_again_and_an_open_one_is(scenes: Scenes) -> None:
    client, opened = client_of(scenes.owner), scenes.unknown()
    assert page_of(client, path_of(opened)).count("data-poll=") == 3
    post(client, scenes, opened, "absent", then="end", checked_how="Looked.")
    assert "data-poll=" not in page_of(client, path_of(opened))
    page = page_of(client, path_of(opened))
    assert "Nothing is known to have taken effect." in page


def test_parts_of_the_page_come_by_themselves_for_htmx_only(scenes: Scenes) -> None:
    client, opened = client_of(scenes.owner), scenes.unknown()
    for part in ("operation", "standing", "decide", "strip", "params", "notes"):
        response = client.get(path_of(opened), HTTP_HX_REQUEST="true", HTTP_HX_TARGET=part)
        assert response.status_code == 200
        assert response.content.decode().strip().startswith(("<div", "<section")), part
        assert f'id="{part}"' in response.content.decode()
        assert b"<html" not in response.content
    assert client.get(path_of(opened), HTTP_HX_REQUEST="true", HTTP_HX_TARGET="main").status_code == 400
    restored = {"HTTP_HX_REQUEST": "true", "HTTP_HX_HISTORY_RESTORE_REQUEST": "true"}
    assert b"<!doctype html>" in client.get(path_of(opened), **restored).content


def test_evidence_is_shown_as_text_with_sensitive_values_masked_until_they_are_revealed(
    scenes: Scenes,
) -> None:
    opened = scenes.open()
    body = b'{"id": "T-1", "account": "ACC-4417", "note": "for ACC-4417 <b>now</b>"}'
    scenes.send(UNKNOWN, sentence="The reply could not be read.", content=body)
    evidence = Evidence.objects.get(operation_id=opened.id)
    path = f"{path_of(opened)}evidence/{public('ev', evidence.pk)}/"
    client = client_of(scenes.owner)
    raw = client.get(path).content.decode()
    assert "ACC-4417" not in raw
    assert "&lt;b&gt;now&lt;/b&gt;" in raw
    revealed = client.post(f"{path}reveal").content.decode()
    assert "ACC-4417" in revealed
    entry = Entry.objects.get(subject_id=opened.id, kind="revealed")
    assert entry.actor == f"person:{scenes.owner.pk}"
    assert client.get(f"{path_of(opened)}evidence/ev_00000000000000000000000000/").status_code == 404


def test_revealing_parameters_is_written_before_they_are_shown(scenes: Scenes) -> None:
    opened = scenes.unknown()
    client = client_of(scenes.owner)
    assert "ACC-4417" not in client.get(path_of(opened)).content.decode()
    assert client.get(f"{path_of(opened)}reveal").status_code == 405
    assert "ACC-4417" in client.post(f"{path_of(opened)}reveal").content.decode()
    assert Entry.objects.filter(subject_id=opened.id, kind="revealed").count() == 1
    assert "ACC-4417" not in client.get(path_of(opened)).content.decode()


def test_the_evidence_file_tells_what_was_observed_decided_and_remains_without_sensitive_values(
    scenes: Scenes,
) -> None:
    opened = scenes.unknown("spring-launch:req-8841")
    claimed = Step.objects.get(operation_id=opened.id).attempts.get()
    scenes.settle(opened, Answer.HAPPENED, reference="T-1", reason="Ann’s number is +49 151 5550100.")
    response = client_of(scenes.owner).get(f"{path_of(opened)}evidence-file")
    text = response.content.decode()
    assert response["Content-Type"] == "text/markdown; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment; ")
    for part in (
        "`spring-launch:req-8841`",
        step_identity(opened.id, 1),
        public("att", claimed.pk),
        "## What was decided",
        "it happened (reference `T-1`)",
        "## What remains",
        "Nothing is open.",
    ):
        assert part in text, part
    for secret in ("ACC-4417", "5550100"):
        assert secret not in text


# What can be done to it


def test_cancelling_says_what_took_effect_and_sends_nothing_more(scenes: Scenes) -> None:
    opened = scenes.open(workflow="campaign_follow_up")
    scenes.send(Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="T-1"), sentence="Done.")
    client = client_of(scenes.owner)
    version = str(Operation.objects.get(pk=opened.id).version)
    empty = client.post(f"{path_of(opened)}cancel", {"version": version, "reason": " "})
    assert empty.status_code == 422
    client.post(f"{path_of(opened)}cancel", {"version": version, "reason": "The customer called off."})
    page = page_of(client, path_of(opened))
    assert scenes.desk.operation(opened).state == "cancelled"
    assert "What did take effect:" in page
    assert "T-1" in page
    assert scenes.desk.step(opened, 2).attempt_count == 0


def test_taking_an_answer_back_makes_it_disputed(scenes: Scenes) -> None:
    opened = scenes.unknown()
    scenes.settle(opened, Answer.HAPPENED, reference="T-1")
    client = client_of(scenes.owner)
    assert "Take the answer to step 1 back" in page_of(client, path_of(opened))
    version = str(Operation.objects.get(pk=opened.id).version)
    client.post(f"{path_of(opened)}steps/1/withdraw", {"version": version, "reason": "Another’s record."})
    assert scenes.hold(opened).reason == HoldReason.DISPUTED.value


def test_notes_checks_and_owners_go_through_the_page(scenes: Scenes) -> None:
    opened, omar = scenes.unknown(), scenes.member("Omar", Role.OPERATOR)
    client, hold = client_of(omar), scenes.hold(opened)
    client.post(f"{path_of(opened)}notes", {"text": "They confirmed dropped replies."})
    assert client.post(f"{path_of(opened)}notes", {"text": "  "}).status_code == 422
    client.post(f"{path_of(opened)}steps/1/check")
    client.post(hold_path(hold, "assign"), {"owner": "me"})
    page = page_of(client, path_of(opened))
    for told in ("They confirmed dropped replies.", "Omar asked for a check", "Omar took the hold"):
        assert told in page
    assert Hold.objects.get(pk=hold.pk).owner_id == omar.pk
    assert client.post(f"{path_of(opened)}steps/7/check").status_code == 404


def test_previous_and_next_follow_the_view_it_was_opened_from(scenes: Scenes) -> None:
    first, second, third = scenes.unknown(), scenes.rejected(), scenes.unknown()
    for number, opened in enumerate((first, second, third)):
        Hold.objects.filter(operation_id=opened.id).update(due_at=timezone.now() + timedelta(hours=number))
    page = page_of(client_of(scenes.owner), f"{path_of(first)}?reason=outcome_unknown")
    following = re.search(r'href="([^"]+)" rel="next"', page)
    assert following
    assert following[1].startswith(f"{path_of(third)}?reason=outcome_unknown&hold=")
    assert 'rel="prev"' not in page


def test_an_own_id_in_the_address_leads_to_the_page(scenes: Scenes) -> None:
    opened = scenes.unknown("spring-launch:req-8841")
    response = client_of(scenes.owner).get("/operations/spring-launch:req-8841/")
    assert (response.status_code, response["Location"]) == (303, path_of(opened))
    assert client_of(scenes.owner).get("/operations/spring-launch:req-8842/").status_code == 404


# At an event


def test_two_bodies_of_an_event_are_compared_and_the_question_is_settled(scenes: Scenes) -> None:
    hold = scenes.event_conflict()
    client = client_of(scenes.owner)
    page = page_of(client, hold_path(hold, ""))
    assert "summer launch" in page
    assert ">Later</th>" in page
    assert "ann@customers.example" not in page
    assert "(another value)" in page
    assert "bob@customers.example" in client.post(hold_path(hold, "reveal")).content.decode()
    data = {"version": str(hold.version), "answer": "first_stands", "reason": "The source sent it twice."}
    wrong = client.post(hold_path(hold, "settle"), data | {"answer": "recorded_apart", "operation": "none"})
    assert wrong.status_code == 422
    stale = client.post(hold_path(hold, "settle"), data | {"version": "77"})
    assert stale.status_code == 409
    assert client.post(hold_path(hold, "settle"), data).status_code == 303
    hold.refresh_from_db()
    assert hold.answer == "first_stands"


def test_an_event_that_started_nothing_says_why_and_the_ways_on(scenes: Scenes) -> None:
    hold = scenes.event_that_lacks((("operation_id", "must have 1 to 200 characters; this one has 305"),))
    client = client_of(scenes.owner)
    page = page_of(client, hold_path(hold, ""))
    assert "must have 1 to 200 characters; this one has 305" in page
    assert "have it delivered again" in page
    assert "Nothing follows from this event" in page
    assert "What was taken first stands" not in page
    assert "What was delivered</b>" in page and ">Later</th>" not in page  # it was delivered once
    apart = scenes.unknown("apart-1")
    data = {"version": "1", "answer": "recorded_apart", "reason": "By hand.", "operation": "apart-1"}
    assert client.post(hold_path(hold, "settle"), data).status_code == 303
    line = Entry.objects.get(subject_id=hold.event_id, kind="answered")
    assert json.loads(line.body)["operation"] == str(apart.id)


def test_who_may_little_is_told_whom_to_ask_without_asking_again_for_each(scenes: Scenes) -> None:
    opened = scenes.unknown()
    client = client_of(scenes.member("Vera", Role.VIEWER))
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path_of(opened)).status_code == 200
    about_members = [
        one for one in captured.captured_queries if "FROM membership m JOIN person" in one["sql"]
    ]
    assert len(about_members) <= 2


def test_older_entries_are_read_page_by_page(scenes: Scenes) -> None:
    """`before` is the page's own: the place in an inbox that it was opened from is another thing."""
    opened = scenes.unknown()
    client = client_of(scenes.owner)
    for number in range(PAGE):  # as many as one page tells
        settle_note_on_operation(opened.id, f"Note {number}.", by_person(scenes.owner))
    page = page_of(client, path_of(opened) + "?view=mine")
    older = re.search(r'href="([^"]*[?&]before=[^"#]*)', markup.unescape(page))
    assert older
    said = page_of(client, older[1])
    assert "Intended action recorded" not in page
    assert "Intended action recorded" in said
    assert "Back to the newest entries" in said
