"""What a lookup's answer says about a step (rules.md, table 5).

Likeness is no proof: a record confirms a step only when it carries this step's own identity and its decisive
fields are equal. Absence is weak: it counts only where it is documented to, after the quiet period, and twice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TypeAlias

from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from opsledger.rules.identity import canonical_json
from opsledger.rules.profile import Effect, FieldKind, Lookup, Settles
from opsledger.rules.reading import Absent, Unreadable, Value, at, read_json, text_at
from opsledger.rules.schedule import counts_as_look
from opsledger.rules.words import error_words, field_words

__all__ = [
    "FOUND_NOTHING",
    "GAVE_NO_ANSWER",
    "FieldRow",
    "LookAnswer",
    "LookupVerdict",
    "compare",
    "counts_as_look",
    "found_fields",
    "judge",
    "own_records",
    "sent_fields",
]

Fields: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]


class LookAnswer(StrEnum):
    CONFIRMED = "confirmed"  # one record, ours, decisive fields equal
    DIFFERS = "differs"  # one record, ours, a decisive field differs
    DUPLICATE = "duplicate"  # several records, all ours
    CANDIDATES = "candidates"  # records that are only alike: shown, never deciding
    RUNNING = "running"
    FAILED = "failed"  # documented as no effect
    ABSENT = "absent"  # proof of absence
    CONTRADICTED = "contradicted"  # the same, but a record was found or named before: a person decides
    NONE = "none"  # nothing found, which is no proof (yet)
    NO_ANSWER = "no_answer"
    ACCESS_REFUSED = "access_refused"


# Words of `LookupVerdict.why`, for counting looks. Errors are no answer: who counts them as *nothing found* makes people
# believe in an absence that nobody has seen. Any other word found something.
FOUND_NOTHING = frozenset({"positive_only", "quiet_period", "too_few_looks", "proven_absent", "contradicted"})
GAVE_NO_ANSWER = frozenset(
    {"lookup_failed", "access_refused", "no_answer", "not_all_pages", "failure_undocumented", "only_read"}
)


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One decisive field beside the other. None: it is not there."""

    field: str
    ours: str | None
    theirs: str | None
    match: bool


@dataclass(frozen=True, slots=True)
class LookupVerdict:
    answer: LookAnswer
    why: str  # one machine word
    sentence: str  # the same for people
    reference: str | None = None  # of the record that confirms, differs, or is refused because it is taken
    references: tuple[str, ...] = ()  # of all records of this step, when there are several
    rows: tuple[FieldRow, ...] = ()
    candidates: tuple[FoundRecord, ...] = ()
    counted: bool = False  # nothing was found, and this look counts towards proof of absence
    reference_taken_by: str | None = None  # the operation whose step holds the reference
    compared: tuple[tuple[str, tuple[FieldRow, ...]], ...] = ()  # of several records: each with its fields


def judge(
    step_identity: str,
    request_fields: Fields,
    lookup_profile: Lookup,
    fact: LookupFact,
    *,
    counted: bool,
    counted_before: int,
    reference_taken_by: str | None,
    effect: Effect,
    contradicted: str,
    not_ours: Collection[str] = (),
) -> LookupVerdict:
    """What this answer is, by table 5. Only a search can find that there is nothing; the fact says what was asked.

    `counted`: the look was made after the quiet period (`counts_as_look`). `counted_before`: earlier looks that
    counted and found nothing. `reference_taken_by`: the operation whose other step holds the reference of the one
    record that `own_records` finds. `contradicted`: what was found or named for the step before (`absence.found_for`).
    `not_ours`: references that a person declared to be somebody else's.
    """
    if fact.status is not LookupStatus.RECORDS:
        return _unless_contradicted(_without_records(fact, lookup_profile), contradicted)
    own = own_records(step_identity, fact, not_ours)
    alike = tuple(record for record in fact.records if record not in own)
    if len(own) > 1:
        references = tuple(record.reference for record in own)
        sentence = f"{len(own)} records carry this step’s identity: {', '.join(references)}."
        decisive, kinds = lookup_profile.decisive, lookup_profile.kinds
        compared = tuple(
            (record.reference, compare(request_fields, record.fields, decisive, kinds)) for record in own
        )
        return LookupVerdict(
            LookAnswer.DUPLICATE, "several_records", sentence, references=references, compared=compared
        )
    if own:
        return replace(
            _one_record(own[0], request_fields, lookup_profile, reference_taken_by, effect), candidates=alike
        )
    if alike:
        sentence = (
            f"{len(alike)} records are alike, but none carries this step’s identity. They decide nothing."
        )
        return LookupVerdict(LookAnswer.CANDIDATES, "only_alike", sentence, candidates=alike)
    return _unless_contradicted(_nothing_found(fact, lookup_profile, counted, counted_before), contradicted)


def _unless_contradicted(verdict: LookupVerdict, contradicted: str) -> LookupVerdict:
    """Found, then not found, is no proof of absence: both are told, and a person decides."""
    if not contradicted or verdict.answer not in {LookAnswer.ABSENT, LookAnswer.FAILED}:
        return verdict
    known = f"But {contradicted} was found or named for it before, so a person decides."
    sentence = f"{verdict.sentence.removesuffix(': it did not happen.').removesuffix('.')}. {known}"
    return replace(verdict, answer=LookAnswer.CONTRADICTED, why="contradicted", sentence=sentence)


def own_records(
    step_identity: str, fact: LookupFact, not_ours: Collection[str] = ()
) -> tuple[FoundRecord, ...]:
    """The records that carry this step's identity, byte for byte; one that two pages list is one record."""
    if not step_identity:
        return ()
    own = (record for record in fact.records if record.identity == step_identity)
    return tuple({record.reference: record for record in own if record.reference not in not_ours}.values())


def _without_records(fact: LookupFact, lookup: Lookup) -> LookupVerdict:
    if fact.status is LookupStatus.ACCESS_REFUSED:
        sentence = "The destination does not let us look. That is no answer."
        return LookupVerdict(LookAnswer.ACCESS_REFUSED, "access_refused", sentence)
    if fact.status is LookupStatus.RUNNING:
        return LookupVerdict(LookAnswer.RUNNING, "running", "The destination is still at work on it.")
    if fact.status is LookupStatus.FAILED:
        if lookup.failed_means_no_change and _is_documented(lookup):
            sentence = "The destination says that it failed, which is documented to have no effect."
            return LookupVerdict(LookAnswer.FAILED, "failed", sentence)
        sentence = "The destination says that it failed; whether that leaves an effect is not documented."
        return LookupVerdict(LookAnswer.NO_ANSWER, "failure_undocumented", sentence)
    error = error_words(fact.error)
    return LookupVerdict(
        LookAnswer.NO_ANSWER, "lookup_failed", f"The lookup failed ({error}). That is no answer."
    )


def _one_record(
    record: FoundRecord, request_fields: Fields, lookup: Lookup, taken_by: str | None, effect: Effect
) -> LookupVerdict:
    reference = record.reference
    if not reference:
        sentence = "A record with this step’s identity was found, but it has no reference to keep."
        return LookupVerdict(LookAnswer.NO_ANSWER, "record_without_reference", sentence)
    rows = compare(request_fields, record.fields, lookup.decisive, lookup.kinds)
    if taken_by is not None and effect is not Effect.UPDATE:
        sentence = (
            f"The record {reference} carries this step’s identity, but operation {taken_by} holds it already."
        )
        return LookupVerdict(
            LookAnswer.NO_ANSWER,
            "reference_taken",
            sentence,
            reference,
            rows=rows,
            reference_taken_by=taken_by,
        )
    different = [row.field for row in rows if not row.match]
    if different:
        sentence = (
            f"The record {reference} is this step’s, but differs in {', '.join(map(field_words, different))}."
        )
        return LookupVerdict(LookAnswer.DIFFERS, "field_differs", sentence, reference, rows=rows)
    if rows and all(row.ours is None for row in rows):  # two gaps are alike; that proves nothing
        sentence = f"The record {reference} carries this step’s identity, but no decisive field to compare."
        return LookupVerdict(LookAnswer.NO_ANSWER, "nothing_compared", sentence, reference, rows=rows)
    sentence = f"The record {reference} carries this step’s identity, and its decisive fields are equal."
    return LookupVerdict(LookAnswer.CONFIRMED, "found", sentence, reference, rows=rows)


def _nothing_found(fact: LookupFact, lookup: Lookup, counted: bool, counted_before: int) -> LookupVerdict:
    needed = max(lookup.looks_min, 2)
    if not fact.searched:
        return LookupVerdict(
            LookAnswer.NO_ANSWER,
            "only_read",
            "The record that was named can’t be read, which proves nothing.",
        )
    if not fact.complete:
        return _no_proof("not_all_pages", "Nothing was found, but not all pages were read.")
    if lookup.settles is not Settles.BOTH or not _is_documented(lookup):
        return _no_proof("positive_only", "Nothing was found, which proves nothing at this destination.")
    if not counted:
        return _no_proof("quiet_period", "Nothing was found, but a new record may still be invisible.")
    if counted_before + 1 < needed:
        sentence = f"Nothing was found; {counted_before + 1} of {needed} looks that count."
        return replace(_no_proof("too_few_looks", sentence), counted=True)
    sentence = f"Nothing was found in {counted_before + 1} looks after the quiet period: it did not happen."
    return LookupVerdict(LookAnswer.ABSENT, "proven_absent", sentence, counted=True)


def _no_proof(why: str, sentence: str) -> LookupVerdict:
    return LookupVerdict(LookAnswer.NONE, why, sentence)


def _is_documented(lookup: Lookup) -> bool:
    return lookup.source is not None and lookup.source.confirmed


# Field by field


def sent_fields(body: bytes | None, lookup: Lookup | None) -> dict[str, str]:
    """The decisive fields of what was sent, as text. None stand in bytes that are no JSON, or that nobody has any more."""
    try:
        return _texts(read_json(body or b""), (ours for ours, _ in lookup.decisive)) if lookup else {}
    except Unreadable:
        return {}


def found_fields(record: Value | Absent, lookup: Lookup | None) -> tuple[tuple[str, str], ...]:
    """The decisive fields of a record that was found, read in the same way."""
    return tuple(_texts(record, (theirs for _, theirs in lookup.decisive)).items()) if lookup else ()


def _texts(document: Value | Absent, paths: Iterable[str]) -> dict[str, str]:
    texts = ((path, _text(document, path)) for path in paths)
    return {path: text for path, text in texts if text is not None}


def _text(document: Value | Absent, path: str) -> str | None:
    """Numbers by their original text, lists and objects as canonical JSON. Null is the same as nothing."""
    found = at(document, path)
    return canonical_json(found) if isinstance(found, list | dict) else text_at(document, path)


def compare(
    request_fields: Fields,
    record_fields: Fields,
    decisive: Iterable[tuple[str, str]],
    kinds: Iterable[tuple[str, FieldKind]] = (),
) -> tuple[FieldRow, ...]:
    """The decisive fields of a request beside those of a record, in the profile's order.

    Text is compared byte for byte, and so is everything that is not named in `kinds` as a number or a date.
    """
    ours, theirs, kind_of = dict(request_fields), dict(record_fields), dict(kinds)
    return tuple(
        _row(field, ours.get(field), theirs.get(there), kind_of.get(field, FieldKind.TEXT))
        for field, there in decisive
    )


def _row(field: str, ours: str | None, theirs: str | None, kind: FieldKind) -> FieldRow:
    if ours is None or theirs is None:
        return FieldRow(field, ours, theirs, ours is theirs)
    return FieldRow(field, ours, theirs, ours == theirs or _EQUAL[kind](ours, theirs))


_NUMBER = re.compile(r"[+-]?[0-9]{1,200}(\.[0-9]{1,200})?([eE][+-]?[0-9]{1,4})?", re.ASCII)


def _equal_numbers(ours: str, theirs: str) -> bool:
    if not (_NUMBER.fullmatch(ours) and _NUMBER.fullmatch(theirs)):
        return False
    try:
        return Decimal(ours) == Decimal(theirs)
    except InvalidOperation:
        return False


def _equal_dates(ours: str, theirs: str) -> bool:
    """Two days, or two moments with their zones; a day is not a moment."""
    days = _day(ours), _day(theirs)
    if any(days):
        return days[0] == days[1]
    try:
        one, other = datetime.fromisoformat(ours), datetime.fromisoformat(theirs)
    except ValueError:
        return False
    return one.tzinfo is not None and other.tzinfo is not None and one == other


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


_EQUAL = {
    FieldKind.TEXT: lambda ours, theirs: False,  # equal bytes were seen before
    FieldKind.NUMBER: _equal_numbers,
    FieldKind.DATE: _equal_dates,
}
