"""Operations brought to each kind of open question, by the actions that bring real ones there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone
from people import person

from opsledger.accounts.actions import grant_role
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.ledger.actions.change import NewEvidence
from opsledger.ledger.actions.claim import ClaimedSend, claim_sends
from opsledger.ledger.actions.destinations import record_access_refused, settle_pause
from opsledger.ledger.actions.event_questions import ask_about_next_body_here
from opsledger.ledger.actions.events import NewEvent, open_event_here
from opsledger.ledger.actions.intake import Taken, Verdict, open_delivery
from opsledger.ledger.actions.interventions import settle_withdraw
from opsledger.ledger.actions.open import Opened, open_operations
from opsledger.ledger.actions.record import Looked, Sent, record_looks, record_sends, record_time_passed
from opsledger.ledger.actions.replays import Start, open_replay
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Attempt, Definition, Destination, Hold, Replay, Step
from opsledger.ledger.queries.replay_plans import plan, scope_of_ids
from opsledger.ledger.replay_plan import freeze, thaw
from opsledger.lib.ids import new_id, public
from opsledger.rules.answers import Answer
from opsledger.rules.building import Problem
from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import HoldReason, NoChange, Outcome
from tests.desk import Desk, desk, params, sandbox, step_identity, turn_recovery

__all__ = ["EVERY_STEP_QUESTION", "Scenes", "desk", "hold_path", "path_of", "sandbox", "scenes"]

UNKNOWN = Finding(Outcome.UNKNOWN, KnownBy.REPLY)
REJECTED = Finding(Outcome.NO_CHANGE, KnownBy.REPLY, NoChange.REJECTED)
DEFERRED = Finding(Outcome.NO_CHANGE, KnownBy.REPLY, NoChange.DEFERRED)


@dataclass
class Scenes:
    """One team at its desk. `recovers` off: unknown outcomes become holds at once."""

    desk: Desk

    def __post_init__(self) -> None:
        turn_recovery(on=False)
        self.owner: Person = self.desk.team.fallback_owner

    def member(self, name: str, role: Role) -> Person:
        made = person(name)
        grant_role(made, self.desk.team, role)
        return made

    # What happens to a step

    def open(self, text_id: str | None = None, workflow: str = "classic_follow_up", **extra: Any) -> Opened:
        return self.desk.open(workflow, text_id, **extra)

    def claim(self) -> ClaimedSend:
        Destination.objects.update(send_tokens=100)  # no waiting for the destination’s rate
        return claim_sends(1, worker="test:1")[0]

    def send(self, finding: Finding, *, says: str = "reply", sentence: str = "No reply came within 5.0 s.",
             content: bytes = b"") -> ClaimedSend:  # fmt: skip
        claimed = self.claim()
        self.end(claimed, finding, says=says, sentence=sentence, content=content)
        return claimed

    def end(self, claimed: ClaimedSend, finding: Finding, *, says: str = "reply", sentence: str = "It ended.",
            content: bytes = b"") -> None:  # fmt: skip
        evidence = self.evidence(
            claimed.step_number, claimed.destination_slug, says, sentence, content, claimed.attempt_id
        )
        actor = f"destination:{claimed.destination_slug}"
        record_sends(
            [Sent(claimed.operation_id, claimed.step_number, claimed.attempt_id, finding, evidence, actor)]
        )

    def evidence(self, step: int, origin: str, says: str, sentence: str, content: bytes = b"",
                 attempt_id: UUID | None = None, kind: str = "reply") -> NewEvidence:  # fmt: skip
        digest = hashlib.sha256(content).digest()
        return NewEvidence(new_id(), step, attempt_id, kind, origin, says, sentence, digest, content)

    def look(self, opened: Opened, *records: FoundRecord) -> None:
        step = self.desk.step(opened)
        fact = LookupFact(LookupStatus.RECORDS, records, searched=True)
        evidence = self.evidence(1, step.destination_slug, "", "", kind="lookup")
        record_looks(
            [
                Looked(opened.id, 1, step.destination_id, step_identity(opened.id, 1),
                       fields_of(params("classic_follow_up")), fact, evidence,
                       f"destination:{step.destination_slug}", KnownBy.LOOKUP)
            ]
        )  # fmt: skip

    def record(self, opened: Opened, reference: str, **changed: str) -> FoundRecord:
        """A record at the destination with this step’s own identity."""
        fields = fields_of(params("classic_follow_up")) | changed
        return FoundRecord(reference, step_identity(opened.id, 1), tuple(fields.items()))

    # Questions

    def unknown(self, text_id: str | None = None, **extra: Any) -> Opened:
        opened = self.open(text_id, **extra)
        self.send(UNKNOWN)
        return opened

    def proposed(self) -> Opened:
        opened = self.unknown()
        self.look(opened, self.record(opened, "T-58213"))
        return opened

    def expired(self) -> Opened:
        opened = self.open(workflow="campaign_follow_up")
        claimed = self.claim()
        Attempt.objects.filter(pk=claimed.attempt_id).update(opened_at=timezone.now() - timedelta(days=2))
        self.end(claimed, UNKNOWN, sentence="No reply came within 5.0 s.")
        return opened

    def alarm(self) -> Opened:
        opened = self.open()
        self.send(
            Finding(Outcome.UNKNOWN, KnownBy.REPLY, integrity_alarm=True),
            sentence="The key was used for other bytes.",
        )
        return opened

    def differs(self) -> Opened:
        opened = self.unknown()
        self.look(opened, self.record(opened, "T-58300", due_date="2027-01-31"))
        return opened

    def duplicate(self) -> Opened:
        opened = self.unknown()
        self.look(opened, self.record(opened, "T-58401"), self.record(opened, "T-58409"))
        return opened

    def disputed(self) -> Opened:
        opened = self.unknown()
        self.settle(opened, Answer.HAPPENED, reference="T-58500")
        version = self.desk.operation(opened).version
        settle_withdraw(
            opened.id, 1, "It was the neighbour’s record.", by_person(self.owner), version=version
        )
        return opened

    def rejected(self) -> Opened:
        opened = self.open()
        self.send(REJECTED, says="rejected", sentence="The reply was 422: queue does not exist.")
        return opened

    def exhausted(self) -> Opened:
        opened = self.open()
        for _ in range(3):
            Step.objects.filter(operation_id=opened.id, number=1).update(act_at=timezone.now())
            self.send(DEFERRED, says="deferred", sentence="The reply was 429: busy.")
        return opened

    def too_late(self) -> Opened:
        wanted = self.desk.wanted("classic_follow_up")
        return open_operations([wanted._replace(not_after=timezone.now() - timedelta(minutes=5))])[0]

    def missing(self) -> Opened:
        wanted = self.desk.wanted("classic_follow_up")
        lacking = {name: value for name, value in wanted.params.items() if name != "account"}
        return open_operations([wanted._replace(params=lacking)])[0]

    def unapproved(self) -> Opened:
        return self.desk.letter()

    def accepted(self) -> Opened:
        """Its message is taken over by the mail service, and nothing more is known."""
        opened = self.open(workflow="campaign_follow_up")
        self.send(
            Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=f"T-{new_id().hex[:6]}"), sentence="Done."
        )
        self.send(
            Finding(Outcome.ACCEPTED, KnownBy.REPLY, reference=f"M-{new_id().hex[:6]}"),
            sentence="Taken over.",
        )
        return opened

    def not_proven(self) -> Opened:
        opened = self.accepted()
        hour_ago = timezone.now() - timedelta(hours=1)
        Step.objects.filter(operation_id=opened.id, number=2).update(
            accepted_at=hour_ago, looks=4, looked_at=hour_ago, act="await", act_at=hour_ago
        )
        record_time_passed(10)
        return opened

    def stopped(self, slug: str = "crm_classic", reason: HoldReason = HoldReason.PAUSED) -> Hold:
        destination = Definition.objects.get(team=self.desk.team, kind="destination", slug=slug)
        if reason is HoldReason.PAUSED:
            version = Destination.objects.get(pk=destination.pk).version
            settle_pause(destination.pk, version, "Their upgrade runs until four.", by_person(self.owner))
        else:
            record_access_refused(destination.pk)
        return Hold.objects.get(destination_id=destination.pk, reason=reason.value, closed_at__isnull=True)

    def event_conflict(self, event_id: str = "evt-77") -> Hold:
        source = Definition.objects.get(team=self.desk.team, kind="source", slug="shop")
        bodies = [b'{"data": {"campaign": "spring launch", "email": "ann@customers.example"}}',
                  b'{"data": {"campaign": "summer launch", "email": "bob@customers.example"}}']  # fmt: skip
        with transaction.atomic():
            for body in bodies:
                event = NewEvent(
                    self.desk.team.pk,
                    source.pk,
                    source.current_id,
                    event_id,
                    body,
                    body.decode(),
                    "application/json",
                )
                opened = open_event_here(event, actor="source:shop")
            ask_about_next_body_here(opened.id, actor="source:shop")
        return Hold.objects.get(event_id=opened.id)

    def event_that_lacks(self, problems: Sequence[Problem]) -> Hold:
        source = Definition.objects.get(team=self.desk.team, kind="source", slug="shop")
        raw = b'{"data": {"campaign": "spring launch", "email": "ann@customers.example"}}'
        event = NewEvent(
            self.desk.team.pk, source.pk, source.current_id, "evt-78", raw, raw.decode(), "application/json"
        )
        refused = Taken(Verdict.REFUSED, problems=tuple(problems))
        return Hold.objects.get(event_id=open_delivery(event, refused, source="shop").event.id)

    # Replays

    def replay(self) -> Replay:
        """One that runs, with one step that waits for its turn."""
        opened, by = self.rejected(), by_person(self.owner)
        made = plan(self.desk.team.pk, scope_of_ids(self.desk.team.pk, [opened.id]), timezone.now())
        frozen = thaw(freeze(made, by.person_id), self.desk.team.pk, by.person_id)
        touches = frozenset(one.slug for one in made.destinations)
        start = Start("after the incident", "The queue was closed.", made.digest(), touches, mended=True)
        return open_replay(frozen, start, by).replay

    # Asking about them

    def hold(self, opened: Opened) -> Hold:
        return Hold.objects.get(operation_id=opened.id, closed_at__isnull=True)

    def settle(self, opened: Opened, answer: Answer, **more: Any) -> None:
        hold = self.hold(opened)
        reason = more.pop("reason", "I looked at the destination.")
        settle_hold(hold.pk, Decision(answer, reason, hold.version, **more), by_person(self.owner))


def fields_of(given: dict[str, Any]) -> dict[str, str]:
    return {name: str(given[name]) for name in ("subject", "queue", "due_date", "account")}


def path_of(opened: Opened) -> str:
    return f"/operations/{public('op', opened.id)}/"


def hold_path(hold: Hold, what: str) -> str:
    return f"/holds/{public('hold', hold.pk)}/{what}"


EVERY_STEP_QUESTION: dict[HoldReason, Callable[[Scenes], Opened]] = {
    HoldReason.OUTCOME_UNKNOWN: Scenes.unknown,
    HoldReason.PROTECTION_EXPIRED: Scenes.expired,
    HoldReason.INTEGRITY_ALARM: Scenes.alarm,
    HoldReason.RECORD_DIFFERS: Scenes.differs,
    HoldReason.DUPLICATE_FOUND: Scenes.duplicate,
    HoldReason.DISPUTED: Scenes.disputed,
    HoldReason.REJECTED: Scenes.rejected,
    HoldReason.ATTEMPTS_EXHAUSTED: Scenes.exhausted,
    HoldReason.TOO_LATE: Scenes.too_late,
    HoldReason.DATA_MISSING: Scenes.missing,
    HoldReason.DELIVERY_NOT_PROVEN: Scenes.not_proven,
    HoldReason.APPROVAL_NEEDED: Scenes.unapproved,
}


@pytest.fixture
def scenes(desk: Desk) -> Scenes:
    return Scenes(desk)
