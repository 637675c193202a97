"""Word, shape and paragraph of every state and reason that people see: one table, so that they never drift.

`shape` names the symbol in static/icons.svg and the hue in static/css/tokens.css. The paragraphs say what is
true now and what ends it; `/states/` shows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.vocabulary.people import PEOPLE
from opsledger.console.vocabulary.protections import PROTECTIONS
from opsledger.console.vocabulary.questions import QUESTIONS
from opsledger.console.vocabulary.rows import Rows
from opsledger.console.vocabulary.runs import RUNS
from opsledger.console.vocabulary.work import WORK
from opsledger.rules.bulk import BulkResult, BulkState
from opsledger.rules.list_matching import Cover, Match
from opsledger.rules.notice_words import MailingState
from opsledger.rules.profile import ProtectionKind
from opsledger.rules.record import Step
from opsledger.rules.replay_words import ReplayState
from opsledger.rules.states import HoldReason, NoChange, OperationState, Outcome, StepState


@dataclass(frozen=True, slots=True)
class Shown:
    kind: str
    value: str
    word: str
    shape: str
    paragraph: str


KINDS = {
    "step": noop("Step"),
    "operation": noop("Operation"),
    "hold": noop("Hold, and why"),
    "outcome": noop("Outcome of an attempt"),
    "no_change": noop("No change, and how it is known"),
    "protection": noop("Protection now"),
    "protection_kind": noop("Protection, as documented"),
    "circuit": noop("Circuit of a destination"),
    "version": noop("Content version"),
    "replay": noop("Replay"),
    "item": noop("Step in a replay"),
    "bulk_run": noop("Bulk run"),
    "bulk_item": noop("Hold in a bulk run"),
    "list_row": noop("Row of a list of references"),
    "cover": noop("Hold beside a provider’s statement"),
    "token": noop("API token"),
    "person": noop("Person"),
    "mailing": noop("Message with notices"),
}

_KIND_OF_ENUM: dict[type[Enum], str] = {
    StepState: "step",
    OperationState: "operation",
    HoldReason: "hold",
    Outcome: "outcome",
    NoChange: "no_change",
    ProtectionKind: "protection_kind",
    ReplayState: "replay",
    BulkState: "bulk_run",
    BulkResult: "bulk_item",
    Match: "list_row",
    Cover: "cover",
    MailingState: "mailing",
}

_ROWS: Rows = {**WORK, **QUESTIONS, **PROTECTIONS, **RUNS, **PEOPLE}

TABLE: dict[tuple[str, str], Shown] = {
    (kind, row[0]): Shown(kind, *row) for kind, rows in _ROWS.items() for row in rows
}


@lru_cache(maxsize=16)
def _said(language: str | None) -> Mapping[tuple[str, str], Shown]:
    """The table in one language, made once for each process: every row of a list asks for it."""
    return {key: replace(row, word=_(row.word), paragraph=_(row.paragraph)) for key, row in TABLE.items()}


def rows_of(kind: str) -> list[Shown]:
    return [row for row in _said(get_language()).values() if row.kind == kind]


def shown(state: object, kind: str = "") -> Shown:
    """The row of a state. A member of an enumeration names its own kind; text is looked for in KINDS' order.

    A value that no row knows is shown as it is, with the shape of doubt: never hidden, never an error.
    """
    value = str(state.value if isinstance(state, Enum) else state)
    kind = kind or _KIND_OF_ENUM.get(type(state), "") if isinstance(state, Enum) else kind
    table = _said(get_language())
    for candidate in [kind] if kind else KINDS:
        found = table.get((candidate, value))
        if found is not None:
            return found
    return Shown(kind, value, value.replace("_", " ").capitalize() or _("No state"), "unknown", "")


def step_word(step: Step) -> str:
    """The state’s word; failures after a destination took the work over are told apart."""
    return _("Failed (not delivered)") if step.undelivered else shown(step.state).word
