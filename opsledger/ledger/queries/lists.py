"""Lists of references and provider's statements: what they say, against the holds of their selection as they stand now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.rendering import identity_of
from opsledger.lib.named_rows import named_rows
from opsledger.rules.absence import found
from opsledger.rules.bulk import Verb
from opsledger.rules.bulk_verbs import Chosen, why_not
from opsledger.rules.definitions import ActionDefinition
from opsledger.rules.list_matching import Against, Holder, Matched, Read, Sought, match
from opsledger.rules.matching import FieldRow, sent_fields
from opsledger.rules.profile import Effect
from opsledger.rules.reference_list import Headings, Listed, Row, headings_of, read_list
from opsledger.rules.rendering import mask
from opsledger.rules.states import HoldReason, StepState

LISTS_MAX = 20


@dataclass(frozen=True, slots=True)
class ListLine:
    id: UUID
    team_id: UUID
    selection_id: UUID
    made_by: str
    made_at: datetime
    file_name: str  # "" = pasted
    digest: str
    row_count: int
    byte_count: int


_LIST = """
SELECT l.id, l.team_id, l.selection_id, p.display_name AS made_by, l.made_at, l.file_name, encode(l.digest, 'hex') AS digest,
       l.row_count, length(l.content) AS byte_count
  FROM ledger_referencelist l JOIN person p ON p.id = l.person_id
"""


def list_of(list_id: UUID, team_ids: Sequence[UUID]) -> ListLine | None:
    """One list; None when it does not exist for these teams."""
    rows = named_rows(f"{_LIST} WHERE l.id = %s AND l.team_id = ANY(%s)", [list_id, list(team_ids)])
    return ListLine(*rows[0]) if rows else None


def lists_of(selection_id: UUID) -> list[ListLine]:
    """The lists of a selection, newest first; at most LISTS_MAX."""
    query = f"{_LIST} WHERE l.selection_id = %s ORDER BY l.id DESC LIMIT {LISTS_MAX}"
    return [ListLine(*row) for row in named_rows(query, [selection_id])]


def content_of(list_id: UUID) -> bytes:
    return bytes(named_rows("SELECT content FROM ledger_referencelist WHERE id = %s", [list_id])[0].content)


# What a list is held against


@dataclass(frozen=True, slots=True)
class Target:
    """One hold of a selection with its step."""

    hold_id: UUID
    position: int
    operation_id: UUID
    operation_text_id: str
    title: str
    step_id: UUID
    number: int
    attempt_count: int
    destination_id: UUID
    destination_version_id: UUID
    destination: str
    action: str
    identity: str  # of the step
    sought: Sought

    @property
    def definition(self) -> ActionDefinition:
        return definitions.destination(self.destination_version_id).actions[self.action]


_TARGETS = """
SELECT i.hold_id, i.position, h.reason, h.facts,
       h.version <> i.version OR h.closed_at IS NOT NULL AS changed, s.operation_id, h.operation_text_id,
       h.title, s.id AS step_id, s.number, s.attempt_count, s.identity, s.state, s.destination_id, s.destination_version_id,
       s.destination_slug, s.action, s.not_ours, r.idempotency_key,
       ARRAY(SELECT a.reference FROM ledger_attempt a WHERE a.step_id = s.id AND a.outcome = 'unknown'
              AND a.reference IS NOT NULL ORDER BY a.number) AS named
  FROM ledger_selectionitem i JOIN ledger_hold h ON h.id = i.hold_id JOIN ledger_step s ON s.id = h.step_id
  LEFT JOIN ledger_steprequest r ON r.step_id = s.id AND r.revision = s.revision
 WHERE i.selection_id = %s ORDER BY i.position
"""


def targets_of(selection_id: UUID, verb: Verb) -> list[Target]:
    """The holds of a selection that are about a step. `verb`: what is to be said of them."""
    return [_target(row, verb) for row in named_rows(_TARGETS, [selection_id])]


def _target(row: Any, verb: Verb) -> Target:
    one = Chosen(HoldReason(row.reason), StepState(row.state), row.destination_slug, row.action, 1)
    identity = identity_of(row.identity, row.operation_id, row.number)
    action = definitions.destination(row.destination_version_id).actions[row.action]
    lookup = action.profile.lookup
    sought = Sought(
        hold_id=str(row.hold_id),
        identities=frozenset({identity, row.idempotency_key or identity}),
        decisive=tuple(ours for ours, _ in lookup.decisive) if lookup else (),
        kinds=lookup.kinds if lookup else (),
        changed=row.changed,
        asks=not why_not(verb, [one]),
        found=found(row.named, row.not_ours or (), json.loads(row.facts)),
    )
    return Target(
        row.hold_id, row.position, row.operation_id, row.operation_text_id, row.title,
        row.step_id, row.number, row.attempt_count, row.destination_id, row.destination_version_id, row.destination_slug,
        row.action, identity, sought,
    )  # fmt: skip


def can_be_read(action: ActionDefinition) -> bool:
    """Whether a record of this action can be read by its reference, and compared."""
    return action.read is not None and action.profile.lookup is not None


def headings_for(targets: Iterable[Target]) -> Headings:
    """By which words a list about these holds may name its columns."""
    found = Headings()
    for version_id, name in sorted({(one.destination_version_id, one.action) for one in targets}):
        action = definitions.destination(version_id).actions[name]
        for reference in {action.read.reference if action.read else "", action.profile.reply.reference}:
            one = headings_of(action.profile.lookup, reference)
            found = Headings(
                found.reference | one.reference, found.identity | one.identity, {**found.fields, **one.fields}
            )
    return found


def identities_of(targets: Iterable[Target]) -> set[str]:
    return {identity for one in targets for identity in one.sought.identities}


# What a list says


@dataclass(frozen=True, slots=True)
class Look:
    """A list against its selection, as both stand now."""

    line: ListLine
    listed: Listed
    targets: list[Target]
    matched: Matched
    fits: str  # why it can't be applied to this selection at all; "" = it can

    @property
    def matching(self) -> dict[UUID, Row]:
        return {UUID(hold_id): one.row for hold_id, one in self.matched.matching.items()}

    @property
    def left(self) -> dict[UUID, str]:
        """For each hold that the list leaves alone the sentence why."""
        named, matching = self.matched.by_hold, self.matching
        return {
            one.hold_id: named[one.sought.hold_id].sentence if one.sought.hold_id in named else NOT_NAMED
            for one in self.targets
            if one.hold_id not in matching
        }

    @property
    def shown(self) -> str:
        """A digest over what would be applied, so that nothing else is."""
        fed = hashlib.sha256()
        for hold_id, row in sorted(self.matching.items()):
            fed.update(hold_id.bytes)
            fed.update(bytes.fromhex(row.digest))
        return fed.hexdigest()

    @property
    def unread_count(self) -> int:
        """Holds that match and of which nothing but the identity is compared: their destination can't be read."""
        matching = self.matching
        return sum(1 for one in self.targets if one.hold_id in matching and not can_be_read(one.definition))

    @property
    def reader(self) -> Target | None:
        """By whose definition a reference that stands alone is read."""
        return next((one for one in self.targets if can_be_read(one.definition)), None)


NOT_NAMED = "The list does not name it."


def look(line: ListLine, groups: Sequence[Chosen]) -> Look:
    """Reads a list that is kept, and matches it. `groups`: the selection's holds by kind."""
    targets = targets_of(line.selection_id, Verb.HAPPENED)
    listed = read_list(content_of(line.id), headings_for(targets), identities_of(targets))
    if any(row.fields for row in listed.rows):
        targets = _with_fields(targets)
    against = Against(
        shares=all(one.definition.profile.effect is not Effect.CREATE for one in targets),
        reads=any(can_be_read(one.definition) for one in targets),
        taken=_taken(targets, {row.reference for row in listed.rows if row.reference}),
        read=read_of(line.id, listed),
    )
    matched = match(listed.rows, [one.sought for one in targets], against)
    return Look(line, listed, targets, matched, why_not(Verb.HAPPENED, groups))


_BODIES = """
SELECT r.step_id, r.body FROM ledger_steprequest r JOIN ledger_step s ON s.id = r.step_id AND s.revision = r.revision
 WHERE r.step_id = ANY(%s)
"""


def _with_fields(targets: list[Target]) -> list[Target]:
    """With the decisive fields of what was sent."""
    bodies = {row.step_id: bytes(row.body) for row in named_rows(_BODIES, [[one.step_id for one in targets]])}

    def sent(one: Target) -> Target:
        fields = sent_fields(bodies.get(one.step_id), one.definition.profile.lookup)
        return replace(one, sought=replace(one.sought, fields=fields))

    return [sent(one) for one in targets]


_TAKEN = """
SELECT h.reference_key, h.step_id, o.operation_id
  FROM ledger_heldreference h JOIN ledger_step s ON s.id = h.step_id JOIN ledger_operation o ON o.id = s.operation_id
 WHERE h.destination_id = ANY(%s) AND h.reference_key = ANY(%s)
"""


def _taken(targets: Sequence[Target], references: Collection[str]) -> dict[str, Holder]:
    """Which of these references a create step of the destination holds already, in an id space that the list is about."""
    spaces = {one.definition.profile.reply.id_space for one in targets}
    keys = {
        bytes.fromhex(definitions.reference_key(one, space)): one for one in references for space in spaces
    }
    holds = {one.step_id: str(one.hold_id) for one in targets}
    rows = named_rows(_TAKEN, [sorted({one.destination_id for one in targets}), list(keys)])
    return {
        keys[bytes(row.reference_key)]: Holder(row.operation_id, holds.get(row.step_id, "")) for row in rows
    }


def read_of(list_id: UUID, listed: Listed) -> dict[str, Read]:
    """What was read under the references that stand alone in a list."""
    references = {row.line: row.reference for row in listed.rows if row.reference is not None}
    rows = named_rows("SELECT line, identity, why FROM ledger_readreference WHERE of_id = %s", [list_id])
    return {
        references[row.line]: Read(row.identity, row.why)
        for row in rows
        if references.get(row.line) is not None
    }


def masked(rows: Iterable[FieldRow], sensitive: Collection[str]) -> list[FieldRow]:
    """Compared fields as pages show them."""

    def shown(row: FieldRow) -> FieldRow:
        ours, theirs = (None if value is None else mask(value) for value in (row.ours, row.theirs))
        return FieldRow(row.field, ours, theirs, row.match) if row.field in sensitive else row

    return [shown(row) for row in rows]
