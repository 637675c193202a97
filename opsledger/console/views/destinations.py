"""Destinations: what each documents, whether we send to it, and how it is stopped and goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed
from opsledger.console import desk
from opsledger.console.forms import by_person, read_rate, version_of
from opsledger.console.http import ConsoleRequest, conflict, page, see_other, unprocessable
from opsledger.console.permissions import require, why_not
from opsledger.console.templatetags.ops import day_text, words_of_span
from opsledger.console.vocabulary import shown
from opsledger.console.wording.protection import documented_protection
from opsledger.engine.bell import ring
from opsledger.ledger.actions.deciding import Refused, Stale
from opsledger.ledger.actions.destinations import DestinationChanged, settle_pause, settle_resume
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries import holds
from opsledger.ledger.queries.destinations import ActionLine, DestinationLine, StopLine, destinations_of
from opsledger.ledger.queries.early_reports import early_reports_of
from opsledger.lib import ids
from opsledger.rules.profile import ActionProfile, FinalEffectBy, ProtectionKind, Settles

TEMPLATE = "destinations/destinations.html"
FRAGMENTS = ("destinations",)


@dataclass(slots=True)
class Asked:
    """A form of one card that is shown again."""

    key: str = ""  # the slug, and for a hold its public id
    typed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    changed: str = ""
    at_card: str = ""  # the slug, where there is no form any more to show what changed beside it


@require_GET
def destinations_page(request: ConsoleRequest) -> HttpResponse:
    return page(request, TEMPLATE, context_of(request), fragments=FRAGMENTS)


def context_of(request: ConsoleRequest, asked: Asked | None = None) -> dict[str, Any]:
    early = early_reports_of(request.team.pk)
    cards = [_card(line) | {"early": early.get(line.id)} for line in destinations_of(request.team.pk)]
    return {
        "cards": cards,
        "early_days": settings.KEEP_EARLY_REPORTS_DAYS,
        "now": database_now(),
        "asked": asked or Asked(),
        "may_pause": allowed(request.roles, Permission.PAUSE_DESTINATION),
        "may_end": allowed(request.roles, Permission.CANCEL),
        "may_resume": allowed(request.roles, Permission.RESUME_DESTINATION),
        "why_pause": why_not(request.roles, Permission.PAUSE_DESTINATION, request.team),
        "why_resume": why_not(request.roles, Permission.RESUME_DESTINATION, request.team),
        "stopped_count": sum(1 for card in cards if card["stops"]),
    }


def _card(line: DestinationLine) -> dict[str, Any]:
    steps = line.open_steps
    return {
        "slug": line.slug,
        "public": ids.public("dst", line.id),
        "name": line.definition.name,
        "base_url": line.definition.base_url,
        "version": line.version_number,
        "state_version": line.version,
        "loaded_at": line.loaded_at,
        "circuit": line.circuit,
        "circuit_opened_at": line.circuit_opened_at,
        "circuit_trial_at": line.circuit_trial_at,
        "failures": line.failures_in_a_row,
        "rate": line.definition.sends_per_second,
        "in_flight_max": line.definition.max_in_flight,
        "actions": [_action(one) for one in line.actions],
        "open_steps": [
            (state, steps.get(state, 0)) for state in ("ready", "in_flight", "accepted", "unknown")
        ],
        "waiting": steps.get("ready", 0),
        "stops": [_stop(one) for one in line.stops],
        "paused": any(one.reason.value == "paused" for one in line.stops),
    }


def _stop(line: StopLine) -> dict[str, Any]:
    row = shown(line.reason)
    return {
        "public": ids.public("hold", line.id),
        "line": line,
        "word": row.word,
        "shape": row.shape,
        "if_nobody": desk.if_nobody(line.if_nobody, line.outlook, line.outlook.now, about_step=False),
    }


def _action(line: ActionLine) -> dict[str, Any]:
    """What is documented about one action, as words."""
    profile = line.definition.profile
    source = profile.protection.source
    return {
        "name": line.name,
        "title": line.definition.title,
        "protection": documented_protection(profile, _span(profile.protection.window_seconds)),
        "source": source,
        "checked": day_text(source.checked) if source else "",
        "rows": _rows(profile),
        "sensitive": line.definition.sensitive,
        "recovery": line.recovery,
    }


def _rows(profile: ActionProfile) -> list[tuple[str, str]]:
    lookup, retries, final = profile.lookup, profile.retries, profile.final_effect
    rows = [(_("Window"), _window(profile))]
    if lookup is None:
        rows.append((_("Lookup"), _("None: the destination can’t be asked")))
    else:
        settles = (
            _("Both; found and not found are proof")
            if lookup.settles is Settles.BOTH
            else _("Positive only; an empty answer proves nothing")
        )
        rows += [(_("Lookup settles"), settles), (_("Quiet period"), words_of_span(lookup.quiet_seconds))]
    first, last = retries.delays_seconds[:1], retries.delays_seconds[-1:]
    spans = " ".join([words_of_span(first[0]), _("to"), words_of_span(last[0])]) if first else ""
    tries = _("%(count)s tries, %(spans)s apart") % {"count": retries.tries_max, "spans": spans}
    rows.append((_("Retry policy"), _("Only after “no change”: %(tries)s") % {"tries": tries}))
    if final is None:
        rows.append((_("Final effect"), _("The reply is all that can be known")))
    else:
        by = _("by report") if final.by is FinalEffectBy.REPORT else _("by lookup")
        span = words_of_span(final.deadline_seconds)
        rows.append((_("Final effect"), _("Proven %(by)s within %(span)s") % {"by": by, "span": span}))
    rows.append((_("Deadline of one send"), words_of_span(profile.timing.total_seconds)))
    return rows


def _window(profile: ActionProfile) -> str:
    protection = profile.protection
    if protection.kind is ProtectionKind.NONE:
        return _("No window")
    if protection.operator_window_seconds is not None:
        return _("%(span)s, your own") % {"span": words_of_span(protection.operator_window_seconds)}
    if protection.window_seconds is not None:
        return _("%(span)s from the first attempt") % {"span": words_of_span(protection.window_seconds)}
    return _("Unpublished") if protection.kind is ProtectionKind.IDEMPOTENCY_KEY else _("No end")


def _span(seconds: int | None) -> str:
    return words_of_span(seconds) if seconds is not None else ""


# Stopping and going on


@require_POST
def pause(request: ConsoleRequest, destination: str) -> HttpResponse:
    """Stops sending to a destination. What is in flight ends as it ends; everything else waits."""
    line = _of_team(request, destination)
    require(request, Permission.PAUSE_DESTINATION)
    reason = request.POST.get("reason", "")
    try:
        paused = settle_pause(line.id, version_of(request.POST), reason, by_person(request.user))
    except DestinationChanged:
        changed = _("This destination changed while you were reading. Nothing was done; look at it again.")
        asked = Asked(line.slug, {"reason": reason}, changed=changed, at_card=line.slug)
        return conflict(
            request, TEMPLATE, context_of(request, asked), fragments=FRAGMENTS, fragment="destinations"
        )
    except Refused as why:
        asked = Asked(line.slug, {"reason": reason}, {why.field or "form": why.why})
        return unprocessable(
            request, TEMPLATE, context_of(request, asked), fragments=FRAGMENTS, fragment="destinations"
        )
    if not paused.seen:
        still = _(
            "Sending to %(slug)s is paused. A worker is still at a claim that it began before; what it opens may be sent."
        )
        messages.error(request, still % {"slug": line.slug})
    elif paused.stopped:
        messages.success(request, _("Sending to %(slug)s is paused.") % {"slug": line.slug})
    else:
        messages.info(request, _("%(slug)s was paused already.") % {"slug": line.slug})
    return see_other(f"{reverse('destinations')}#d-{line.slug}")


@require_POST
def resume(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Mended: it goes on, and what waits leaves at the given rate."""
    number = ids.parse("hold", hold)
    row = holds.hold_of(number, [request.team.pk]) if number else None
    if row is None or row.destination_id is None:
        raise Http404(_("There is no such hold at a destination of this team."))
    require(request, Permission.RESUME_DESTINATION)
    typed = {name: request.POST.get(name, "") for name in ("reason", "rate")}
    try:
        waiting = settle_resume(
            row.pk, version_of(request.POST), _rate(typed["rate"]), typed["reason"], by_person(request.user)
        )
    except Stale as stale:
        closed = stale.hold.closed_at is not None
        at_card = row.destination_slug if closed else ""
        asked = Asked(hold, typed, changed=_what_changed(closed), at_card=at_card)
        return conflict(
            request, TEMPLATE, context_of(request, asked), fragments=FRAGMENTS, fragment="destinations"
        )
    except Refused as why:
        asked = Asked(hold, typed, {why.field or "form": why.why})
        return unprocessable(
            request, TEMPLATE, context_of(request, asked), fragments=FRAGMENTS, fragment="destinations"
        )
    ring("dispatch")
    said = ngettext(
        "%(slug)s goes on. One waiting step leaves now.",
        "%(slug)s goes on. %(count)s waiting steps leave at this rate.",
        waiting,
    )
    messages.success(request, said % {"slug": row.destination_slug, "count": waiting})
    return see_other(f"{reverse('destinations')}#d-{row.destination_slug}")


def _what_changed(closed: bool) -> str:
    if closed:
        return _(
            "This hold ended while you were reading. Nothing of yours was recorded; here is how it stands now."
        )
    return _("This hold changed while you were reading. Nothing was done; look at it again.")


def _rate(text: str) -> float:
    rate = read_rate(text)
    if rate is None:
        raise Refused(_("Write how many sends a second, such as 5."), field="rate")
    return rate


def _of_team(request: ConsoleRequest, public: str) -> DestinationLine:
    number = ids.parse("dst", public)
    for line in destinations_of(request.team.pk):
        if line.id == number:
            return line
    raise Http404(_("There is no such destination in this team."))
