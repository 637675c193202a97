"""Replays: planned from operations or holds, started by the plan's digest, watched, paused, aborted, reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed
from opsledger.console import replay_pages
from opsledger.console.filters import InboxFilter, read_last
from opsledger.console.forms import by_person, hold_ids, read_rate, version_of
from opsledger.console.http import (
    ConsoleRequest,
    back_to,
    conflict,
    no_store,
    page,
    see_other,
    unprocessable,
    wants_fragment,
)
from opsledger.console.kept import in_kept_words
from opsledger.console.permissions import needs, why_not
from opsledger.engine.bell import ring
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
from opsledger.ledger.queries import bulk, holds, replays
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.replay_plans import (
    EmptyScope,
    Scope,
    ScopeTooLarge,
    UnknownOperations,
    plan,
    plan_again,
    scope_of_filter,
    scope_of_ids,
    scope_of_inbox,
)
from opsledger.ledger.queries.replays import WORDS, ReplayLine
from opsledger.ledger.queries.statements import StatementLine, scope_of_statement, statement_of
from opsledger.ledger.replay_plan import FrozenPlan, Plan, UnreadablePlan, freeze, thaw
from opsledger.lib import ids
from opsledger.lib.csv_lines import lines

PLAN, REPLAY = "replays/plan.html", "replays/replay.html"
OPERATION_FILTERS = ("q", "state", "owner", "workflow", "destination")


# The list


@require_GET
def replays_page(request: ConsoleRequest) -> HttpResponse:
    before = read_last("rpl", request.GET.get("before", ""))
    found = replays.page_of([request.team.pk], before=before)
    shown = found[: replays.PAGE]
    context = {
        "rows": [replay_pages.replay_row(line) for line in shown],
        "next_url": f"?before={ids.public('rpl', shown[-1].id)}" if len(found) > replays.PAGE else "",
        "is_later": before is not None,
        "now": database_now(),
        "why_not": _why_not(request, Permission.PLAN_REPLAY),
    }
    return page(request, "replays/replays.html", context)


def _why_not(request: ConsoleRequest, permission: Permission) -> str:
    return "" if allowed(request.roles, permission) else why_not(request.roles, permission, request.team)


# Planning


@require_POST
@needs(Permission.PLAN_REPLAY)
def plan_of_holds(request: ConsoleRequest) -> HttpResponse:
    """From ticked holds to the plan of their operations; nothing is written, so the plan has an address."""
    try:
        ticked = holds.existing(hold_ids(request.POST), [request.team.pk])
    except Refused as why:
        messages.error(request, why.why)
        return see_other(back_to(request, reverse("inbox")))
    query = urlencode([("hold", ids.public("hold", one)) for one in ticked])
    return see_other(f"{reverse('plan_replay')}?{query}")


@require_GET
@needs(Permission.PLAN_REPLAY)
def plan_page(request: ConsoleRequest) -> HttpResponse:
    """`operation` (several), `hold` (several), or `from` (operations, inbox) with that list's filter; `newest` (several)."""
    now = database_now()
    try:
        stated = _statement(request)
        made = plan(
            request.team.pk,
            scope_of_statement(stated) if stated else _scope(request),
            now,
            newest=frozenset(request.GET.getlist("newest")),
            statement=stated.ref if stated else None,
        )
    except (EmptyScope, ScopeTooLarge, UnknownOperations) as why:
        messages.error(request, str(why))
        return see_other(reverse("inbox" if request.GET.get("from") == "inbox" else "operations"))
    if made.not_touched:  # any text may stand in an address; what is started is written to the journal
        raise BadRequest(
            _("This address names a destination that these steps do not touch. Go back and choose again.")
        )
    return page(request, PLAN, _plan_context(request, made, request.GET.urlencode()))


def _statement(request: ConsoleRequest) -> StatementLine | None:
    """The provider's statement that a plan of this team is to rest on."""
    if "statement" not in request.GET:
        return None
    found = statement_of(_read("stm", request.GET["statement"]), [request.team.pk])
    if found is None:
        raise Http404(_("There is no such statement in this team."))
    return found


def _scope(request: ConsoleRequest) -> Scope:
    team_id = request.team.pk
    if request.GET.get("from") == "operations":
        return _scope_of_list(request)
    if "selection" in request.GET:
        return _scope_of_selection(request)
    if request.GET.get("from") == "inbox":
        chosen = InboxFilter.read(request.GET, team_id, request.user.pk)
        words = [chosen.wanted.view.value, *(f"{name} {value}" for name, value in chosen.chosen.items())]
        with in_kept_words():
            said = _("holds of the inbox: %(words)s") % {"words": ", ".join(words)}
        return scope_of_inbox(chosen.wanted, said)
    operations = [_read("op", text) for text in request.GET.getlist("operation")]
    ticked = [_read("hold", text) for text in request.GET.getlist("hold")]
    operations += [
        operation_id for operation_id, _number in holds.steps_of(holds.existing(ticked, [team_id]))
    ]
    return scope_of_ids(team_id, operations)


def _scope_of_selection(request: ConsoleRequest) -> Scope:
    """The operations of a selection of this team, as it was frozen."""
    chosen = bulk.selection_of(_read("sel", request.GET["selection"]), [request.team.pk])
    if chosen is None:
        raise Http404(_("There is no such selection in this team."))
    with in_kept_words():
        words = _("a selection: %(words)s") % {"words": chosen.words}
    return scope_of_ids(request.team.pk, bulk.operations_of(chosen.id), words)


def _scope_of_list(request: ConsoleRequest) -> Scope:
    chosen = {name: request.GET.get(name, "") for name in OPERATION_FILTERS if request.GET.get(name)}
    if not chosen:
        raise EmptyScope(_("Choose a filter first: a replay is never planned over everything."))
    asked, problems = OperationFilter.read({name: [value] for name, value in chosen.items()})
    if problems:
        raise BadRequest(" ".join(f"{name} {what}." for name, what in problems))
    with in_kept_words():
        words = ", ".join(f"{name} {value}" for name, value in chosen.items())
        said = _("operations with %(words)s") % {"words": words}
    return scope_of_filter(request.team.pk, asked, said)


def _read(prefix: str, text: str) -> UUID:
    number = ids.parse(prefix, text)
    if number is None:
        raise BadRequest(_("This address names something that can’t be read. Go back and choose again."))
    return number


def _plan_context(request: ConsoleRequest, made: Plan, query: str, **more: Any) -> dict[str, Any]:
    frozen = freeze(made, request.user.pk)
    context = replay_pages.plan_context(made, frozen, query, database_now())
    return context | {
        "typed": {"stop": str(STOPS[1])},
        "stops": STOPS,
        "errors": {},
        "rates": {one.slug: f"{one.sends_per_second:g}" for one in made.destinations},
        "ticked": set(),
        **more,
    }


# Starting


@require_POST
@needs(Permission.START_REPLAY)
def start(request: ConsoleRequest) -> HttpResponse:
    """Starts what was read, and only that. What moved meanwhile is shown, and nothing was started."""
    frozen = _frozen(request)
    try:
        opened = open_replay(frozen, _start(request), by_person(request.user))
    except PlanMoved as why:
        context = _again(request, why.plan) | {
            "moved": replay_pages.difference_rows(why.moved),
            "moved_count": len(why.moved),
        }
        return conflict(request, PLAN, context)
    except Refused as why:
        errors = {why.field or "form": why.why}
        made = plan_again(frozen, database_now())
        return unprocessable(request, PLAN, _again(request, made) | {"errors": errors})
    ring("replays")
    if opened.created:
        messages.success(request, _("“%(name)s” is started.") % {"name": opened.replay.name})
    else:
        messages.info(request, _("“%(name)s” was started already.") % {"name": opened.replay.name})
    return see_other(reverse("replay", args=[ids.public("rpl", opened.replay.pk)]))


def _frozen(request: ConsoleRequest) -> FrozenPlan:
    try:
        return thaw(request.POST.get("plan", ""), request.team.pk, request.user.pk)
    except UnreadablePlan as why:
        raise BadRequest(str(why)) from why


def _start(request: ConsoleRequest) -> Start:
    return Start(
        name=request.POST.get("name", ""),
        reason=request.POST.get("reason", ""),
        plan_digest=request.POST.get("plan_digest", ""),
        touches=frozenset(request.POST.getlist("touches")),
        per_second=_rates(request.POST),
        stop_after=_stop_after(request.POST.get("stop", "")),
        mended=request.POST.get("mended") == "yes",
    )


STOPS = (1, 3, 10, 100)  # unknown outcomes, to choose from; the second is chosen at first


def _stop_after(text: str) -> int | None:
    if text in {"", "never"}:
        return None
    if text not in {str(one) for one in STOPS}:
        raise Refused(_("Choose after how many unknown outcomes it stops."), field="stop_after_unknown")
    return int(text)


def _rates(post: Mapping[str, Any]) -> dict[str, float]:
    """What stands in each destination's field; what is no number is refused there."""
    rates = {}
    for name in post:
        if name.startswith("rate:") and post[name].strip():
            slug, rate = name.removeprefix("rate:"), read_rate(post[name])
            if rate is None:
                raise Refused(_("Write how many steps a second, such as 5."), field=f"per_second.{slug}")
            rates[slug] = rate
    return rates


def _again(request: ConsoleRequest, made: Plan) -> dict[str, Any]:
    """The plan once more, with everything that was typed and ticked."""
    rates = {
        one.slug: request.POST.get(f"rate:{one.slug}", f"{one.sends_per_second:g}")
        for one in made.destinations
    }
    typed = {name: request.POST.get(name, "") for name in ("name", "reason", "mended", "stop")}
    return _plan_context(
        request,
        made,
        request.POST.get("query", ""),
        typed=typed,
        rates=rates,
        ticked=set(request.POST.getlist("touches")),
    )


@require_POST
@needs(Permission.PLAN_REPLAY)
def plan_file(request: ConsoleRequest) -> HttpResponseBase:
    """Every step of a frozen plan as it stands now, as a file. Nothing is written here."""
    made = plan_again(_frozen(request), database_now())
    name = f"plan-{ids.public('rpl', made.id)}.csv"
    return csv_file(name, lines(replay_pages.PLAN_HEADER, replay_pages.plan_cells(made)))


def csv_file(name: str, content: Any) -> HttpResponseBase:
    response = StreamingHttpResponse(content, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    no_store(response)
    return response


# One replay


@require_GET
def replay_page(request: ConsoleRequest, replay: str) -> HttpResponse:
    return page(request, REPLAY, _replay_context(request, _of_teams(request, replay)))


@require_GET
def progress(request: ConsoleRequest, replay: str) -> HttpResponse:
    """The part that is asked for again and again, until it comes without an address to ask."""
    line = _of_teams(request, replay)
    if not wants_fragment(request):
        return see_other(reverse("replay", args=[replay]))
    context = replay_pages.progress_context(line, replays.paces_of(line.id)) | {
        "now": database_now(),
        "asked_again": True,  # what stands around it on the page is older by now
    }
    return page(
        request, "replays/progress.html", context, fragments=("replay-progress",), fragment="replay-progress"
    )


@require_GET
def report(request: ConsoleRequest, replay: str) -> HttpResponseBase:
    """Every item with its result, as a file."""
    line = _of_teams(request, replay)
    cells = replay_pages.report_cells(replays.every_item(line.id))
    return csv_file(f"{replay}.csv", lines(replay_pages.REPORT_HEADER, cells))


def _of_teams(request: ConsoleRequest, text: str) -> ReplayLine:
    number = ids.parse("rpl", text)
    line = replays.replay_of(number, request.team_ids) if number else None
    if line is None:
        raise Http404(_("There is no such replay in your teams."))
    return line


def _replay_context(request: ConsoleRequest, line: ReplayLine, **more: Any) -> dict[str, Any]:
    word, after = request.GET.get("show", ""), request.GET.get("after", "0")
    if (word and word not in WORDS) or not (after.isascii() and after.isdecimal() and len(after) < 10):
        raise BadRequest(_("This link to a part of the list can’t be read. Start again from the first page."))
    found = replays.items_of(line.id, word=word, after=int(after))
    context = replay_pages.replay_context(
        line, replays.paces_of(line.id), found, word=word, size=replays.ITEMS_PAGE
    )
    return context | {
        "is_later": after != "0",
        "now": database_now(),
        "why_not": _why_not_there(request, line),
        "typed": {},
        "errors": {},
        "changed": "",
        **more,
    }


def _why_not_there(request: ConsoleRequest, line: ReplayLine) -> str:
    """In the replay's own team, which may be another than the chosen one."""
    team = next(team for team in request.teams if team.pk == line.team_id)
    roles = request.teams[team]
    if allowed(roles, Permission.START_REPLAY):
        return ""
    return why_not(roles, Permission.START_REPLAY, team)


# Deciding about it

Decide = Callable[[UUID, int, str, By], Replay]


@require_POST
def pause(request: ConsoleRequest, replay: str) -> HttpResponse:
    """Starts nothing more until it is resumed."""
    return _decided(request, replay, "pause", settle_pause_replay)


@require_POST
def resume(request: ConsoleRequest, replay: str) -> HttpResponse:
    """Goes on where it was paused."""
    return _decided(request, replay, "resume", settle_resume_replay)


@require_POST
def abort(request: ConsoleRequest, replay: str) -> HttpResponse:
    """Ends what was not started."""
    return _decided(request, replay, "abort", settle_abort_replay)


_DECIDED = {
    "pause": noop("Paused: nothing more is begun. What was begun goes on."),
    "resume": noop("Resumed: it goes on at its rate."),
    "abort": noop("Aborted: nothing more is begun. What was begun is still finished."),
}


def _decided(request: ConsoleRequest, text: str, what: str, decide: Decide) -> HttpResponse:
    line = _of_teams(request, text)
    _require_there(request, line)
    reason = request.POST.get("reason", "")
    try:
        decide(line.id, version_of(request.POST), reason, by_person(request.user))
    except ReplayMoved:
        fresh = _of_teams(request, text)
        more = {"changed": _what_changed(fresh), "typed": {what: reason}}
        return conflict(request, REPLAY, _replay_context(request, fresh, **more))
    except Refused as why:
        more = {"errors": {what: why.why}, "typed": {what: reason}}
        return unprocessable(request, REPLAY, _replay_context(request, line, **more))
    ring("replays")
    messages.success(request, _(_DECIDED[what]))
    return see_other(reverse("replay", args=[text]))


def _require_there(request: ConsoleRequest, line: ReplayLine) -> None:
    why = _why_not_there(request, line)
    if why:
        raise PermissionDenied(why)


def _what_changed(line: ReplayLine) -> str:
    if line.ended_at is not None:
        return _("This replay ended while you were reading. Nothing of yours was done.")
    return _("This replay is %(state)s by now; %(name)s decided that. Nothing of yours was done.") % {
        "state": line.state.value,
        "name": line.changed_by or _("the machine"),
    }
