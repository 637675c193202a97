"""A call of the API as data: address, permission, shapes, answers. Addresses and the OpenAPI document follow from it.

One call is one plain view. What is common to all of them is in `answered`: who calls, whether they may, what they sent,
and what is said when it can't be done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from pydantic import BaseModel

from opsledger.accounts.permissions import Permission
from opsledger.api.caller import Caller, caller_of
from opsledger.api.long_bodies import in_turn
from opsledger.api.problems import Problem, respond
from opsledger.api.reading import check_query, read, read_if_any
from opsledger.api.shapes.work import Nothing
from opsledger.ledger.actions.events import record_refusal

log = logging.getLogger(__name__)

View = Callable[..., HttpResponse]


@dataclass(frozen=True, slots=True)
class Reply:
    """A status that a call answers, and with what."""

    status: int
    words: str
    shape: type[BaseModel] | None = None  # None: a problem, or no body


@dataclass(frozen=True, slots=True)
class Query:
    """A field of the query string."""

    name: str
    words: str
    kind: str = "string"
    many: bool = False  # may be said more than once
    required: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str  # below /api/v1, with {names}
    name: str
    summary: str
    words: str
    view: View
    replies: Sequence[Reply]
    permission: Permission | None = None  # None: it depends on what is sent; `permissions_words` says how
    permission_words: str = ""
    shape: type[BaseModel] | None = None
    query: Sequence[Query] = ()
    versioned: bool = False  # takes If-Match
    intake: bool = False  # refusals are counted
    example: Mapping[str, Any] = field(default_factory=dict)
    tag: str = ""


def addressed(calls: Sequence[Call]) -> View:
    """The view of one address: its calls by method. Tokens only, so there is nothing that CSRF could forge."""
    by_method = {call.method: call for call in calls}
    allowed = ", ".join(sorted(by_method))

    def view(request: HttpRequest, **place: str) -> HttpResponse:
        call = by_method.get(request.method or "")
        if call is None:
            return respond(Problem("method", f"Send {allowed}.", headers={"Allow": allowed}))
        return answered(call, request, place)

    exempt: View = csrf_exempt(view)
    return exempt


def answered(call: Call, request: HttpRequest, place: Mapping[str, str]) -> HttpResponse:
    """1. The token. 2. Whether it may. 3. Query and body, checked. 4. The call's own view. Problems end it anywhere."""
    caller: Caller | None = None
    try:
        caller = caller_of(request)
        if call.permission is not None:
            caller.require(call.permission)
        with in_turn(request) if call.intake else nullcontext():
            check_query(request, {one.name: one.many for one in call.query})
            given = {"given": read(request, call.shape)} if call.shape else {}
            if call.shape is None and call.method == "POST":
                read_if_any(request, Nothing)
            return call.view(caller, request, **place, **given)
    except Problem as problem:
        if problem.code == "not_signed_in" or (call.intake and problem.kind.status in _COUNTED):
            count_refusal("", caller, problem.more.get("reason", problem.code), problem.kind.title)
        return respond(problem)


_COUNTED = frozenset({400, 413, 415, 422})


def count_refusal(source: str, caller: Caller | None, reason: str, sentence: str, *, times: int = 1) -> None:
    """Counted for operators to see. That a refusal could not be counted changes nothing about the refusal."""
    try:
        record_refusal(source, caller.team_id if caller else None, reason, sentence, times=times)
    except DatabaseError as why:
        log.warning("a refusal was not counted: %s", type(why).__name__)
