"""Who decides, and what is raised where a decision is not taken: then nothing was changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opsledger.ledger.models import Hold

REASON_LENGTH_MAX = 4000


@dataclass(frozen=True, slots=True)
class By:
    """Who acts: `actor` as the journal writes it (person:…, token:…), `name` for people."""

    actor: str
    name: str
    person_id: Any = None


class Stale(Exception):
    """The decision was made on an older version; nothing was changed. Carries the row as it is now."""

    def __init__(self, hold: Hold) -> None:
        super().__init__("This hold changed while you were reading it. Nothing was changed.")
        self.hold = hold


class OperationChanged(Exception):
    """The decision was made on an older version of the operation; nothing was changed."""


class Refused(Exception):
    """The decision can't be taken as it was given; `field` names what to mend, `why` is a sentence."""

    def __init__(self, why: str, *, field: str = "") -> None:
        super().__init__(why)
        self.why, self.field = why, field


def check_length(text: str, what: str, field: str) -> None:
    """Refused when a text is longer than what is kept of it. `what`: how a sentence calls it."""
    if len(text) > REASON_LENGTH_MAX:
        raise Refused(f"{what} is longer than {REASON_LENGTH_MAX} characters; nothing was lost.", field=field)


def check_reason(reason: str, *, asked: str = "Write the reason; it is kept with the decision.") -> None:
    """Refused without a reason, in the words of `asked`, and with one that is too long; "": none is needed."""
    if asked and not reason.strip():
        raise Refused(asked, field="reason")
    check_length(reason, "The reason", "reason")
