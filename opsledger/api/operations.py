"""Operations: recorded one by one or in batches, listed, read, cancelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse

from opsledger.api.answer_shapes.operations import BatchItem
from opsledger.api.answers import (
    plain,
    record_answer,
    recorded,
    recorded_text,
    respond,
    respond_text,
    summary,
    url_of,
)
from opsledger.api.caller import Caller
from opsledger.api.problems import Problem, busy
from opsledger.api.reading import checked, invalid
from opsledger.api.routes import count_refusal
from opsledger.api.shapes.content import Content
from opsledger.api.shapes.decisions import WithReason
from opsledger.api.shapes.recording import Batch, NewOperation
from opsledger.api.versions import tagged, version_of
from opsledger.engine import bell
from opsledger.ledger.actions.deciding import OperationChanged, Refused
from opsledger.ledger.actions.intake import (
    Busy,
    NamedEvent,
    Taken,
    Verdict,
    Wanted,
    WantedContent,
    open_intended,
)
from opsledger.ledger.actions.interventions import settle_cancel
from opsledger.ledger.queries.names import find_all_named, find_named
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.operations import page_of
from opsledger.ledger.queries.record import Record, record_of
from opsledger.lib import turns
from opsledger.lib.ids import parse, public
from opsledger.lib.strict_json import dumps
from opsledger.rules.content import AuthorKind
from opsledger.rules.identity import allowed_in_path

NOT_HERE = "This team has no such operation."


def operation_id_of(caller: Caller, text: str) -> UUID:
    """The team's operation that a path names: `op_…`, or an own id of safe characters. 404 otherwise."""
    found = find_named(caller.team_id, text) if _may_name(text) else None
    if found is None:
        raise Problem("not_found", NOT_HERE)
    return found


def operation_ids_of(caller: Caller, texts: Sequence[str]) -> list[UUID]:
    """The same for many, in their order, with one query for all. 404 that says which, where the team has one not."""
    found = find_all_named(caller.team_id, {text for text in texts if _may_name(text)})
    ids = [found.get(text) for text in texts]
    if None in ids:
        which = f" It is number {ids.index(None) + 1} of {len(ids):,}." if len(ids) > 1 else ""
        raise Problem("not_found", f"{NOT_HERE}{which}")
    return [one for one in ids if one is not None]


def _may_name(text: str) -> bool:
    return parse("op", text) is not None or allowed_in_path(text)


# Recording


def create(caller: Caller, request: HttpRequest, given: NewOperation) -> HttpResponse:
    taken = _open(caller, [_wanted(given)])[0]
    if taken.verdict is Verdict.RECORDED:
        _ring()
    if taken.opened is None or taken.verdict not in _TAKEN:
        raise _problem(taken)
    new = taken.verdict is Verdict.RECORDED
    body = recorded(taken.opened, given.operation_id)
    return respond(201 if new else 200, body, {"Location": body["url"]})


def _ring() -> None:
    with turns.left():
        bell.ring()


_TAKEN = frozenset({Verdict.RECORDED, Verdict.SAME})


def _open(caller: Caller, wanted: list[Wanted]) -> list[Taken]:
    try:
        return _open_connected(caller, wanted)
    except Busy:
        raise busy() from None


def _open_connected(caller: Caller, wanted: list[Wanted]) -> list[Taken]:
    """Records, and finds out by doing so whether the connection still lives.

    Django would ask it with a round trip of its own before each request. Recording twice is recording once, so here a
    connection that has died is replaced and the same is done again, once.
    """
    connection.health_check_done = True  # type: ignore[attr-defined]
    used = None
    try:
        connection.ensure_connection()
        used = connection.connection  # also one that is made only now may die at once
        return open_intended(caller.team_id, wanted, caller.by)
    except (OperationalError, InterfaceError):
        # Leaving the transaction, Django has replaced a dead connection already; a living one failed for a reason.
        if connection.in_atomic_block or (connection.connection is used and connection.is_usable()):
            raise
        if connection.connection is used:
            connection.close()
        return open_intended(caller.team_id, wanted, caller.by)


def _wanted(given: NewOperation) -> Wanted:
    event = given.source_event
    return Wanted(
        operation_id=given.operation_id,
        workflow=given.workflow,
        params=given.params,
        owner=given.owner,
        replaces=given.replaces,
        not_after=given.not_after,
        event=NamedEvent(event.source, event.event_id) if event else None,
        content=_content(given.content),
    )


def _content(given: Content | None) -> WantedContent | None:
    if given is None:
        return None
    author = given.author
    return WantedContent(
        given.content_id,
        given.version,
        given.fields,
        AuthorKind(author.kind) if author else AuthorKind.AUTOMATION,
        author.name if author else "",
    )


def _problem(taken: Taken) -> Problem:
    """Why it was not recorded, as a problem."""
    if taken.opened is None:
        return invalid(taken.problems)
    known = {
        "id": public("op", taken.opened.id),
        "state": str(taken.opened.state),
        "url": url_of(taken.opened.id),
    }
    if taken.verdict is Verdict.REPLACED_IS_OPEN:
        return Problem("replaced_is_open", f"{taken.why} Nothing was recorded.", operation=known)
    if taken.verdict is Verdict.REPLACED_ALREADY:
        return Problem("replaced_already", f"{taken.why} Nothing was recorded.", operation=known)
    names = ", ".join(taken.opened.differs)
    return Problem(
        "operation_conflict",
        f"It was recorded with other values: {names} differ. The recorded one stands.",
        differs=list(taken.opened.differs),
        operation=known,
    )


def create_batch(caller: Caller, request: HttpRequest, given: Batch) -> HttpResponse:
    """Each item is checked by itself; those that pass are recorded together, in one transaction."""
    items: list[tuple[int, str]] = [(0, "") for _ in given.items]  # status, JSON
    good: list[tuple[int, Wanted]] = []
    for index, item in enumerate(given.items):
        try:
            good.append((index, _wanted(checked(NewOperation, item))))
        except Problem as problem:
            own = item.get("operation_id") if isinstance(item, dict) else None
            items[index] = _written(_refused_item(problem, own if isinstance(own, str) else None))
    answers = _open(caller, [wanted for _, wanted in good]) if good else []
    for (index, wanted), taken in zip(good, answers, strict=True):
        items[index] = _item(taken, wanted.operation_id)
    statuses = [status for status, _ in items]
    if 201 in statuses:
        _ring()
    refused_count = statuses.count(422)
    if refused_count:
        count_refusal("", caller, "invalid", "Items of a batch could not be taken.", times=refused_count)
    return respond_text(200, f'{{"items":[{",".join([text for _, text in items])}]}}')


def _item(taken: Taken, own: str) -> tuple[int, str]:
    if taken.opened is not None and taken.verdict in _TAKEN:
        new = taken.verdict is Verdict.RECORDED
        status = 201 if new else 200
        return status, recorded_text(taken.opened, own, status)
    item = _refused_item(_problem(taken), own)
    if taken.opened is not None:
        item |= {
            "id": public("op", taken.opened.id),
            "state": str(taken.opened.state),
            "url": url_of(taken.opened.id),
        }
    return _written(item)


def _written(item: Mapping[str, Any]) -> tuple[int, str]:
    return item["status"], dumps(item)


def _refused_item(problem: Problem, own: str | None) -> dict[str, Any]:
    body = problem.body() | {"operation_id": own}
    return {name: value for name, value in body.items() if name in BatchItem.model_fields}


# Reading


def listed(caller: Caller, request: HttpRequest) -> HttpResponse:
    asked, problems = OperationFilter.read(dict(request.GET.lists()))
    if problems:
        raise invalid(problems)
    page = page_of(caller.team_id, asked)
    return respond(200, {"items": [summary(line) for line in page.lines], "next": page.next})


def read_one(caller: Caller, request: HttpRequest, operation: str) -> HttpResponse:
    return answer_with(caller, operation_id_of(caller, operation))


def answer_with(caller: Caller, operation_id: UUID) -> HttpResponse:
    """The operation's record as it is now, and its version as ETag."""
    record = here(caller, operation_id)
    return respond(200, record_answer(record), tagged(record.version))


def here(caller: Caller, operation_id: UUID) -> Record:
    record = record_of(caller.team_id, operation_id)
    if record is None:
        raise Problem("not_found", NOT_HERE)
    return record


# Deciding


def cancel(caller: Caller, request: HttpRequest, operation: str, given: WithReason) -> HttpResponse:
    """Says what took effect, in the record that it answers with."""
    operation_id = operation_id_of(caller, operation)
    version = version_of(request)
    with on_version(caller, operation_id):
        settle_cancel(operation_id, given.reason, caller.by, version=version)
    return answer_with(caller, operation_id)


@contextmanager
def on_version(caller: Caller, operation_id: UUID) -> Iterator[None]:
    """A decision about an operation. A stale one is a 412 that shows the record as it is by now."""
    try:
        yield
    except OperationChanged:
        raise _stale(here(caller, operation_id)) from None
    except Refused as why:
        raise refused(why) from why


def _stale(record: Record) -> Problem:
    return Problem(
        "stale",
        f"The operation is at version {record.version} by now. Nothing was changed.",
        headers=tagged(record.version),
        current=plain(record_answer(record)),
    )


def refused(why: Refused) -> Problem:
    """A field to mend is a 422; a state that does not allow it is a 409."""
    if why.field:
        return invalid([(why.field, why.why)])
    return Problem("not_now", f"{why.why} Nothing was changed.")
