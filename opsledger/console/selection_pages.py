"""Selections and bulk runs as pages need them: rows, counts and words, made before a template sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID, uuid4

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.utils.translation import ngettext

from opsledger.accounts.models import Team
from opsledger.accounts.permissions import Role, allowed
from opsledger.console.addresses import address
from opsledger.console.permissions import why_not
from opsledger.console.vocabulary import rows_of
from opsledger.ledger.actions.bulk import PERMISSIONS
from opsledger.ledger.queries.bulk import OPEN, ChosenLine, Group, ItemLine, RunLine, remaining
from opsledger.lib import ids
from opsledger.lib.csv_lines import Cell
from opsledger.rules.bulk import BulkResult, BulkState, Verb
from opsledger.rules.bulk_verbs import Chosen, fits

WORDS: Mapping[Verb, str] = {
    Verb.TAKE: noop("Take"),
    Verb.ASSIGN: noop("Assign"),
    Verb.CHECK_NOW: noop("Check now"),
    Verb.NEXT_CHECK: noop("Next check"),
    Verb.NOTE: noop("Note"),
    Verb.END_FAILED: noop("End as failed"),
    Verb.PLAN_REPLAY: noop("Plan a replay"),
    Verb.HAPPENED: noop("It happened"),
    Verb.ABSENT: noop("It did not happen"),
    Verb.CANCEL: noop("End those chosen"),
}
SAYS: Mapping[Verb, str] = {
    Verb.TAKE: noop("You become the owner of each."),
    Verb.ASSIGN: noop("Each gets this owner."),
    Verb.CHECK_NOW: noop("Each destination is asked now. Reads only; nothing is sent."),
    Verb.NEXT_CHECK: noop("Each stays open as still unknown, and is due then. Nothing is sent."),
    Verb.NOTE: noop("The same note on each. It changes no state."),
    Verb.END_FAILED: noop("Each ends as failed, proven without effect. Nothing is sent again."),
    Verb.HAPPENED: noop(
        "By the destination’s own list: what it names by identity is shown first, then confirmed."
    ),
    Verb.ABSENT: noop(
        "By the provider’s statement: what it covers is shown first, then goes into a replay’s plan."
    ),
    Verb.PLAN_REPLAY: noop("Shows first what would run. Planning writes and sends nothing."),
    Verb.CANCEL: noop("Each operation is cancelled where its step waits; one that moved since is skipped."),
}
# Those with a form or a way on the selection's page, in its order.
SHOWN = (
    Verb.TAKE,
    Verb.ASSIGN,
    Verb.CHECK_NOW,
    Verb.NEXT_CHECK,
    Verb.NOTE,
    Verb.HAPPENED,
    Verb.ABSENT,
    Verb.END_FAILED,
    Verb.PLAN_REPLAY,
)
SHOWN_OF_STEPS = (Verb.CANCEL,)
ALL_MOVED = noop("Every hold of this selection was closed or changed since it was made. Select again.")


# A selection


def offers(groups: Collection[Group], roles: Collection[Role], team: Team) -> list[dict[str, Any]]:
    """Each shown verb: a form where it fits what is left of the selection and this person, else one line why it does not."""
    chosen = remaining(groups)
    shown = SHOWN_OF_STEPS if of_steps(groups) else SHOWN
    return [
        {
            "verb": one.verb,
            "word": _(WORDS[one.verb]),
            "says": _(SAYS.get(one.verb, "")),
            "why": one.why if chosen else _(ALL_MOVED),
            "once": str(uuid4()),
            "template": f"selections/verbs/_{one.verb.value}.html",
        }
        for one in fits(chosen, refused(roles, team))
        if one.verb in shown
    ]


def of_steps(groups: Iterable[Group]) -> bool:
    """Whether a selection holds steps that wait, not holds."""
    return any(group.chosen.reason is None for group in groups)


def refused(roles: Collection[Role], team: Team) -> dict[Verb, str]:
    """Why this person may not use a verb in this team."""
    asked = {permission for permission in PERMISSIONS.values() if not allowed(roles, permission)}
    said = {permission: why_not(roles, permission, team) for permission in asked}
    return {verb: said[permission] for verb, permission in PERMISSIONS.items() if permission in said}


def why_not_verb(verb: Verb, groups: Iterable[Group], roles: Collection[Role], team: Team) -> str:
    """Why a verb can't be used on what is left of a selection; "" = it can."""
    chosen: list[Chosen] = remaining(groups)
    if not chosen:
        return _(ALL_MOVED)
    return next(one.why for one in fits(chosen, refused(roles, team)) if one.verb is verb)


def chosen_row(line: ChosenLine) -> dict[str, Any]:
    return {
        "line": line,
        "title": line.title or line.destination_slug,
        "url": hold_url(line.operation_id, line.hold_id),
        "what": _("Closed since.") if line.closed else _("Changed since.") if line.moved else "",
    }


def hold_url(operation_id: UUID | None, hold_id: UUID | None) -> str:
    """Where a hold is answered; of a step that waits without one, its operation."""
    if hold_id is None:
        assert operation_id is not None
        return address("operation", ids.public("op", operation_id))
    hold = ids.public("hold", hold_id)
    if operation_id is None:
        return address("hold", hold)
    return f"{address('operation', ids.public('op', operation_id))}?hold={hold}#decide"


# Runs


def run_row(line: RunLine) -> dict[str, Any]:
    return {
        "line": line,
        "url": address("bulk_run", ids.public("run", line.id)),
        "word": _(WORDS[line.verb]),
        "counts": counts_of(line),
    }


def counts_of(line: RunLine) -> list[tuple[str, str, int]]:
    """Result, its word and how many; those that are still to come last. Only what there is."""
    counts = {result.value: count for result, count in line.counts.items()} | {OPEN: line.open_count}
    return [(row.value, row.word, counts[row.value]) for row in rows_of("bulk_item") if counts[row.value]]


def progress_context(line: RunLine) -> dict[str, Any]:
    """What the polled part shows; it stops when the run has ended."""
    return {
        "line": line,
        "public": ids.public("run", line.id),
        "is_open": line.state is BulkState.RUNNING,
        "of_steps": line.verb is Verb.CANCEL,
        "counts": counts_of(line),
    }


def item_row(item: ItemLine) -> dict[str, Any]:
    return {
        "title": item.title or item.destination_slug,
        "text_id": item.operation_text_id,
        "destination": item.destination_slug,
        "reason": item.reason,
        "url": hold_url(item.operation_id, item.hold_id),
        "word": (item.result or OPEN),
        "why": item.why,
        "said_at": item.said_at,
    }


_DONE: Mapping[Verb, tuple[str, str]] = {
    Verb.TAKE: (noop("One is yours now."), noop("%(count)s are yours now.")),
    Verb.ASSIGN: (noop("One was assigned."), noop("%(count)s were assigned.")),
    Verb.CHECK_NOW: (noop("One lookup is due now."), noop("%(count)s lookups are due now.")),
    Verb.NEXT_CHECK: (noop("One stays open until then."), noop("%(count)s stay open until then.")),
    Verb.NOTE: (noop("One note was written."), noop("%(count)s notes were written.")),
    Verb.END_FAILED: (noop("One was ended as failed."), noop("%(count)s were ended as failed.")),
    Verb.CANCEL: (noop("One operation was ended."), noop("%(count)s operations were ended.")),
    Verb.HAPPENED: (noop("One is settled as happened."), noop("%(count)s are settled as happened.")),
}


def summary(line: RunLine, *, owner: str | None = None) -> str:
    """One line of what became of a run so far. `owner`: who has them now, where that was the verb."""
    counts, said = line.counts, []
    if done := counts[BulkResult.DONE]:
        said.append(
            _given(done, owner) if owner is not None else ngettext(*_DONE[line.verb], done) % {"count": done}
        )
    for result, words in _OTHERS.items():
        if count := counts[result]:
            said.append(_(words) % {"count": count})
    if line.open_count:
        words = ngettext(
            "One is still to come; a worker goes on with it.",
            "%(count)s are still to come; a worker goes on with them.",
            line.open_count,
        )
        said.append(words % {"count": line.open_count})
    return " ".join(said)


def _given(count: int, owner: str) -> str:
    if not owner:
        return ngettext("One hold is unowned now.", "%(count)s holds are unowned now.", count) % {
            "count": count
        }
    said = ngettext("One hold is %(name)s’s now.", "%(count)s holds are %(name)s’s now.", count)
    return said % {"count": count, "name": owner}


_OTHERS: Mapping[BulkResult, str] = {
    BulkResult.SKIPPED: noop("%(count)s skipped: changed since you looked."),
    BulkResult.REFUSED: noop("%(count)s refused."),
    BulkResult.LEFT: noop("%(count)s left alone."),
}

HEADER = (
    "position",
    "hold",
    "reason",
    "title",
    "operation_id",
    "operation",
    "destination",
    "result",
    "why",
    "at",
)


def cells(items: Iterable[ItemLine]) -> Iterator[list[Cell]]:
    for item in items:
        yield [
            item.position, ids.public("hold", item.hold_id) if item.hold_id else "",
            item.reason.value if item.reason else "", item.title, item.operation_text_id,
            ids.public("op", item.operation_id) if item.operation_id else "", item.destination_slug,
            item.result.value if item.result else "", item.why, item.said_at,
        ]  # fmt: skip
