"""Evidence from outside an attempt: delivery reports, found records, what was seen; said by automations or by events.

The rules judge it (rules.md, tables 5 and 6). What is told twice changes nothing twice.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import Func, QuerySet, TextField

from opsledger.ledger import definitions
from opsledger.ledger.actions.change import Change, Changed, change_here
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.early_reports import (
    Named,
    NewlyNamed,
    NewReport,
    keep_here,
    lock_here,
    remove_here,
    told_before,
)
from opsledger.ledger.actions.record import Looked, record_looks
from opsledger.ledger.actions.references import once_more, taken_by_other
from opsledger.ledger.actions.report import (
    Reported,
    journaled,
    kept_evidence,
    reported,
    step_row,
)
from opsledger.ledger.models import Attempt, Step, StepRequest
from opsledger.ledger.models.operations import REFERENCE_START, REFERENCE_START_LENGTH
from opsledger.ledger.records import Loaded, lock
from opsledger.ledger.rendering import identity_of
from opsledger.lib.ids import parse, public
from opsledger.lib.recent import Recent
from opsledger.rules import transitions
from opsledger.rules.definitions import ActionDefinition
from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from opsledger.rules.learning import Finding
from opsledger.rules.matching import sent_fields
from opsledger.rules.reading import can_be_kept
from opsledger.rules.record import KnownBy, Operation, Performer
from opsledger.rules.settling import Moment
from opsledger.rules.states import NoChange, Outcome

log = logging.getLogger(__name__)


class Says(StrEnum):
    DELIVERED = "delivered"  # the final effect of something accepted
    NOT_DELIVERED = "not_delivered"
    FOUND = "found"  # a record at the destination, which the rules judge like a lookup's answer
    SEEN = "seen"  # kept for people; decides nothing


@dataclass(frozen=True, slots=True)
class Statement:
    says: Says
    how: str
    reference: str | None = None
    identity: str | None = None  # of a found record: what it carries of ours
    fields: Mapping[str, str] = field(default_factory=dict)  # of a found record, as text by dotted path
    reply: str = ""
    occurred_at: datetime | None = None


FINAL = frozenset({Says.DELIVERED, Says.NOT_DELIVERED})


def add_evidence(team_id: UUID, operation_id: UUID, step_name: str, statement: Statement, by: By) -> Reported:
    """A delivery report, a found record, or something seen, about a step. The same again changes nothing.

    Refused when something is missing in it, and where it would prove nothing: then the right call is named.
    """
    if not statement.how.strip():
        raise Refused("Say how it is known.", field="how")
    if statement.says is Says.FOUND:
        return _add_found(team_id, operation_id, step_name, statement, by)
    return once_more(lambda: _add_evidence(team_id, operation_id, step_name, statement, by))


def _add_found(team_id: UUID, operation_id: UUID, step_name: str, statement: Statement, by: By) -> Reported:
    """Judged like a lookup's answer: by table 5 while the step is unknown or accepted, else compared with what stands.

    It confirms only with this step's identity and equal decisive fields; where nobody knows what was sent, its identity
    alone is a question. What was never sent can't have made a record.
    """
    if not statement.reference:
        raise Refused("A found record needs its reference.", field="reference")
    with transaction.atomic(durable=True):
        lock([operation_id])
        row = step_row(team_id, operation_id, step_name)
        evidence, known = kept_evidence(operation_id, row, by, _statement_facts(statement))
        body = _body_sent(row)
    if known or not row.attempt_count:
        seen = replace(statement, says=Says.SEEN)  # kept, and decides nothing
        return _add_evidence(team_id, operation_id, step_name, seen, by)
    fields = tuple(sorted(statement.fields.items()))
    found = FoundRecord(statement.reference, statement.identity, fields)
    profile = definitions.destination(row.destination_version_id).actions[row.action].profile
    looked = Looked(
        operation_id=operation_id,
        step_number=row.number,
        destination_id=row.destination_id,
        identity=identity_of(row.identity, operation_id, row.number),
        request_fields=sent_fields(body, profile.lookup),
        fact=LookupFact(LookupStatus.RECORDS, (found,), complete=False),
        evidence=evidence,
        actor=by.actor,
        known_by=KnownBy.REPORT,
        planned=False,
    )
    record_looks([looked])
    return reported(operation_id, row)


def _body_sent(row: Step) -> bytes | None:
    """Of the request that left last; one that waits to be sent has made no record. None where nobody knows its bytes."""
    left = Attempt.objects.filter(step_id=row.pk).exclude(no_change=NoChange.NOT_SENT)
    last = left.order_by("-revision").values_list("revision", flat=True).first()
    request = StepRequest.objects.filter(step_id=row.pk, revision=last or row.revision).first()
    return bytes(request.body) if request is not None else None


def _add_evidence(
    team_id: UUID, operation_id: UUID, step_name: str, statement: Statement, by: By
) -> Reported:
    with transaction.atomic(durable=True):
        lock([operation_id])
        row = step_row(team_id, operation_id, step_name)
        try:
            return _add_evidence_here(row, statement, by)
        except transitions.ProvesNothing as why:
            raise _refused(row, statement, why.lacking) from why


def _refused(row: Step, statement: Statement, lacking: transitions.Lacking) -> Refused:
    """What to call instead: a record is told of as found, an attempt's end by whoever made it."""
    instead = "Tell of its record with `found`, of which it is read whether it is this step's"
    if row.performer == Performer.AUTOMATION:
        instead += ", or report the attempt's outcome (`POST /attempts/{attempt}/outcome`)"
    if lacking is transitions.Lacking.FINAL_EFFECT:
        known = f"{row.destination_slug} documents no final effect of {row.action}"
        return Refused(f"{known}, so `{statement.says}` proves nothing here. {instead}.", field="says")
    known = f"{row.destination_slug} answers {row.action} with a reference, and that is not known yet"
    return Refused(f"{known}: give it with `{statement.says}`. {instead}.", field="reference")


def _add_evidence_here(row: Step, statement: Statement, by: By) -> Reported:
    """ProvesNothing where the rules take nothing from it."""
    repeated = _added_here(row, statement, by) is None
    return reported(row.operation_id, row, repeated=repeated)


def _added_here(
    row: Step, statement: Statement, by: By, *, identified: bool = False, keeps: bool = False
) -> Changed | None:
    """What a statement makes of its step; None when it was added before.

    ProvesNothing where the rules take nothing from it; with `keeps` it is kept all the same, and decides nothing.
    `identified`: it carries the step's identity.
    """
    evidence, known = kept_evidence(row.operation_id, row, by, _statement_facts(statement))
    if known:
        return None
    taken_by = taken_by_other(row, statement.reference)
    finding = _finding(statement, taken_by, identified) if statement.says in FINAL else None

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        step = loaded.record.step(row.number)
        if finding is None:
            return loaded.record.copy()
        same = not (statement.reference and step.reference) or statement.reference == step.reference
        try:
            return transitions.reported(loaded.record, row.number, finding, final=same, moment=moment)
        except transitions.ProvesNothing:
            if not keeps:
                raise
            return loaded.record.copy()

    one = Change(
        kind="evidence_added",
        actor=by.actor,
        decide=decide,
        facts=journaled(evidence, row),
        evidence=(evidence,),
    )
    return change_here({row.operation_id: one})[row.operation_id]


def _finding(statement: Statement, taken_by: str | None, identified: bool) -> Finding:
    happened = statement.says is Says.DELIVERED
    return Finding(
        outcome=Outcome.CONFIRMED if happened else Outcome.NO_CHANGE,
        known_by=KnownBy.REPORT,
        no_change=None if happened else NoChange.REJECTED,
        reference=statement.reference,
        taken_by=taken_by,
        identified=identified,
    )


def _statement_facts(statement: Statement) -> dict[str, Any]:
    return {
        "says": statement.says.value,
        "reference": statement.reference,
        "identity": statement.identity,
        "fields": dict(statement.fields) or None,
        "how": statement.how,
        "reply": statement.reply or None,
        "occurred_at": statement.occurred_at and statement.occurred_at.isoformat(),
    }


# Events that tell the final effect of a step (a destination's `report`)


@dataclass(frozen=True, slots=True)
class ReportingAction:
    """An action whose final effect a source's events tell. Where its profile documents none, there is nothing to tell."""

    destination_id: UUID
    action: str
    definition: ActionDefinition


def record_event_report_here(
    team_id: UUID, source: str, event_id: UUID, body: Mapping[str, Any], occurred_at: datetime | None
) -> int:
    """What an event says of the final effect of steps, inside the caller's transaction. Returns how many steps it told of.

    1. The step is found by its identity, else by its reference; an event that names none of ours, or a record that several
       share, or says a word that the destination's definition does not list, tells nothing.
    2. A reference that no step has yet is kept with what is told of it: whoever records the reference reads it.
    3. The steps are locked all at once, and what is told is kept as their evidence. Where that breaks, the event is kept all
       the same: an operation that can't be read is no reason to lose what its source tells.
    """
    telling = [
        (one, says)
        for one in _reporting.get((team_id, source))
        if (says := _final_word(one.definition, body)) is not None
    ]
    if not telling:
        return 0
    try:
        with transaction.atomic():
            return _heard(team_id, source, event_id, telling, body, occurred_at)
    except (OperationalError, InterfaceError, IntegrityError):
        raise  # all of it is done again
    except Exception:
        log.exception("what event %s tells of a step could not be recorded; the event is kept", event_id)
        return 0


def _heard(
    team_id: UUID,
    source: str,
    event_id: UUID,
    telling: Collection[tuple[ReportingAction, Says]],
    body: Mapping[str, Any],
    occurred_at: datetime | None,
) -> int:
    told: list[tuple[Step, Statement, bool]] = []
    early: list[tuple[Named, Statement]] = []
    for reporting, says in telling:
        report = reporting.definition.report
        assert report is not None
        row, identified = _step_told_of(team_id, reporting, body), _at(body, report.identity) is not None
        reference = _reference_at(body, report.reference)
        statement = _told_by(event_id, source, says, reference, occurred_at)
        if row is not None:
            told.append((row, statement, identified))
        elif reference and not identified:
            early.append((Named(reporting.destination_id, reporting.action, reference), statement))
    told += [(row, statement, False) for row, statement in _keep_early(team_id, event_id, early)]
    lock(row.operation_id for row, *_ in told)  # all at once, in the order of their ids
    for row, statement, identified in told:
        _added_here(row, statement, By(f"source:{source}", source), identified=identified, keeps=True)
    return len(told)


def _told_by(
    event_id: UUID, source: str, says: Says, reference: str | None, occurred_at: datetime | None
) -> Statement:
    """The same whenever it is heard, so that it is one piece of evidence."""
    how = f"event {public('evt', event_id)} of {source}"
    return Statement(says=says, how=how, reference=reference, occurred_at=occurred_at)


def _keep_early(
    team_id: UUID, event_id: UUID, early: list[tuple[Named, Statement]]
) -> list[tuple[Step, Statement]]:
    """Keeps what names nobody. Returns what has found its step meanwhile: its reference was being recorded."""
    if not early:
        return []
    lock_here(named for named, _ in early)
    found, kept = [], []
    for named, statement in early:
        steps = _steps_of(team_id, named.destination_id, named.action)
        rows = list(_named(steps, named.reference)[:2])
        if len(rows) == 1:
            found.append((rows[0], statement))
        elif not rows:
            says, occurred_at = statement.says.value, statement.occurred_at
            kept.append(NewReport(team_id, event_id, named, says, occurred_at))
    keep_here(kept)
    return found


def hear_early_reports_here(newly: Collection[NewlyNamed]) -> dict[UUID, Operation]:
    """What was told of these steps' records before it was known whose they are, inside the transaction that records it.

    Returns the records that it changed, by operation. The operations are locked by the caller.
    """
    lock_here(one.named for one in newly)
    told = told_before(newly)
    rows = Step.objects.in_bulk({one.step_id for one in told})
    changed: dict[UUID, Operation] = {}
    for one in told:
        row = rows[one.step_id]
        if len(_named(_steps_of(row.team_id, row.destination_id, row.action), one.reference)[:2]) != 1:
            continue  # of a record that steps share nobody knows which of them is told of
        statement = _told_by(one.event_id, one.source, Says(one.says), one.reference, one.occurred_at)
        added = _added_here(row, statement, By(f"source:{one.source}", one.source), keeps=True)
        remove_here([one.id])
        if added is not None:
            changed[row.operation_id] = added.after
    return changed


def _final_word(action: ActionDefinition, body: Mapping[str, Any]) -> Says | None:
    if action.status is None:
        return None
    word = _at(body, action.status.field)
    if word in action.status.confirmed:
        return Says.DELIVERED
    return Says.NOT_DELIVERED if word in action.status.failed else None


def _step_told_of(team_id: UUID, reporting: ReportingAction, body: Mapping[str, Any]) -> Step | None:
    report = reporting.definition.report
    assert report is not None
    steps = _steps_of(team_id, reporting.destination_id, reporting.action)
    identity, reference = _at(body, report.identity), _reference_at(body, report.reference)
    if identity is not None and not can_be_kept(identity):
        return None  # none of ours is like this
    if identity is not None:
        return steps.filter(identity=identity).first() or _step_from_before(steps, identity)
    # of a record that steps share nobody knows which of them is told of
    named = list(_named(steps, reference)[:2]) if reference else []
    return named[0] if len(named) == 1 else None


def _steps_of(team_id: UUID, destination_id: UUID, action: str) -> QuerySet[Step]:
    """Those that something was tried for."""
    return Step.objects.filter(
        team_id=team_id, destination_id=destination_id, action=action, attempt_count__gt=0
    )


def _named(steps: QuerySet[Step], reference: str) -> QuerySet[Step]:
    start = Func("reference", template=REFERENCE_START, output_field=TextField())
    return steps.alias(start=start).filter(start=reference[:REFERENCE_START_LENGTH], reference=reference)


def _step_from_before(steps: QuerySet[Step], identity: str) -> Step | None:
    """A step whose identity is not stored (rendering.identity_of)."""
    operation, _, number = identity.rpartition("-")
    found = parse("op", operation)
    if found is None or not (number.isascii() and number.isdigit() and len(number) < 4):
        return None
    return steps.filter(operation_id=found, number=int(number), identity__isnull=True).first()


def _reference_at(body: Mapping[str, Any], path: str) -> str | None:
    found = _at(body, path)
    return found if found is not None and can_be_kept(found) else None


def _at(body: Mapping[str, Any], path: str) -> str | None:
    """The text at a dotted path; a number by its digits, nothing for everything else."""
    found: Any = body
    for name in path.split(".") if path else ():
        if isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, Mapping) and name in found:
            found = found[name]
        else:
            return None
    is_text = isinstance(found, str | int | Decimal) and not isinstance(found, bool)
    return str(found) if path and is_text else None


def _find_reporting(key: tuple[UUID, str]) -> tuple[ReportingAction, ...]:
    team_id, source = key
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, current_id FROM ledger_definition"
            " WHERE team_id = %s AND kind = 'destination' AND current_id IS NOT NULL ORDER BY slug",
            [team_id],
        )
        rows = cursor.fetchall()
    return tuple(
        ReportingAction(definition_id, name, action)
        for definition_id, version_id in rows
        for name, action in sorted(definitions.destination(version_id).actions.items())
        if action.report is not None and action.report.source == source and action.profile.final_effect
    )


_reporting: Recent[tuple[UUID, str], tuple[ReportingAction, ...]] = Recent(_find_reporting, keep_seconds=2.0)


def forget_reporting() -> None:
    """For tests, whose definitions come and go."""
    _reporting.forget()
