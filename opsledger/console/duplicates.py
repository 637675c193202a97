"""Several records of one action, as the decision panel shows them: each with its fields, its attempt, and what uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from opsledger.console.wording.phrases import listed
from opsledger.ledger.definitions import reference_key
from opsledger.ledger.queries.comparison import Row, findings, rows_in, texts_in
from opsledger.ledger.queries.dependents import Dependents, Use, dependents_of
from opsledger.ledger.queries.page import HoldView, OperationView, StepView
from opsledger.ledger.queries.timeline import Told
from opsledger.lib import ids
from opsledger.rules.rendering import record_page

OTHERS = "others"  # before the names of the fields that say what was done with a record


@dataclass(frozen=True, slots=True)
class UseLine:
    """One step that names a record."""

    op: str
    operation: str
    step: str
    same_operation: bool
    says: str


@dataclass(frozen=True, slots=True)
class FoundRecord:
    reference: str
    field: str  # name of the field that says what was done with it
    url: str  # the destination's own page of it
    made_by: str  # a sentence
    rows: tuple[Row, ...]
    uses: list[UseLine]
    done: str = ""  # as it was typed
    error: str = ""


@dataclass(frozen=True, slots=True)
class Duplicates:
    records: list[FoundRecord]
    searched: str  # a sentence: what was read, and what was not


def field_of(reference: str) -> str:
    """A field's name for a reference, which may hold any character."""
    return f"{OTHERS}.{reference_key(reference)}"


def duplicates_of(
    view: OperationView, hold: HoldView, typed: Mapping[str, str], errors: Mapping[str, str]
) -> Duplicates | None:
    """None where the hold is not about several records."""
    references = findings(hold.record.facts).duplicates
    if not references:
        return None
    step = view.step(hold.record.step)
    found = dependents_of(view.record.team_id, view.record.id, hold.record.step, references)
    compared = rows_by_reference(hold.record.facts)
    records = [
        FoundRecord(
            reference=reference,
            field=field_of(reference),
            url=record_page(step.destination, reference=reference) if step.destination.record_url else "",
            made_by=_made_by(step, reference),
            rows=compared.get(reference, ()),
            uses=[_line(use) for use in found.uses[reference]],
            done=typed.get(field_of(reference), ""),
            error=errors.get(f"{OTHERS}.{reference}", ""),
        )
        for reference in references
    ]
    return Duplicates(records, _searched(found))


def others_told(post: QueryDict, references: tuple[str, ...]) -> dict[str, str]:
    """What was written of each record, by reference; line ends made plain."""
    given = {one: post.get(field_of(one), "").replace("\r\n", "\n") for one in references}
    return {one: text for one, text in given.items() if text.strip()}


def rows_by_reference(facts: Mapping[str, Any]) -> dict[str, tuple[Row, ...]]:
    """The decisive fields of each record, as the lookup that found them compared them."""
    found = facts.get("records")
    return {
        str(one.get("reference")): rows_in(one)
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, Mapping)
    }


def _made_by(step: StepView, reference: str) -> str:
    numbers = [str(one.number) for one in step.record.attempts if one.reference == reference]
    if numbers:
        said = ngettext("Named by attempt %(numbers)s.", "Named by attempts %(numbers)s.", len(numbers))
        return said % {"numbers": listed(numbers)}
    if len(step.record.attempts) == 1:
        return _("It carries this action’s identity. Only one attempt was made of it.")
    return _("It carries this action’s identity; which attempt made it is not known.")


def _line(use: Use) -> UseLine:
    if use.holds_it:
        says = _("the record is its own reference")
    elif use.sent:
        says = _("sent with this reference")
    elif use.same_operation:
        says = _("not sent: its request is made anew with the record that is kept")
    else:
        says = _("not sent yet, and keeps its request")
    return UseLine(
        ids.public("op", use.operation_id), use.own_id, f"{use.number}: {use.title}", use.same_operation, says
    )


def _searched(found: Dependents) -> str:
    if not found.operations_read:
        said = _("Searched: the later steps of this operation; none of the team was recorded after it.")
    else:
        said = ngettext(
            "Searched: the later steps of this operation, and the requests of the one operation recorded after it.",
            "Searched: the later steps of this operation, and the requests of the %(count)s operations recorded after it.",
            found.operations_read,
        ) % {"count": found.operations_read}
    if found.more_exist:
        said += " " + _("Newer ones were not read.")
    said += " " + _("Steps that hold a record as their reference were found whenever they were recorded.")
    return f"{said} {_('Uses outside of OpsLedger are not known here.')}"


# What was said of them afterwards


def extra_records(view: OperationView, entry: Told) -> list[tuple[str, str]]:
    """References and digests of the records that an answer left aside; a reference that is not on file any more is ""."""
    known = {
        reference_key(reference): reference
        for hold in view.record.holds
        for reference in texts_in(hold.facts, "references")
    }
    return [(known.get(str(digest), ""), str(digest)) for digest in entry.body.get("extra_records", [])]
