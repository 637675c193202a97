"""Assignment rules of the chosen team: everybody reads them; owners and admins change them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from opsledger.accounts.absences import owners_there
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Permission, allowed, members_of
from opsledger.console.forms import by_person, version_of
from opsledger.console.http import ConsoleRequest, conflict, page, see_other, unprocessable
from opsledger.console.permissions import needs, require, why_not
from opsledger.console.vocabulary import rows_of, shown
from opsledger.ledger.actions.assignment import (
    NewRule,
    RuleChanged,
    add_rule,
    apply_rules,
    change_rule,
    move_rule,
    remove_rule,
)
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.queries import assignment
from opsledger.ledger.queries.assignment import RuleLine
from opsledger.ledger.queries.choices import choices
from opsledger.lib import ids
from opsledger.rules.assignment import RULES_MAX

TEMPLATE, ONE_TEMPLATE = "settings/rules.html", "settings/rule.html"
PREFIX = "rule"


@require_GET
def rules_page(request: ConsoleRequest) -> HttpResponse:
    return page(request, TEMPLATE, _context(request))


def _context(request: ConsoleRequest) -> dict[str, Any]:
    found = assignment.rules_of(request.team.pk)
    return {
        "list": found,
        "rows": [_row(line, len(found.lines)) for line in found.lines],
        "rules_max": RULES_MAX,
        "may_set": allowed(request.roles, Permission.SET_RULES),
        "why_not": why_not(request.roles, Permission.SET_RULES, request.team),
        **_choices(request),
    }


def _choices(request: ConsoleRequest) -> dict[str, Any]:
    known = choices(request.team.pk)
    return {
        "reasons": [(row.value, row.word) for row in rows_of("hold")],
        "destinations": known.destinations,
        "workflows": known.workflows,
        "people": _takers(request),
    }


def _takers(request: ConsoleRequest) -> list[Person]:
    """Whom a rule may give holds to."""
    there = owners_there(request.team.pk)
    return [member.person for member in members_of(request.team) if member.person.pk in there]


def _row(line: RuleLine, count: int) -> dict[str, Any]:
    return {
        "line": line,
        "public": ids.public(PREFIX, line.id),
        "reason": shown(line.reason, "hold").word if line.reason else "",
        "first": line.position == 1,
        "last": line.position == count,
        "state": _state(line),
        "said": _said(line),
    }


def _state(line: RuleLine) -> str:
    """The shape that stands for how a rule is."""
    if not line.active:
        return "cancelled"
    return "confirmed" if line.taker and not _gone(line) else "unknown"


def _said(line: RuleLine) -> str:
    """How a rule is, and what that means for holds."""
    if not line.active:
        return _("Switched off")
    if line.taker is None:
        return _("Passed over: %(why)s") % {"why": _why_nobody(line) % {"name": line.person}}
    if _gone(line):
        return _("Takes nothing: %(what)s is gone") % {"what": _gone(line)}
    if line.taker != line.person:
        return _("In use; %(name)s stands in") % {"name": line.taker}
    return _("In use")


def _why_nobody(line: RuleLine) -> str:
    if not line.is_active:
        return _("%(name)s is deactivated")
    if line.works_on_holds:
        return _("%(name)s is away, and nobody stands in")
    return _("%(name)s does not work on holds here")


def _gone(line: RuleLine) -> str:
    if not line.workflow_there:
        return line.workflow
    return "" if line.destination_there else line.destination


# Changes


@require_POST
@needs(Permission.SET_RULES)
def add(request: ConsoleRequest) -> HttpResponse:
    try:
        add_rule(request.team.pk, _read(request.POST), by_person(request.user))
    except Refused as why:
        context = _context(request) | {"typed": request.POST, "errors": {why.field or "form": why.why}}
        return unprocessable(request, TEMPLATE, context)
    messages.success(request, _("The rule is added. It decides over holds that open from now on."))
    return see_other(reverse("rules"))


@require_http_methods(["GET", "POST"])
@needs(Permission.SET_RULES)
def rule_page(request: ConsoleRequest, rule: str) -> HttpResponse:
    """One rule: GET shows its form, POST changes it."""
    number, line = _line_of(request, rule)
    context = _choices(request) | {"line": line, "public": rule}
    if request.method != "POST":
        return page(request, ONE_TEMPLATE, context)
    try:
        change_rule(
            number,
            request.team.pk,
            version_of(request.POST),
            _read(request.POST),
            by_person(request.user),
            active=request.POST.get("active") == "on",
        )
    except Refused as why:
        context |= {"typed": request.POST, "errors": {why.field or "form": why.why}}
        return unprocessable(request, ONE_TEMPLATE, context)
    except RuleChanged:
        return _stale(request)
    messages.success(request, _("The rule is changed. Holds that are open already stay whose they are."))
    return see_other(reverse("rules"))


@require_POST
@needs(Permission.SET_RULES)
def move(request: ConsoleRequest, rule: str) -> HttpResponse:
    number, _line = _line_of(request, rule)
    try:
        up = request.POST.get("to") == "up"
        move_rule(number, request.team.pk, version_of(request.POST), by_person(request.user), up=up)
    except Refused as why:
        return unprocessable(request, TEMPLATE, _context(request) | {"errors": {"form": why.why}})
    except RuleChanged:
        return _stale(request)
    return see_other(reverse("rules"))


@require_POST
@needs(Permission.SET_RULES)
def remove(request: ConsoleRequest, rule: str) -> HttpResponse:
    number, _line = _line_of(request, rule)
    try:
        remove_rule(number, request.team.pk, version_of(request.POST), by_person(request.user))
    except Refused as why:
        return unprocessable(request, TEMPLATE, _context(request) | {"errors": {"form": why.why}})
    except RuleChanged:
        return _stale(request)
    messages.success(request, _("The rule is removed. Holds that it gave to somebody stay theirs."))
    return see_other(reverse("rules"))


@require_POST
def apply(request: ConsoleRequest) -> HttpResponse:
    """Gives the open unowned holds to whom the rules name. It takes both: to set rules, and to assign."""
    require(request, Permission.SET_RULES)
    require(request, Permission.ASSIGN)
    applied = apply_rules(request.team.pk, by_person(request.user))
    said = ngettext("One hold was given away.", "%(count)s holds were given away.", applied.given_count)
    messages.success(request, said % {"count": f"{applied.given_count:,}"})
    if applied.more:
        messages.info(
            request, _("There are more unowned holds than are looked through in one go. Apply again.")
        )
    return see_other(reverse("rules"))


def _stale(request: ConsoleRequest) -> HttpResponse:
    said = _(
        "The rules changed while you were reading them. Nothing was changed by you; this is how they are now."
    )
    return conflict(request, TEMPLATE, _context(request) | {"changed": said})


def _line_of(request: ConsoleRequest, rule: str) -> tuple[UUID, RuleLine]:
    number = ids.parse(PREFIX, rule)
    for line in assignment.rules_of(request.team.pk).lines:
        if number is not None and line.id == number:
            return number, line
    raise Http404(_("There is no such rule in this team. It may have been removed."))


def _read(post: QueryDict) -> NewRule:
    try:
        person_id = UUID(post.get("person", ""))
    except ValueError:
        raise Refused(_("Choose who gets the holds."), field="person") from None
    return NewRule(
        person_id,
        post.get("workflow", "")[:200],
        post.get("destination", "")[:200],
        post.get("reason", "")[:60],
    )
