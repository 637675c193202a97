"""What somebody asks to have recorded, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from opsledger.ledger.actions.opened import Opened
from opsledger.rules.building import Problem
from opsledger.rules.content import AuthorKind


@dataclass(frozen=True, slots=True)
class NamedEvent:
    """An event by the name that its source gave it."""

    source: str  # slug
    event_id: str


@dataclass(frozen=True, slots=True)
class WantedContent:
    """Names a version of a content, or brings the fields of one."""

    content_id: str
    version: int | None = None
    fields: Mapping[str, Any] | None = None
    author_kind: AuthorKind = AuthorKind.AUTOMATION
    author: str = ""


class Wanted(NamedTuple):
    """What somebody asks to have recorded, as it was read. Nothing of it is checked yet."""

    operation_id: str
    workflow: str
    params: Mapping[str, Any]
    owner: str | None = None  # a sign-in name
    replaces: str | None = None  # `op_…` or an own id
    not_after: datetime | None = None
    event: NamedEvent | None = None  # named by an automation
    event_id: UUID | None = None  # of an event that is in the ledger already
    content: WantedContent | None = None


class Verdict(StrEnum):
    RECORDED = "recorded"
    SAME = "same"  # the same one again
    CONFLICT = "conflict"  # the id is taken by another action
    REPLACED_IS_OPEN = "replaced_is_open"
    REPLACED_ALREADY = "replaced_already"  # by another operation, which `opened` names
    REFUSED = "refused"


class Taken(NamedTuple):
    """What became of one wanted operation. `problems` are (field, message), for a refusal."""

    verdict: Verdict
    opened: Opened | None = None
    problems: tuple[Problem, ...] = ()
    why: str = ""


def refused(*problems: Problem) -> Taken:
    return Taken(Verdict.REFUSED, problems=problems)


class Moved(Exception):
    """What was read has changed before anything that follows from it was written: roll back, and begin again."""


class Busy(Exception):
    """Others were at the same rows, again and again. Nothing was recorded; the same may be sent again."""
