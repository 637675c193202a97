"""Whose a destination's reference is: one create step's; updates may share a record (rules.md, table 5).

Every writer of a reference asks here first, and is asked again by the unique constraint when it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from django.db import IntegrityError, connection

from opsledger.ledger import definitions
from opsledger.ledger.models import Step
from opsledger.ledger.records import Loaded
from opsledger.rules.learning import HAPPENED
from opsledger.rules.profile import ActionProfile, Effect
from opsledger.rules.record import Step as StepRecord

T = TypeVar("T")


def belongs_to_one(profile: ActionProfile) -> bool:
    """Whether a reference of this action belongs to one step only."""
    return profile.effect is Effect.CREATE


def key_of(profile: ActionProfile, reference: str) -> str:
    """Under which a reference of this action is unique at its destination, in hex."""
    return definitions.reference_key(reference, profile.reply.id_space)


def references_of(step: StepRecord) -> set[str]:
    """Those that a step claims: its own, and those of its attempts that are held to have happened.

    An attempt's reference counts although the step is unknown by another attempt: it will be the step's.
    """
    happened = {attempt.reference for attempt in step.attempts if attempt.outcome in HAPPENED}
    return {reference for reference in {step.reference, *happened} if reference is not None}


def taken_by_other(step: Step, reference: str | None) -> str | None:
    """The operation whose create step holds this reference, if it is another step's; None where it may be shared."""
    profile = definitions.destination(step.destination_version_id).actions[step.action].profile
    if not reference or not belongs_to_one(profile):
        return None
    return _holder(step.destination_id, key_of(profile, reference), step.pk)


def taken_from(loaded: Loaded, number: int, reference: str | None) -> str | None:
    """The same for a step of a record that is loaded."""
    profile = loaded.policies[number].profile
    if not reference or not belongs_to_one(profile):
        return None
    return _holder(loaded.destination_ids[number], key_of(profile, reference), loaded.step_ids[number])


def _holder(destination_id: UUID, key: str, step_id: UUID) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.operation_id FROM ledger_heldreference h JOIN ledger_step s ON s.id = h.step_id"
            " JOIN ledger_operation o ON o.id = s.operation_id"
            " WHERE h.destination_id = %s AND h.reference_key = %s AND h.step_id <> %s",
            [destination_id, bytes.fromhex(key), step_id],
        )
        row = cursor.fetchone()
        return row[0] if row else None


def once_more(act: Callable[[], T]) -> T:
    """Again when two steps named one reference at the same moment: the second time the holder is known.

    `act` opens its own transaction, reads everything in it and decides there.
    """
    try:
        return act()
    except IntegrityError:
        return act()
