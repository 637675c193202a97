"""Replays: planned, started by the plan's digest, read, paused, resumed, aborted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from opsledger.api.answers import plain, respond
from opsledger.api.caller import Caller
from opsledger.api.operations import operation_ids_of, refused
from opsledger.api.problems import Problem
from opsledger.api.reading import invalid
from opsledger.api.shapes.decisions import WithReason
from opsledger.api.shapes.replays import ReplayPlan, ReplayScope, ReplayStart
from opsledger.api.versions import tagged, version_of
from opsledger.engine import bell
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.replays import (
    PlanMoved,
    ReplayMoved,
    Start,
    open_replay,
    settle_abort_replay,
    settle_pause_replay,
    settle_resume_replay,
)
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Replay
from opsledger.ledger.queries import replays
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.replay_plans import (
    EmptyScope,
    Scope,
    ScopeTooLarge,
    UnknownOperations,
    plan,
    scope_of_filter,
    scope_of_ids,
)
from opsledger.ledger.queries.replays import WORDS, DestinationPace, ItemLine, ReplayLine
from opsledger.ledger.replay_plan import Plan, PlanItem, UnreadablePlan, freeze, thaw
from opsledger.lib.ids import parse, public

NO_REPLAY = "This team has no such replay."
SHOWN_MAX = 100  # of each list of a plan, and of differences
_FILTERS = ("state", "workflow", "destination", "owner", "operation_id", "reference", "event_id", "q")


# Planning


def make_plan(caller: Caller, request: HttpRequest, given: ReplayPlan) -> HttpResponse:
    """Reads and answers. Nothing is written: whoever planned holds the plan."""
    try:
        made = plan(
            caller.team_id, _scope(caller, given.scope), database_now(), newest=frozenset(given.newest)
        )
    except (EmptyScope, ScopeTooLarge) as why:
        raise invalid([("scope", str(why))]) from why
    except UnknownOperations as why:
        raise Problem("not_found", str(why)) from why
    if made.not_touched:
        raise invalid([("newest", f"names {made.not_touched[0]}, which this plan does not touch")])
    return respond(200, plan_answer(made, caller.by.person_id))


def _scope(caller: Caller, given: ReplayScope) -> Scope:
    if given.operations is not None:
        return scope_of_ids(caller.team_id, operation_ids_of(caller, given.operations))
    asked, problems = OperationFilter.read(
        {name: [value] for name, value in (given.filter or {}).items() if name in _FILTERS}
    )
    unknown = [name for name in given.filter or {} if name not in _FILTERS]
    problems += [(name, f"is not a known filter; known are {', '.join(_FILTERS)}") for name in unknown]
    if problems:
        raise invalid([(f"scope.filter.{name}", message) for name, message in problems])
    words = ", ".join(f"{name} {value}" for name, value in sorted((given.filter or {}).items()))
    return scope_of_filter(caller.team_id, asked, f"operations with {words}")


def plan_answer(made: Plan, person_id: Any) -> dict[str, Any]:
    refused_by = Counter(_why(item) for item in made.refused)
    return {
        "id": public("rpl", made.id),
        "plan_digest": made.digest(),
        "plan": freeze(made, person_id),
        "scope": made.scope,
        "counts": {"run": len(made.running), "keep": len(made.kept), "refuse": len(made.refused)},
        "run": _shown(made.running),
        "keep": _shown(made.kept),
        "refuse": _shown(made.refused),
        "refused_by_reason": dict(sorted(refused_by.items())),
        "asks_whether_mended": made.asks_whether_mended,
        "destinations": [
            {
                "slug": one.slug,
                "steps": one.step_count,
                "sends_per_second": one.sends_per_second,
                "stopped": one.stopped or None,
                "runs_with_versions": list(one.runs_with),
                "newest_version": one.version_number,
                "keep_an_older_version": one.frozen_older_count,
                "could_take_the_newest": one.open_older_count,
                "takes_the_newest": one.takes_newest,
            }
            for one in made.destinations
        ],
        "workflows": [
            {
                "slug": one.slug,
                "runs_with_versions": list(one.version_numbers),
                "newest_version": one.newest_number,
            }
            for one in made.workflows
        ],
    }


def _shown(items: Sequence[PlanItem]) -> list[dict[str, Any]]:
    return [_plan_item(item) for item in items[:SHOWN_MAX]]


def _why(item: PlanItem) -> str:
    verdict = item.verdict
    return f"{verdict.reason.value}: {verdict.detail}" if verdict.reason == "held" else verdict.reason.value


def _plan_item(item: PlanItem) -> dict[str, Any]:
    verdict = item.verdict
    return {
        "operation": public("op", item.operation_id),
        "operation_id": item.operation_text_id,
        "step": item.number,
        "title": item.step_title,
        "destination": item.destination,
        "verdict": verdict.kind.value,
        "reason": verdict.reason.value,
        "says": verdict.sentence,
        "protected_until": verdict.until,
        "reference": verdict.reference,
        "hold": public("hold", item.hold_id) if item.hold_id else None,
    }


# Starting


def start(caller: Caller, request: HttpRequest, replay: str, given: ReplayStart) -> HttpResponse:
    try:
        frozen = thaw(given.plan, caller.team_id, caller.by.person_id)
    except UnreadablePlan as why:
        raise invalid([("plan", str(why))]) from why
    if parse("rpl", replay) != frozen.id:
        raise invalid([("plan", "is the plan of another replay than the one in the address")])
    said = Start(
        name=given.name,
        reason=given.reason,
        plan_digest=given.plan_digest,
        touches=frozenset(given.touches),
        per_second=given.per_second,
        stop_after=given.stop_after_unknown,
        mended=given.mended,
    )
    try:
        opened = open_replay(frozen, said, caller.by)
    except PlanMoved as why:
        raise _plan_moved(why, caller) from why
    except Refused as why:
        raise refused(why) from why
    bell.ring("replays")
    body = _answer(caller, opened.replay.pk)
    return respond(201 if opened.created else 200, body, tagged(body["version"]))


def _plan_moved(why: PlanMoved, caller: Caller) -> Problem:
    shown = [
        {**_plan_item(one.item), "was": one.was.sentence, "is": one.item.verdict.sentence}
        for one in why.moved[:SHOWN_MAX]
    ]
    return Problem(
        "plan_moved",
        f"{len(why.moved)} steps are not as they were planned. Nothing was started.",
        differences=plain(shown),
        differences_count=len(why.moved),
        now=plain(plan_answer(why.plan, caller.by.person_id)),
    )


# Reading


def listed(caller: Caller, request: HttpRequest) -> HttpResponse:
    given = request.GET.dict()
    before = parse("rpl", given["cursor"]) if given.get("cursor") else None
    if given.get("cursor") and before is None:
        raise invalid([("cursor", "can't be read; begin again without it")])
    lines = replays.page_of([caller.team_id], before=before)
    following = public("rpl", lines[replays.PAGE - 1].id) if len(lines) > replays.PAGE else None
    return respond(200, {"items": [replay_answer(one) for one in lines[: replays.PAGE]], "next": following})


def read_one(caller: Caller, request: HttpRequest, replay: str) -> HttpResponse:
    body = _answer(caller, _find(caller, replay).id)
    return respond(200, body, tagged(body["version"]))


def items(caller: Caller, request: HttpRequest, replay: str) -> HttpResponse:
    line = _find(caller, replay)
    given = request.GET.dict()
    word, cursor = given.get("state", ""), given.get("cursor", "0")
    problems = []
    if word and word not in WORDS:
        problems.append(("state", f"must be one of {', '.join(sorted(WORDS))}"))
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        problems.append(("cursor", "can't be read; begin again without it"))
    if problems:
        raise invalid(problems)
    found = replays.items_of(line.id, word=word, after=int(cursor))
    shown = found[: replays.ITEMS_PAGE]
    following = str(shown[-1].position) if len(found) > replays.ITEMS_PAGE else None
    return respond(200, {"items": [item_answer(one) for one in shown], "next": following})


def _find(caller: Caller, text: str) -> ReplayLine:
    number = parse("rpl", text)
    line = replays.replay_of(number, [caller.team_id]) if number else None
    if line is None:
        raise Problem("not_found", NO_REPLAY)
    return line


def _answer(caller: Caller, replay_id: UUID) -> dict[str, Any]:
    line = replays.replay_of(replay_id, [caller.team_id])
    assert line is not None  # nothing is ever deleted
    return replay_answer(line) | {"destinations": [_pace(one) for one in replays.paces_of(replay_id)]}


def replay_answer(line: ReplayLine) -> dict[str, Any]:
    return {
        "id": public("rpl", line.id),
        "name": line.name,
        "scope": line.scope,
        "state": line.state.value,
        "version": line.version,
        "plan_digest": line.plan_digest,
        "started_by": line.started_by,
        "started_at": line.started_at,
        "answered_for_by": line.answered_for_by,
        "changed_by": line.changed_by or None,
        "stop_after_unknown": line.stop_after,
        "stopped_after_unknown": line.stopped_after,
        "stopped_without_right": line.without_right,
        "ended_at": line.ended_at,
        "items": line.item_count,
        "counts": dict(line.counts),
        "url": f"/api/v1/replays/{public('rpl', line.id)}",
    }


def _pace(one: DestinationPace) -> dict[str, Any]:
    return {
        "slug": one.slug,
        "per_second": one.per_second,
        "waiting": one.waiting_count,
        "stopped": one.stopped or None,
    }


def item_answer(item: ItemLine) -> dict[str, Any]:
    return {
        "position": item.position,
        "operation": public("op", item.operation_id),
        "operation_id": item.operation_text_id,
        "step": item.number,
        "title": item.step_title,
        "destination": item.destination,
        "verdict": item.verdict.kind.value,
        "reason": item.verdict.reason.value,
        "says": item.verdict.sentence,
        "state": item.state.value,
        "result": item.result.value if item.result else None,
        "said": item.said or None,
        "reference": item.reference,
        "hold": public("hold", item.hold_id) if item.hold_id else None,
        "started_at": item.started_at,
        "ended_at": item.ended_at,
    }


# Deciding


Decide = Callable[[UUID, int, str, By], Replay]


def pause(caller: Caller, request: HttpRequest, replay: str, given: WithReason) -> HttpResponse:
    return _decided(caller, request, replay, given, settle_pause_replay)


def resume(caller: Caller, request: HttpRequest, replay: str, given: WithReason) -> HttpResponse:
    return _decided(caller, request, replay, given, settle_resume_replay)


def abort(caller: Caller, request: HttpRequest, replay: str, given: WithReason) -> HttpResponse:
    return _decided(caller, request, replay, given, settle_abort_replay)


def _decided(
    caller: Caller, request: HttpRequest, replay: str, given: WithReason, decide: Decide
) -> HttpResponse:
    line, version = _find(caller, replay), version_of(request)
    try:
        decide(line.id, version, given.reason, caller.by)
    except ReplayMoved as why:
        raise _stale(caller, line, version) from why
    except Refused as why:
        raise refused(why) from why
    bell.ring("replays")
    body = _answer(caller, line.id)
    return respond(200, body, tagged(body["version"]))


def _stale(caller: Caller, line: ReplayLine, version: int) -> Problem:
    current = _answer(caller, line.id)
    who = f" by {current['changed_by']}" if current["changed_by"] else ""
    if current["version"] == version:
        return Problem(
            "not_now", f"The replay is {current['state']}. Nothing was changed.", current=plain(current)
        )
    return Problem(
        "stale",
        f"The replay is {current['state']} by now, last changed{who}. Nothing was changed.",
        headers=tagged(current["version"]),
        current=plain(current),
    )
