"""Lists of references: kept as they came, and applied as *it happened* to the holds that they name by identity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.bulk import AtHand, Batch, Begun, Said, begin, begun_before
from opsledger.ledger.actions.bulk_verbs import ERASED, changes_here
from opsledger.ledger.actions.change import Change, NewEvidence
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.settle import Decision, answer_change
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import ReferenceList, Selection
from opsledger.ledger.queries.bulk import groups_of, remaining, text_of
from opsledger.ledger.queries.lists import NOT_NAMED, Look, headings_for, identities_of, targets_of
from opsledger.lib.ids import new_id, public
from opsledger.rules.answers import Answer
from opsledger.rules.bulk import BulkResult, Verb
from opsledger.rules.bulk_verbs import why_not
from opsledger.rules.list_matching import Match, Read
from opsledger.rules.reference_list import UnreadableList, read_list

FILE_NAME_LENGTH_MAX = 200


def keep_list(selection: Selection, content: bytes, by: By, *, file_name: str = "") -> ReferenceList:
    """Keeps a list of references for a selection; nothing of it is applied. The same bytes again are the list that is kept.

    Refused where the selection is not asked whether it happened, and where the list can't be read as a whole.
    """
    why = why_not(Verb.HAPPENED, remaining(groups_of(selection.pk)))
    if why:
        raise Refused(why)
    targets = targets_of(selection.pk, Verb.HAPPENED)
    try:
        listed = read_list(content, headings_for(targets), identities_of(targets))
    except UnreadableList as bad:
        raise Refused(str(bad), field="list") from bad
    digest = hashlib.sha256(content).digest()
    with transaction.atomic(durable=True):
        Selection.objects.select_for_update(no_key=True).get(pk=selection.pk)
        known = ReferenceList.objects.filter(selection=selection, digest=digest).first()
        if known is not None:
            return known
        kept = ReferenceList(
            id=new_id(), team_id=selection.team_id, selection=selection, person_id=by.person_id, made_at=database_now(),
            file_name=plain_name(file_name), content=content, digest=digest, row_count=len(listed.rows),
        )  # fmt: skip
        kept.save(force_insert=True)
        facts = {"list": str(kept.pk), "selection": str(selection.pk), "digest": digest.hex()}
        facts |= {"rows": len(listed.rows), "bytes": len(content)}  # type: ignore[dict-item]
        append([Line("team", selection.team_id, "list_kept", by.actor, body(facts))])
        return kept


def plain_name(file_name: str) -> str:
    """A file's name as it is kept: one line, not endless."""
    return "".join(char for char in file_name if char.isprintable())[:FILE_NAME_LENGTH_MAX]


_READ = """
INSERT INTO ledger_readreference (of_id, line, identity, why, read_at) VALUES (%s, %s, %s, %s, now())
ON CONFLICT DO NOTHING
"""


def record_read(list_id: UUID, line: int, read: Read) -> None:
    """Keeps whose record a reference of a list is. The first reading stays; a list is kept again to be read again."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_READ, [list_id, line, read.identity, read.why])


# Applying


class ListMoved(Exception):
    """What the list would settle is not what was shown; nothing was begun."""


def begin_happened(look: Look, shown: str, reason: str, by: By, *, once: UUID) -> Begun:
    """Begins *it happened* for the holds that the list names; the others are left alone, each with its sentence.

    `shown`: the digest of what the page showed; anything else by now is ListMoved.
    """
    known = begun_before(by.person_id, once)
    if known is not None:
        return Begun(known, False)
    if look.fits:
        raise Refused(look.fits)
    if not reason.strip():
        raise Refused(
            "Write the reason: where the list is from. It is kept with each decision.", field="reason"
        )
    if look.shown != shown:
        raise ListMoved
    if not look.matching:
        raise Refused("No row of the list matches a hold, so there is nothing to apply.")
    facts = {"list": str(look.line.id), "digest": look.line.digest, "matching": len(look.matching)}
    given = {
        hold_id: {"reference": row.reference, "line": row.line, "row": row.digest}
        for hold_id, row in look.matching.items()
    }
    selection = Selection.objects.get(pk=look.line.selection_id)
    return begin(
        selection, Verb.HAPPENED, by, once=once, reason=reason, facts=facts, given=given, left=_left(look)
    )


def _left(look: Look) -> Mapping[UUID, str]:
    """A hold that changed is not left out here: its item is skipped by its version, and says so."""
    named = look.matched.by_hold
    changed = {hold_id for hold_id, one in named.items() if one.match is Match.CHANGED}
    return {hold_id: why for hold_id, why in look.left.items() if str(hold_id) not in changed}


# What the run does with each hold


def happened(batch: Batch) -> dict[UUID, Said]:
    """*It happened*, with the reference of the list's row.

    `batch.prepared`: by hold what the destination shows under its reference; None where it can't be read. A hold that is not
    in it has its turn later. What was read and is not found to be this very action is left alone, and said.
    """
    reason = text_of(batch.facts["reason"])
    ready = [one for one in batch.items if one.hold.pk in batch.prepared]
    if reason is None:
        return {one.hold.pk: Said(BulkResult.REFUSED, ERASED) for one in ready}
    why = {one.hold.pk: left_alone(batch.prepared[one.hold.pk]) if one.given else NOT_NAMED for one in ready}
    said = {hold_id: Said(BulkResult.LEFT, sentence) for hold_id, sentence in why.items() if sentence}
    going = replace(batch, items=[one for one in ready if not why[one.hold.pk]])
    return said | changes_here(going, lambda one: _answer(going, one, reason))


def left_alone(reading: Any) -> str:
    """Why a record that was read does not confirm; "" where it does, or where nothing can be read."""
    if reading is None:
        return ""
    if reading.taken_by:
        return f"Operation {reading.taken_by} holds reference {reading.reference} already."
    different = ", ".join(row.field for row in reading.rows if not row.match)
    if reading.compared and reading.ours and different:
        return f"The record {reading.reference} differs in {different}."
    return "" if reading.matches else str(reading.why)


def _answer(batch: Batch, one: AtHand, reason: str) -> Change:
    reading = batch.prepared[one.hold.pk]
    read = reading.evidence if reading is not None else None
    decision = Decision(
        answer=Answer.HAPPENED,
        reason=reason,
        version=one.hold.version,
        reference=one.given["reference"],
        compared=read.digest.hex() if read is not None else "",
    )
    facts = {"bulk": str(batch.run.pk), "list": batch.facts["list"], "line": one.given["line"]}
    extra = (_row_evidence(batch, one), *([read] if read is not None else []))
    return answer_change(one.hold, decision, batch.by, extra=extra, facts=facts)


def _row_evidence(batch: Batch, one: AtHand) -> NewEvidence:
    assert one.hold.step is not None
    name = public("lst", UUID(batch.facts["list"]))
    return NewEvidence(
        id=new_id(),
        step=one.hold.step.number,
        attempt_id=None,
        kind="list",
        origin=one.hold.destination_slug,
        says="listed",
        sentence=f"Line {one.given['line']} of list {name} names reference {one.given['reference']} for it.",
        digest=bytes.fromhex(one.given["row"]),
        facts={"list": name, "list_digest": batch.facts["digest"], "line": one.given["line"]},
    )
