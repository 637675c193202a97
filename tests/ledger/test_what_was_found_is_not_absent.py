"""Law 5 and law 9 together: what was found or named once is never absent by evidence, nor by a provider's statement.

Each of these sequences once sent a second time what had happened, or could have.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from test_broken_laws_of_evidence import quiet_since
from test_statements_in_the_ledger import SAID, hold_of, late_reply, plan_by, stated

from opsledger.engine import replays
from opsledger.engine.loading import BadDefinitions, read_files
from opsledger.engine.looking import look
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.claim import claim_looks
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.evidence import Says, Statement, add_evidence
from opsledger.ledger.actions.interventions import settle_check
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.record import Sent, record_looks, record_sends
from opsledger.ledger.actions.replays import PlanMoved
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.actions.statements import keep_statement
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Attempt, Destination, Evidence, Hold, StatementCover
from opsledger.ledger.queries.statements import covers_of
from opsledger.rules.answers import Answer
from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from opsledger.rules.learning import Finding
from opsledger.rules.list_matching import Cover
from opsledger.rules.record import KnownBy
from opsledger.rules.replays import Reason, VerdictKind
from opsledger.rules.states import NoChange, Outcome
from tests.bulk import selected
from tests.desk import AUTOMATION, DEFINITIONS, WIRE, Desk, step_identity
from tests.replaying import by_owner, carry, effects, items, opened_by, planned, unknown

CREATE = "[destination.crm.actions.create_task."
NAMED = """reference = "id"
required = "id"
meanings = { "409" = "exists_named" }
exists_reference = "error.id"
"""
SOURCE = 'url = "https://opsledger.example/docs"\nchecked = "2026-11-01"\n\n'


def look_now(desk: Desk, opened: Opened) -> str:
    """A person asks for a look; its record is there. What was found is proposed, as nothing recovers by itself here."""
    settle_check(opened.id, 1, None, by_owner(desk))
    desk.hurry()
    assert desk.look()
    (effect,) = desk.sandbox.effects(identity=step_identity(opened.id, 1))
    assert desk.step(opened).state == "unknown"
    return str(effect["reference"])


def look_in_vain(desk: Desk, opened: Opened, times: int = 2) -> None:
    """Searches that find nothing, long after the quiet period."""
    quiet_since(3600, opened)
    for _ in range(times):
        settle_check(opened.id, 1, None, by_owner(desk))
        desk.hurry()
        for claimed in claim_looks(5):
            nothing = LookupFact(LookupStatus.RECORDS, searched=True)
            record_looks([replace(look(claimed, WIRE), fact=nothing)])


def send_what_is_due(desk: Desk) -> None:
    Destination.objects.update(send_tokens=5.0)  # no waiting for the destination's rate
    desk.hurry()
    desk.send()


def proven() -> None:
    call_command("verify_ledger", stdout=StringIO(), stderr=StringIO())


def changed_definitions(desk: Desk, folder: Path, name: str, change: Callable[[str], str]) -> Path:
    copied = folder / "definitions"
    shutil.copytree(DEFINITIONS, copied)
    file = copied / name
    text = file.read_text()
    assert change(text) != text
    file.write_text(change(text))
    return copied


def loaded(desk: Desk, folder: Path) -> None:
    load(desk.team.pk, read_files([folder]), actor="command:test")
    forget_current()


def unprotected(text: str) -> str:
    return text[: text.index(f"{CREATE}protection]")] + text[text.index(f"{CREATE}lookup]") :]


# A provider's statement


def test_a_plan_refuses_what_is_stated_although_a_lookup_found_it(desk: Desk) -> None:
    found, neighbour = unknown(desk, acted=True), unknown(desk, acted=False)
    line = stated(desk, [found, neighbour])
    reference = look_now(desk, found)

    made = plan_by(desk, line)

    told = {item.operation_id: item.verdict for item in made.items}
    assert (told[found.id].kind, told[found.id].reason) == (VerdictKind.REFUSE, Reason.FOUND)
    assert reference in told[found.id].sentence
    assert (told[neighbour.id].kind, told[neighbour.id].reason) == (VerdictKind.SEND, Reason.STATED_ABSENT)
    carry(desk, opened_by(desk, made).replay)
    assert (effects(desk, found), effects(desk, neighbour)) == (1, 1)


def test_what_is_found_after_the_plan_is_told_at_the_start(desk: Desk) -> None:
    opened = unknown(desk, acted=True)
    made = plan_by(desk, stated(desk, [opened]))
    look_now(desk, opened)

    with pytest.raises(PlanMoved) as moved:
        opened_by(desk, made)

    assert [one.item.verdict.reason for one in moved.value.moved] == [Reason.FOUND]


def test_what_is_found_after_the_start_is_skipped_when_its_turn_comes(desk: Desk) -> None:
    found, neighbour = unknown(desk, acted=True), unknown(desk, acted=False)
    replay = opened_by(desk, plan_by(desk, stated(desk, [found, neighbour]))).replay
    look_now(desk, found)

    carry(desk, replay)

    told = items(replay)
    assert told[(found.id, 1)] == ("skipped", "", "moved:found")
    assert told[(neighbour.id, 1)][:2] == ("ended", "recovered")
    assert (effects(desk, found), effects(desk, neighbour)) == (1, 1)
    proven()


def test_a_statement_does_not_cover_what_was_found_before(desk: Desk) -> None:
    found, neighbour = unknown(desk, acted=True), unknown(desk, acted=False)
    look_now(desk, found)

    line = stated(desk, [found, neighbour])

    assert [one.operation_id for one in StatementCover.objects.all()] == [neighbour.id]
    covers = {one.target.operation_id: one.cover for one in covers_of(line)}
    assert covers == {found.id: Cover.FOUND, neighbour.id: Cover.COVERED}
    with pytest.raises(Refused, match="covers none"):
        keep_statement(selected([hold_of(found)], by_owner(desk)), SAID, by_owner(desk))


def given_to_somebody(desk: Desk, opened: Opened) -> None:
    settle_assign([hold_of(opened).pk], by_owner(desk).person_id, by_owner(desk))


def looked_in_vain(desk: Desk, opened: Opened) -> None:
    settle_check(opened.id, 1, None, by_owner(desk))
    desk.hurry()
    desk.look()


def answered_still_unknown(desk: Desk, opened: Opened) -> None:
    hold, by = hold_of(opened), by_owner(desk)
    later = database_now()
    decision = Decision(
        Answer.STILL_UNKNOWN, "Ines sees it in their list.", hold.version, next_check_at=later
    )
    settle_hold(hold.pk, decision, by)


def seen_by_somebody(desk: Desk, opened: Opened) -> None:
    name = desk.step(opened).name
    add_evidence(desk.team.pk, opened.id, name, Statement(Says.SEEN, "I saw it on their page."), AUTOMATION)


def found_alike(desk: Desk, opened: Opened) -> None:
    name = desk.step(opened).name
    alike = Statement(Says.FOUND, "a list page", reference="T-9", identity="somebody-else")
    add_evidence(desk.team.pk, opened.id, name, alike, AUTOMATION)


@pytest.mark.parametrize(
    ("happens", "covered"),
    [
        (given_to_somebody, True),
        (looked_in_vain, True),
        (answered_still_unknown, False),
        (seen_by_somebody, False),
        (found_alike, False),
    ],
    ids=["assigned", "looked for in vain", "answered: still unknown", "seen", "found something alike"],
)
def test_a_statement_covers_no_question_of_which_more_was_learnt_since(
    desk: Desk, happens: Callable[[Desk, Opened], None], covered: bool
) -> None:
    """Law 14: whoever kept the statement did not know it. Another owner, and looks that found nothing, are no news."""
    told_of, neighbour = unknown(desk, acted=False), unknown(desk, acted=False)
    line = stated(desk, [told_of, neighbour])
    version = hold_of(told_of).version
    happens(desk, told_of)

    told = {item.operation_id: item.verdict.reason for item in plan_by(desk, line).items}

    assert told[neighbour.id] is Reason.STATED_ABSENT
    assert (told[told_of.id] is Reason.STATED_ABSENT) == covered
    assert hold_of(told_of).version > version or happens is seen_by_somebody


def test_a_plan_moves_with_what_was_found_meanwhile_and_not_with_a_look_in_vain(desk: Desk) -> None:
    found, neighbour = unknown(desk, acted=True), unknown(desk, acted=False)
    made = planned(desk, [found, neighbour])
    for opened in (neighbour, found):
        settle_check(opened.id, 1, None, by_owner(desk))
    desk.hurry()
    assert desk.look() == 2

    with pytest.raises(PlanMoved) as moved:
        opened_by(desk, made)

    assert [one.item.operation_id for one in moved.value.moved] == [found.id]


# Lookups


def test_what_a_lookup_found_is_disputed_when_later_ones_prove_that_it_is_not_there(
    desk: Desk, tmp_path: Path
) -> None:
    loaded(desk, changed_definitions(desk, tmp_path, "crm.toml", unprotected))
    found = unknown(desk, "campaign_follow_up", acted=True)
    reference = look_now(desk, found)
    neighbour = unknown(desk, "campaign_follow_up", acted=False)
    replay = opened_by(
        desk, planned(desk, [found, neighbour])
    ).replay  # asked first, and the answer is applied
    replays.run_once()

    for opened in (found, neighbour):
        quiet_since(3600, opened)
    look_in_vain(desk, found)
    send_what_is_due(desk)

    assert effects(desk, found) == 1
    hold = hold_of(found)
    assert hold.reason == "disputed"
    assert reference in hold.facts
    assert Evidence.objects.filter(operation_id=found.id, says="contradicted").exists()
    assert effects(desk, neighbour) == 1  # proven absent, and sent
    carry(desk, replay)
    assert items(replay)[(found.id, 1)][:2] == ("ended", "held")


def test_a_person_may_still_say_that_what_was_found_did_not_happen(desk: Desk, tmp_path: Path) -> None:
    loaded(desk, changed_definitions(desk, tmp_path, "crm.toml", unprotected))
    opened = unknown(desk, "campaign_follow_up", acted=True)
    look_now(desk, opened)
    look_in_vain(desk, opened)
    hold = hold_of(opened)
    assert hold.reason == "disputed"  # also where nothing is applied by itself

    again = Decision(
        Answer.ABSENT_SEND_AGAIN, "A colleague deleted it.", hold.version, checked_how="Asked her."
    )
    settle_hold(hold.pk, again, by_owner(desk))

    assert desk.step(opened).state == "ready"
    assert Attempt.objects.get(operation_id=opened.id).reference is None


def named_by_409(text: str) -> str:
    """Without protection, and a 409 names the record that exists."""
    reply = f"{CREATE}reply]\n{NAMED}\n{CREATE}reply.source]\n{SOURCE}"
    before, after = text.split(f"{CREATE}reply]", 1)
    return before + reply + after[after.index(f"{CREATE}lookup]") :]


def test_what_a_409_named_is_not_absent_while_the_name_stands(desk: Desk, tmp_path: Path) -> None:
    loaded(desk, changed_definitions(desk, tmp_path, "crm.toml", named_by_409))
    opened = desk.open("campaign_follow_up")
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("conflict_exists_named", 1, method="POST", identity=identity)
    desk.send()
    named = Attempt.objects.get(operation_id=opened.id).reference
    assert (desk.step(opened).state, effects(desk, opened)) == ("unknown", 1)
    assert named

    look_in_vain(desk, opened)
    send_what_is_due(desk)

    assert effects(desk, opened) == 1
    hold = hold_of(opened)
    assert (hold.reason, named in hold.facts) == ("disputed", True)


def without_search(text: str) -> str:
    """Asked by reference only, which is said to settle both ways; a 409 names the record."""
    text = named_by_409(text)
    search = text.index(f"{CREATE}search]")
    return text[:search] + text[text.index(f"{CREATE}read]") :]


def test_a_definition_that_proves_absence_without_a_search_is_not_loaded(desk: Desk, tmp_path: Path) -> None:
    folder = changed_definitions(desk, tmp_path, "crm.toml", without_search)

    with pytest.raises(BadDefinitions) as bad:
        read_files([folder])

    (problem,) = bad.value.problems
    assert "crm.toml: destination.crm.actions.create_task: lookup.settles" in problem
    assert "there is no search" in problem


def test_a_named_record_that_can_not_be_read_yet_is_no_look_that_counts(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where such a definition was stored before it was refused."""
    monkeypatch.setattr("opsledger.engine.loading.refuse_action", lambda action: [])
    loaded(desk, changed_definitions(desk, tmp_path, "crm.toml", without_search))
    opened = desk.open("campaign_follow_up")
    desk.sandbox.script("conflict_exists_named", 1, method="POST", identity=step_identity(opened.id, 1))
    desk.send()
    desk.sandbox.script("invalid", 2, method="GET", status=404)  # where it is read from lags behind
    quiet_since(3600, opened)
    for _ in range(2):
        desk.hurry()
        assert desk.look() == 1

    assert set(Evidence.objects.filter(kind="lookup").values_list("says", flat=True)) == {"only_read"}
    assert desk.step(opened).looks_none == 0
    send_what_is_due(desk)
    assert effects(desk, opened) == 1


# Replies


@pytest.mark.parametrize("kind", [NoChange.DEFERRED, NoChange.NOT_SENT, NoChange.REJECTED], ids=str)
def test_a_late_no_change_about_what_was_found_is_disputed(desk: Desk, kind: NoChange) -> None:
    opened = unknown(desk, acted=True)
    reference = look_now(desk, opened)
    attempt = Attempt.objects.get(operation_id=opened.id)
    finding = Finding(Outcome.NO_CHANGE, KnownBy.REPLY, no_change=kind)

    record_sends([Sent(opened.id, 1, attempt.pk, finding, late_reply(attempt), actor="destination:crm")])
    send_what_is_due(desk)

    assert effects(desk, opened) == 1
    assert hold_of(opened).reason == "disputed"
    assert Attempt.objects.get(operation_id=opened.id).reference == reference
    proven()


def test_what_was_not_found_is_settled_by_a_late_reply_as_before(desk: Desk) -> None:
    opened = unknown(desk, acted=False)
    attempt = Attempt.objects.get(operation_id=opened.id)
    finding = Finding(Outcome.NO_CHANGE, KnownBy.REPLY, no_change=NoChange.DEFERRED)

    record_sends([Sent(opened.id, 1, attempt.pk, finding, late_reply(attempt), actor="destination:crm")])

    assert desk.step(opened).state == "ready"
    assert not Hold.objects.filter(operation_id=opened.id, closed_at__isnull=True).exists()


@pytest.mark.parametrize("answer", [Answer.HAPPENED, Answer.HAPPENED_ACCEPTED], ids=str)
def test_a_person_who_names_another_record_is_asked_about_the_found_one(desk: Desk, answer: Answer) -> None:
    opened = unknown(desk, acted=True)
    found, hold = look_now(desk, opened), hold_of(opened)

    settle_hold(hold.pk, Decision(answer, "seen", hold.version, reference="T-other"), by_owner(desk))

    asked = hold_of(opened)
    assert (asked.reason, json.loads(asked.facts)["references"]) == (
        "duplicate_found",
        sorted(["T-other", found]),
    )
    others = {"T-other": "A colleague's; nothing depends on it."}
    kept = Decision(Answer.KEEP_ONE, "checked", asked.version, reference=found, others=others)
    settle_hold(asked.pk, kept, by_owner(desk))
    state = "confirmed" if answer is Answer.HAPPENED else "accepted"
    assert (desk.step(opened).state, desk.step(opened).reference) == (state, found)
    proven()


# A name that is another step's


def test_a_dispute_about_anothers_record_is_answered_with_the_own_one(desk: Desk, tmp_path: Path) -> None:
    loaded(desk, changed_definitions(desk, tmp_path, "crm.toml", unprotected))
    another = desk.open()
    desk.send()
    held = desk.step(another).reference
    opened = unknown(desk, "campaign_follow_up", acted=True)
    identity = step_identity(opened.id, 1)
    settle_check(opened.id, 1, None, by_owner(desk))
    desk.hurry()
    theirs = LookupFact(LookupStatus.RECORDS, (FoundRecord(str(held), identity),), searched=True)
    record_looks([replace(look(claimed, WIRE), fact=theirs) for claimed in claim_looks(5)])
    look_in_vain(desk, opened)
    hold = Hold.objects.get(operation_id=opened.id, closed_at=None)
    assert hold.reason == "disputed"
    (effect,) = desk.sandbox.effects(identity=identity)
    by = by_owner(desk)

    with pytest.raises(Refused, match="already belongs to operation"):
        settle_hold(hold.pk, Decision(Answer.HAPPENED, "seen", hold.version, reference=str(held)), by)
    given = Decision(Answer.HAPPENED, "seen there", hold.version, reference=str(effect["reference"]))
    settle_hold(hold.pk, given, by)

    assert (desk.step(opened).state, desk.step(opened).reference) == ("confirmed", effect["reference"])
    assert (desk.step(another).reference, effects(desk, opened)) == (held, 1)
