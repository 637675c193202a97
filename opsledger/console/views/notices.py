"""What one is told: the list behind the bell, and how one is told outside of the pages. A GET changes nothing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.permissions import Permission
from opsledger.console.forms import by_person
from opsledger.console.http import ConsoleRequest, page, see_other, unprocessable
from opsledger.console.permissions import needs
from opsledger.console.vocabulary import shown
from opsledger.console.wording.phrases import listed
from opsledger.engine.bell import ring
from opsledger.engine.notices import sealed_address
from opsledger.engine.services import SERVICES, BadAddress, read_address
from opsledger.ledger.actions import telling
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.models import Channel, NoticeChoice
from opsledger.ledger.queries import notices
from opsledger.ledger.queries.notices import NoticeLine
from opsledger.lib import ids
from opsledger.rules.notice_words import EVERY_MINUTES, MUTE_DAYS_MAX, NoticeKind
from opsledger.rules.states import HoldReason

# Each kind with its sign and its words: to the one it is told, and for the list of what a channel is told.
KINDS = {
    NoticeKind.ASSIGNED: ("user", noop("Assigned to you"), noop("Assigned, or opened with an owner")),
    NoticeKind.APPROVAL: ("approval", noop("Your approval is asked"), noop("An approval is asked")),
    NoticeKind.REMINDER: ("too-late", noop("Past its due time"), noop("Past its due time")),
    NoticeKind.ESCALATED: ("alert", noop("Came to you: nobody acted"), noop("Escalated: nobody acted")),
    NoticeKind.DISPUTED: ("disputed", noop("Disputed"), noop("Disputed")),
    NoticeKind.DESTINATION_STOPPED: (
        "paused",
        noop("Sending stopped"),
        noop("Sending to a destination stopped"),
    ),
    NoticeKind.REPLAY_ENDED: ("n-replays", noop("Your replay ended"), noop("A replay ended")),
    NoticeKind.REPLAY_STOPPED: (
        "paused",
        noop("A replay paused by itself"),
        noop("A replay paused by itself"),
    ),
    NoticeKind.OWNER_GONE: ("user", noop("Came to you: its owner is gone"), noop("An owner is gone")),
}
OF_REPLAYS = frozenset({NoticeKind.REPLAY_ENDED, NoticeKind.REPLAY_STOPPED})
EVERY_CHOICES = (1, 5, 15, 30, 60)
TEMPLATE = "settings/notifications.html"


# The list


@require_GET
def notices_page(request: ConsoleRequest) -> HttpResponse:
    text = request.GET.get("before", "")
    before = ids.parse("ntc", text) if text else None
    if text and before is None:
        raise BadRequest(_("This link to older notices can’t be read. Start again from the newest."))
    found, has_older = notices.notices_of(request.user.pk, request.team.pk, before=before)
    context = {
        "rows": [_row(line) for line in found],
        "older": ids.public("ntc", found[-1].id) if has_older else "",
        "newest": ids.public("ntc", found[0].id) if found else "",
        "unread": notices.unread_count(request.user.pk, request.team.pk),
        "is_first": before is None,
    }
    return page(request, "notices/notices.html", context)


def _row(line: NoticeLine) -> dict[str, Any]:
    shape, word, _listed = KINDS[line.kind]
    return {
        "line": line,
        "public": ids.public("ntc", line.id),
        "icon": shape,
        "word": _(word),
        "what": _what(line),
    }


def _what(line: NoticeLine) -> str:
    """“3 holds: outcome unknown (2), disputed; at crm; in follow_up”."""
    parts = []
    if line.count > 1:
        several = _("%(count)s replays") if line.kind in OF_REPLAYS else _("%(count)s holds")
        parts.append(several % {"count": line.count})
    reasons = (
        {}
        if line.kind is NoticeKind.DISPUTED
        else {shown(HoldReason(name)).word: count for name, count in line.reasons.items()}
    )
    for prefix, counts in (("", reasons), (_("at"), line.destinations), (_("in"), line.workflows)):
        if counts:
            parts.append(f"{prefix} {_counted(counts, line.count)}".strip())
    return " · ".join(parts)


def _counted(counts: dict[str, int] | Any, whole: int) -> str:
    return listed([name if count == whole else f"{name} ({count})" for name, count in counts.items()])


@require_POST
def mark_read(request: ConsoleRequest) -> HttpResponse:
    """One notice, or all up to the newest that the person saw."""
    up_to = ids.parse("ntc", request.POST.get("up_to", ""))
    one = ids.parse("ntc", request.POST.get("notice", ""))
    if up_to is not None:
        changed = telling.mark_all_read(request.user.pk, request.team.pk, up_to)
    elif one is not None:
        changed = telling.mark_read(request.user.pk, request.team.pk, [one])
    else:
        raise BadRequest(_("The form doesn’t say which notice. Reload the page."))
    said = ngettext("One notice is read.", "%(count)s notices are read.", changed) % {"count": changed}
    messages.success(request, said if changed else _("Nothing changed: they were read already."))
    return see_other(reverse("notices"))


# How one is told


@require_GET
def settings_page(request: ConsoleRequest) -> HttpResponse:
    return page(request, TEMPLATE, _context(request))


def _context(request: ConsoleRequest) -> dict[str, Any]:
    now = timezone.now()
    choice = NoticeChoice.objects.filter(pk=request.user.pk).first() or NoticeChoice(person=request.user)
    muted = choice.muted_until is not None and choice.muted_until > now
    return {
        "mail_on": settings.MAIL_ON,
        "choice": choice,
        "muted_until": choice.muted_until if muted else None,
        "last_mail": notices.last_mail_to(request.user.pk),
        "every_choices": EVERY_CHOICES,
        "every_default": EVERY_MINUTES,
        "mute_days": range(1, MUTE_DAYS_MAX + 1),
        "channels": [
            {
                "public": ids.public("chn", line.channel.pk),
                "line": line,
                "service": _service_name(line.channel.scheme),
                "kinds": [_(KINDS[NoticeKind(kind)][2]) for kind in line.channel.kinds],
                "last": line.tries[0] if line.tries else None,
            }
            for line in notices.channels_of(request.team.pk)
        ],
        "kinds": [(kind.value, _(words[2])) for kind, words in KINDS.items()],
        "schemes": [f"{scheme}://" for scheme in SERVICES],
    }


@require_POST
def choose_mail(request: ConsoleRequest) -> HttpResponse:
    try:
        telling.choose_mail(
            request.user,
            mail_on=request.POST.get("mail_on") == "on",
            every_minutes=_number(request.POST.get("every_minutes", "")),
        )
    except Refused as why:
        return _refused(request, why, {})
    messages.success(request, _("How you are told by mail is saved."))
    return see_other(reverse("notifications"))


@require_POST
def mute(request: ConsoleRequest) -> HttpResponse:
    if "unmute" in request.POST:
        telling.unmute_mail(request.user)
        messages.success(request, _("Mail goes on; what waited is sent with the next message."))
        return see_other(reverse("notifications"))
    try:
        telling.mute_mail(request.user, _number(request.POST.get("days", "")))
    except Refused as why:
        return _refused(request, why, {})
    messages.success(request, _("Mail is muted. This page and the bell go on."))
    return see_other(reverse("notifications"))


# A team's channels


@require_POST
@needs(Permission.ADMINISTER)
def add_channel(request: ConsoleRequest) -> HttpResponse:
    """The address is sealed at once. It is not shown again, not even to the one who has just typed it wrongly."""
    post = request.POST
    typed: dict[str, Any] = {"name": post.get("name", ""), "kinds": post.getlist("kinds")}
    try:
        address = post.get("address", "").strip()
        parts = read_address(address)
        channel = telling.add_channel(
            request.team,
            typed["name"],
            scheme=parts.scheme,
            host=parts.host,
            sealed=sealed_address(address),
            kinds=typed["kinds"],
            every_minutes=_number(post.get("every_minutes", "")),
            by=by_person(request.user),
        )
    except BadAddress as why:
        return _refused(request, Refused(str(why), field="address"), typed)
    except Refused as why:
        return _refused(request, why, typed)
    said = _("The channel “%(name)s” is added. Send a test to see that it works.")
    messages.success(request, said % {"name": channel.name})
    return see_other(reverse("notifications"))


@require_POST
@needs(Permission.ADMINISTER)
def remove_channel(request: ConsoleRequest, channel: str) -> HttpResponse:
    if telling.remove_channel(_channel(request, channel), request.team, by_person(request.user)):
        messages.success(request, _("The channel is removed, and its address with it."))
    else:
        messages.info(request, _("Nothing changed: the channel was removed before."))
    return see_other(reverse("notifications"))


@require_POST
@needs(Permission.ADMINISTER)
def try_channel(request: ConsoleRequest, channel: str) -> HttpResponse:
    if telling.ask_for_test(_channel(request, channel), request.team) is not None:
        ring("notices")
        messages.success(request, _("A test is on its way; reload this page to see how it ended."))
    else:
        messages.info(request, _("Nothing was sent: the channel was removed before."))
    return see_other(reverse("notifications"))


def _channel(request: ConsoleRequest, text: str) -> UUID:
    """One of this team, also one that was removed; others do not exist."""
    number = ids.parse("chn", text)
    if number is None or not Channel.objects.filter(pk=number, team=request.team).exists():
        raise Http404(_("There is no such channel in this team."))
    return number


def _service_name(scheme: str) -> str:
    known = SERVICES.get(scheme)
    return known.name if known else scheme


def _refused(request: ConsoleRequest, why: Refused, typed: dict[str, Any]) -> HttpResponse:
    context = _context(request) | {"typed": typed, "errors": {why.field or "form": why.why}}
    return unprocessable(request, TEMPLATE, context)


def _number(text: str) -> int:
    """A whole number, or one that every check refuses."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
