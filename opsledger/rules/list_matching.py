"""A list of references against the selected holds: one verdict for every row, and for every hold what is done.

A row is about a hold only when it carries the identity of that hold's step, byte for byte; likeness decides nothing. One
reference never stands for two creates, and where the list says two things of one hold it is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from opsledger.rules.identity import skeleton
from opsledger.rules.matching import FieldRow, compare
from opsledger.rules.profile import FieldKind
from opsledger.rules.reference_list import Row


class Match(StrEnum):
    MATCHES = "matches"
    UNREADABLE = "unreadable"
    NO_SUCH_IDENTITY = "no_such_identity"
    TWO_RECORDS = "two_records"
    REPEATED = "repeated"
    NO_REFERENCE = "no_reference"
    REFERENCE_TWICE = "reference_twice"
    TAKEN = "taken"
    CHANGED = "changed"
    NOT_ASKED = "not_asked"
    DIFFERS = "differs"
    TO_BE_READ = "to_be_read"
    NOT_READ = "not_read"
    ONLY_REFERENCE = "only_reference"


# `{detail}`: the problem, the lines, the other operation, the fields.
SENTENCES: Mapping[Match, str] = {
    Match.MATCHES: "It carries the identity of a hold that was selected.",
    Match.UNREADABLE: "It can’t be read. {detail}",
    Match.NO_SUCH_IDENTITY: "No hold that was selected has this identity.{detail}",
    Match.REPEATED: "It says the same as line {detail}.",
    Match.TWO_RECORDS: (
        "The list has this identity in lines {detail}: two records may exist. That is a question of its own;"
        " the hold is left alone."
    ),
    Match.NO_REFERENCE: "It names no reference.",
    Match.REFERENCE_TWICE: "The list gives this reference to several identities, in lines {detail}.",
    Match.TAKEN: "Operation {detail} holds this reference already.",
    Match.CHANGED: "The hold changed since it was selected.",
    Match.NOT_ASKED: "The hold does not ask whether it happened.",
    Match.DIFFERS: "The hold is this one, but the list differs in {detail}.",
    Match.TO_BE_READ: "It names only a reference. The destination is read to see whose it is.",
    Match.NOT_READ: "It names only a reference. {detail}",
    Match.ONLY_REFERENCE: "It names only a reference, and the destination can’t be read by it.",
}


@dataclass(frozen=True, slots=True)
class Sought:
    """One hold of the selection, as far as a list can say something about it."""

    hold_id: str
    identities: frozenset[str]  # of its step, and the key that its request was sent under
    fields: Mapping[str, str] = field(default_factory=dict)  # decisive ones of what was sent
    decisive: tuple[str, ...] = ()  # which those are, in the order of its destination's profile
    kinds: tuple[tuple[str, FieldKind], ...] = ()
    changed: bool = False  # since it was selected
    asks: bool = True  # whether what the list says is one of its answers
    found: str = ""  # what speaks against its absence (`absence.contradicts_absence`); "" = nothing


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a reference is already."""

    operation: str
    hold_id: str = ""  # of the selection, where it is one of those


@dataclass(frozen=True, slots=True)
class Against:
    """What is known of the list's references beside the list."""

    shares: bool = False  # several steps may share a reference (updates)
    reads: bool = False  # a reference can be read
    taken: Mapping[str, Holder] = field(default_factory=dict)
    # what was read under a reference that stands alone: the record's identity, or why there is none (a sentence)
    read: Mapping[str, Read] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    identity: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RowVerdict:
    row: Row
    match: Match
    hold_id: str | None = None
    detail: str = ""
    rows: tuple[FieldRow, ...] = ()  # decisive fields that the list names, beside what was sent

    @property
    def sentence(self) -> str:
        return SENTENCES[self.match].format(detail=self.detail)


@dataclass(frozen=True, slots=True)
class Matched:
    rows: tuple[RowVerdict, ...]

    @property
    def by_hold(self) -> dict[str, RowVerdict]:
        """For each hold that is named the row that decides about it: the first; one that matches is always that."""
        found: dict[str, RowVerdict] = {}
        for one in self.rows:
            if one.hold_id is not None:
                found.setdefault(one.hold_id, one)
        return found

    @property
    def matching(self) -> dict[str, RowVerdict]:
        return {one.hold_id: one for one in self.rows if one.match is Match.MATCHES and one.hold_id}

    @property
    def to_be_read(self) -> list[str]:
        """References that stand alone and may be read, each once, in the list's order."""
        return list(
            dict.fromkeys(
                one.row.reference
                for one in self.rows
                if one.match is Match.TO_BE_READ and one.row.reference is not None
            )
        )


def match(rows: Iterable[Row], chosen: Iterable[Sought], against: Against) -> Matched:
    """One verdict for every row, in the list's order; at most one row matches each hold."""
    listed = list(rows)
    asked = _Asked.of(listed, chosen, against)
    return Matched(tuple(asked.verdict(row) for row in listed))


@dataclass(frozen=True, slots=True)
class _Asked:
    against: Against
    by_identity: Mapping[str, Sought]
    alike: Mapping[str, str]  # identities by what is left of them when they are folded
    lines: Mapping[
        str, Mapping[tuple[object, ...], int]
    ]  # by hold: what is said of it, and on which line first
    owners: Mapping[
        str, Mapping[str, int]
    ]  # by reference: the identities it is given to, and on which line first

    @classmethod
    def of(cls, rows: Iterable[Row], chosen: Iterable[Sought], against: Against) -> _Asked:
        by_identity = {identity: one for one in chosen for identity in one.identities}
        lines: dict[str, dict[tuple[object, ...], int]] = {}
        owners: dict[str, dict[str, int]] = {}
        alike: dict[str, str] = {}
        asked = cls(against, by_identity, alike, lines, owners)
        for row in rows:
            identity = asked.identity_of(row)
            hold = by_identity.get(identity or "")
            if identity is not None and hold is None and not alike:
                alike.update((skeleton(one), one) for one in by_identity)
            if hold is not None:
                lines.setdefault(hold.hold_id, {}).setdefault(row.said, row.line)
            if row.reference is not None and identity is not None:
                owner = hold.hold_id if hold is not None else f"not ours: {identity}"
                owners.setdefault(row.reference, {}).setdefault(owner, row.line)
        return asked

    def identity_of(self, row: Row) -> str | None:
        """Its own, else that of the record that was read under its reference."""
        read = self.against.read.get(row.reference or "")
        return read.identity if row.identity is None and read is not None else row.identity

    def verdict(self, row: Row) -> RowVerdict:
        if row.problem:
            return RowVerdict(row, Match.UNREADABLE, detail=row.problem)
        identity = self.identity_of(row)
        if identity is None:
            return self._without_identity(row)
        hold = self.by_identity.get(identity)
        if hold is None:
            alike = self.alike.get(skeleton(identity))
            detail = f" {alike} only looks the same." if alike else ""
            return RowVerdict(row, Match.NO_SUCH_IDENTITY, detail=detail)
        kind, detail = self._of_lines(row, hold) or self._of_hold(row, hold) or (None, "")
        compared = self._compared(row, hold)
        if kind is None:
            different = [one.field for one in compared if not one.match]
            kind, detail = (Match.DIFFERS if different else Match.MATCHES), ", ".join(different)
        return RowVerdict(row, kind, hold.hold_id, detail, compared)

    def _without_identity(self, row: Row) -> RowVerdict:
        read = self.against.read.get(row.reference or "")
        if read is not None:
            return RowVerdict(row, Match.NOT_READ, detail=read.why)
        return RowVerdict(row, Match.TO_BE_READ if self.against.reads else Match.ONLY_REFERENCE)

    def _of_lines(self, row: Row, hold: Sought) -> tuple[Match, str] | None:
        """What the list itself leaves open: said before, said twice, no reference, one reference for several."""
        said = self.lines[hold.hold_id]
        if len(said) > 1:
            return Match.TWO_RECORDS, _lines(said.values())
        if row.line > said[row.said]:
            return Match.REPEATED, str(said[row.said])
        if row.reference is None:
            return Match.NO_REFERENCE, ""
        owners = self.owners[row.reference]
        if len(owners) > 1 and not self.against.shares:
            return Match.REFERENCE_TWICE, _lines(owners.values())
        return None

    def _of_hold(self, row: Row, hold: Sought) -> tuple[Match, str] | None:
        holder = self.against.taken.get(row.reference or "")
        if holder is not None and holder.hold_id != hold.hold_id and not self.against.shares:
            return Match.TAKEN, holder.operation
        if hold.changed:
            return Match.CHANGED, ""
        return None if hold.asks else (Match.NOT_ASKED, "")

    def _compared(self, row: Row, hold: Sought) -> tuple[FieldRow, ...]:
        """The decisive fields that the list names; an empty cell is no field."""
        named = [ours for ours, _ in row.fields]
        decisive = tuple((ours, ours) for ours in hold.decisive if ours in named)
        theirs = {ours: text for ours, text in row.fields if text is not None}
        return compare(hold.fields, theirs, decisive, hold.kinds)


def _lines(lines: Iterable[int]) -> str:
    numbers = [str(line) for line in sorted(lines)]
    return ", ".join(numbers) if len(numbers) <= 5 else f"{', '.join(numbers[:5])} and others"


# What a statement covers


class Cover(StrEnum):
    COVERED = "covered"
    NOT_NAMED = "not_named"
    CHANGED = "changed"
    NOT_ASKED = "not_asked"
    FOUND = "found"


COVER_SENTENCES: Mapping[Cover, str] = {
    Cover.COVERED: "The statement covers it.",
    Cover.NOT_NAMED: "The statement’s list does not name it.",
    Cover.CHANGED: "The hold changed since it was selected.",
    Cover.NOT_ASKED: "The hold does not ask whether it happened.",
    Cover.FOUND: "A record was found or named for it, against the statement. A person decides.",
}


def covered(chosen: Iterable[Sought], identities: set[str] | None) -> dict[str, Cover]:
    """By hold. `identities`: those that the statement's list names; None where it covers all that was selected."""
    return {one.hold_id: _cover(one, identities) for one in chosen}


def _cover(one: Sought, identities: set[str] | None) -> Cover:
    if identities is not None and not one.identities & identities:
        return Cover.NOT_NAMED
    if one.changed:
        return Cover.CHANGED
    if not one.asks:
        return Cover.NOT_ASKED
    return Cover.FOUND if one.found else Cover.COVERED
