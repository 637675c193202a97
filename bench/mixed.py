"""Operations of every kind that a replay meets, recorded, claimed and answered through our own writers, past the network.

A third is done, a third can be sent (rejected, or its tries are used up), the rest is unknown: protected, to be asked,
neither, under an alarm, in dispute. Nothing recovers by itself, so each of them waits for a person.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from opsledger.ledger.actions.change import NewEvidence
from opsledger.ledger.actions.claim import ClaimedSend, claim_sends
from opsledger.ledger.actions.definitions import current_workflow
from opsledger.ledger.actions.open import NewOperation, open_operations
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.lib.ids import new_id
from opsledger.rules.definition_types import Recovery
from opsledger.rules.definitions import DestinationDefinition, WorkflowDefinition
from opsledger.rules.learning import Finding
from opsledger.rules.profile import Protection, Settles
from opsledger.rules.record import KnownBy
from opsledger.rules.states import NoChange, Outcome

BATCH = 250


@dataclass(frozen=True)
class Kind:
    """How operations of one kind became what they are, and what a replay makes of them."""

    name: str
    destination: str
    share: int  # of 18
    answers: tuple[str, ...]  # to its one attempt, one after the other
    verdict: str
    acted: bool = False  # its destination has its record: it was really sent there


KINDS = (
    Kind("done", "bare", 6, ("confirmed",), "keep"),
    Kind("rejected", "bare", 3, ("rejected",), "send"),
    Kind("tries used up", "once", 3, ("not_sent",), "send"),
    Kind("unknown, protected, not there", "keyed", 1, ("unknown",), "send_protected"),
    Kind("unknown, protected, there", "keyed", 1, ("unknown",), "send_protected", acted=True),
    Kind("unknown, absence can be proven", "asked", 1, ("unknown",), "look_first"),
    Kind("unknown, can be found", "lagging", 1, ("unknown",), "look_first", acted=True),
    Kind("unknown, neither", "bare", 1, ("unknown",), "refuse"),
    Kind("integrity alarm", "keyed", 1, ("alarm",), "refuse"),
)
DISPUTED = Kind("disputed", "asked", 1, ("not_sent", "confirmed"), "refuse")


def of(number: int) -> Kind:
    """The kind of the operation with this number: every share of eighteen in turn; each hundredth is in dispute."""
    if number % 100 == 99:
        return DISPUTED
    place = number % 18
    for kind in KINDS:
        place -= kind.share
        if place < 0:
            return kind
    raise AssertionError("the shares add up to eighteen")


# Definitions


def definitions(
    crm: DestinationDefinition, classic: WorkflowDefinition
) -> list[DestinationDefinition | WorkflowDefinition]:
    """A destination and a workflow of one step for each way to be protected, made from the demo's CRM."""
    action = crm.actions["create_task"]
    keyed, lookup = action.profile.protection, action.profile.lookup
    assert lookup is not None
    none = Protection()
    few = replace(action.profile.retries, tries_max=1)
    shapes = {
        "bare": replace(action.profile, protection=none, lookup=None),
        "once": replace(action.profile, protection=none, lookup=None, retries=few),
        "keyed": replace(action.profile, protection=keyed, lookup=None),
        "asked": replace(action.profile, protection=none, lookup=lookup),
        "lagging": replace(
            action.profile, protection=none, lookup=replace(lookup, settles=Settles.POSITIVE_ONLY)
        ),
    }
    made: list[DestinationDefinition | WorkflowDefinition] = []
    asked: dict[str, Any]
    for slug, shape in shapes.items():
        asked = {} if shape.lookup else {"search": None, "read": None}
        one = replace(
            action, profile=replace(shape, destination=slug), automatic_recovery=Recovery.OFF, **asked
        )
        made.append(
            replace(
                crm, slug=slug, name=slug, actions={"create_task": one}, sends_per_second=5_000.0,
                max_in_flight=100_000,
            )
        )  # fmt: skip
        step = replace(classic.steps[0], destination=slug)
        made.append(replace(classic, slug=f"at_{slug}", steps=(step,)))
    return made


# Operations


def open_kinds(team_id: UUID, kinds: Sequence[Kind], params: Mapping[str, Any]) -> dict[UUID, Kind]:
    """Records one operation of each of these kinds; gives the kinds by operation."""
    found: dict[UUID, Kind] = {}
    for start in range(0, len(kinds), BATCH):
        batch = kinds[start : start + BATCH]
        opened = open_operations([_wanted(team_id, kind, params) for kind in batch])
        found |= {one.id: kind for one, kind in zip(opened, batch, strict=True)}
    return found


def _wanted(team_id: UUID, kind: Kind, params: Mapping[str, Any]) -> NewOperation:
    current = current_workflow(team_id, f"at_{kind.destination}")
    return NewOperation(
        team_id=team_id,
        operation_id=f"mixed:{uuid.uuid4()}",
        workflow_version_id=current.version_id,
        destinations=current.destinations,
        params=dict(params),
        actor="command:bench",
    )


def answer_all(kinds: Mapping[UUID, Kind]) -> int:
    """Claims all that is due and records its kind's answers, without a network. Returns how many."""
    count = 0
    while claimed := claim_sends(BATCH, worker="filling"):
        rounds = [[_sent(one, word) for word in kinds[one.operation_id].answers] for one in claimed]
        for place in range(max(map(len, rounds))):
            record_sends([answers[place] for answers in rounds if place < len(answers)])
        count += len(claimed)
    return count


def _sent(claimed: ClaimedSend, word: str) -> Sent:
    reference = f"M-{claimed.attempt_id.hex}"
    findings = {
        "confirmed": Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=reference),
        "rejected": Finding(Outcome.NO_CHANGE, KnownBy.REPLY, no_change=NoChange.REJECTED),
        "not_sent": Finding(Outcome.NO_CHANGE, KnownBy.TRANSPORT, no_change=NoChange.NOT_SENT),
        "unknown": Finding(Outcome.UNKNOWN, KnownBy.TRANSPORT),
        "alarm": Finding(Outcome.UNKNOWN, KnownBy.REPLY, integrity_alarm=True),
    }
    evidence = NewEvidence(
        new_id(), claimed.step_number, claimed.attempt_id, "reply", claimed.destination_slug, word, word,
        hashlib.sha256(word.encode()).digest(),
    )  # fmt: skip
    return Sent(
        operation_id=claimed.operation_id,
        step_number=claimed.step_number,
        attempt_id=claimed.attempt_id,
        finding=findings[word],
        evidence=evidence,
        actor=f"destination:{claimed.destination_slug}",
    )
