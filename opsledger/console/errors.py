"""Error pages and, for htmx, the same as a note in the page's alert region.

Each says what happened, that nothing was lost, and what to do. None of them repeats a secret.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from axes.helpers import get_client_ip_address, get_client_username, get_cool_off
from axes.models import AccessAttempt
from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from opsledger.api.problems import Problem as ApiProblem
from opsledger.api.problems import respond
from opsledger.console.http import FRAGMENT_HEADER, no_store, vary_by_htmx, wants_fragment
from opsledger.lib.strict_json import visible

logger = logging.getLogger(__name__)

# Read by static/js/ops.js.
TOKEN_HEADER = "X-Ops-Token"  # noqa: S105  a header's name
SIGN_IN_HEADER = "X-Ops-Sign-In"
_FOR_PROGRAMS = ("/api/", "/hooks/", "/metrics", "/readyz")


@dataclass(frozen=True, slots=True)
class Problem:
    """What an error page says. `state` chooses its shape and hue."""

    status: int
    title: str
    what: str
    kept: str = ""
    todo: str = ""
    state: str = "failed"
    link: str = ""
    link_text: str = ""
    new_tab: bool = False
    typed: list[tuple[str, str]] = field(default_factory=list)


def answer(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The problem as a page, or for htmx as a note for the alert region; the row that was clicked stays."""
    signed_in = bool(getattr(request, "teams", None)) and problem.status != 401
    context = {
        "problem": problem,
        "request_id": getattr(request, "request_id", ""),
        "problem_base": "base.html" if signed_in else "_gate.html",
    }
    return _sent(request, problem, lambda template: render_to_string(template, context, request))


def _sent(request: HttpRequest, problem: Problem, render: Callable[[str], str]) -> HttpResponse:
    if request.path_info.startswith(_FOR_PROGRAMS):
        response: HttpResponse = _told_to_a_program(request, problem)
    elif hasattr(request, "htmx") and wants_fragment(request):
        response = HttpResponse(visible(render("errors/_note.html")), status=problem.status)
        response[FRAGMENT_HEADER] = "1"
        response["HX-Retarget"], response["HX-Reswap"] = "#alerts", "innerHTML"
        response["HX-Push-Url"] = "false"
    else:
        response = HttpResponse(visible(render("errors/page.html")), status=problem.status)
    no_store(response)
    return vary_by_htmx(response)


_CODES = {401: "not_signed_in", 403: "not_allowed", 404: "not_found", 500: "broken", 503: "unavailable"}
_NOT_READ = (
    "The request, or the name of the host that it was sent to, can’t be taken here. Nothing was recorded."
)


_NOT_MADE = "The answer could not be made. Everything recorded so far is safe."


def _told_to_a_program(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The same in the API's own form; what a page says of itself is of no use there."""
    code = _CODES.get(problem.status, "bad_request")
    detail = _NOT_READ if code == "bad_request" else problem.what
    if problem.status >= 500 and request.method != "POST":  # of a POST it is said what isn't known
        detail = _NOT_MADE
    return respond(ApiProblem(code, detail))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return _too_big(request)
    said = str(exception) if isinstance(exception, BadRequest) else ""
    # What can’t be read stands after the “?”, and is not read a second time here.
    opened = request.method == "GET" and bool(request.META.get("QUERY_STRING"))
    return answer(
        request,
        Problem(
            400,
            _("This can’t be read"),
            said or _("Something in it is not as this page would send it."),
            _("Nothing was done."),
            _("Begin with the page itself.") if opened else _("Go back, reload the page and try again."),
            link=request.path if opened else "",
            link_text=_("The page from its beginning"),
        ),
    )


def _too_big(request: HttpRequest) -> HttpResponse:
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return answer(
        request,
        Problem(
            400,
            _("This is more than a page takes"),
            _("What was typed has more than %(count)s bytes.") % {"count": f"{most:,}"},
            _("Nothing was done."),
            _("Go back, divide it, and send one part after the other."),
        ),
    )


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    said = str(exception) if isinstance(exception, PermissionDenied) else ""
    return answer(
        request,
        Problem(
            403,
            _("You may not do this here"),
            said or _("Your roles in this team do not allow it."),
            _("Nothing was done, and what you typed is still in the form.")
            if request.method == "POST"
            else "",
            _("What you may do is listed under My permissions."),
            state="cancelled",
            link="/settings/permissions/",
            link_text=_("My permissions"),
        ),
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    said = exception.args[0] if isinstance(exception, Http404) and exception.args else ""
    return answer(
        request,
        Problem(
            404,
            _("There is nothing at this address"),
            said
            if isinstance(said, str) and said
            else _("It may belong to another team, or the address has a slip in it."),
            "",
            _("Search for the operation id, the destination’s reference or the event id."),
            state="absent",
            link="/",
            link_text=_("Inbox"),
        ),
    )


def not_a_page(request: HttpRequest, allowed: str) -> HttpResponse:
    """405 for who opens the address of a form: after a reload, from the history, or back from the sign-in."""
    response = answer(
        request,
        Problem(
            405,
            _("This is not a page"),
            _("The address only takes what a form sends."),
            _("Nothing was done."),
            _("Go back to the page with the form, or begin at the inbox."),
            state="absent",
            link="/",
            link_text=_("Inbox"),
        ),
    )
    response["Allow"] = allowed
    return response


def conflict_page(request: HttpRequest, what: str, *, link: str = "", link_text: str = "") -> HttpResponse:
    """409 for a page that has no fresher form to show; views with a form use `http.conflict`."""
    return answer(
        request,
        Problem(
            409,
            _("This changed while you were reading; nothing was done"),
            what,
            _("What you typed is still in the form."),
            _("Reload to see what it looks like now."),
            state="disputed",
            link=link,
            link_text=link_text,
        ),
    )


def too_many(request: HttpRequest, what: str, wait_seconds: float) -> HttpResponse:
    """429 that says when to come back."""
    seconds = max(1, math.ceil(wait_seconds))
    until = timezone.now() + timedelta(seconds=seconds)
    problem = Problem(
        429,
        _("Too many tries"),
        what,
        _("Nothing was done."),
        _again(until, seconds),
        state="too-late",
    )
    response = answer(request, problem)
    response["Retry-After"] = str(seconds)
    return response


def _again(until: datetime, seconds: int) -> str:
    minutes = math.ceil(seconds / 60)
    said = ngettext(
        "Try again in %(count)s minute, at %(time)s.", "Try again in %(count)s minutes, at %(time)s.", minutes
    )
    return said % {"count": minutes, "time": f"{timezone.localtime(until):%H:%M %Z}"}


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or 503 when the database could not be reached. Touches neither the database nor the session."""
    away = _database_is_away(sys.exc_info()[1])
    problem = _broken()
    if away:
        problem = replace(problem, status=503, title=_("OpsLedger can’t reach its database"), state="failed")
    if request.method == "POST":
        problem = _maybe_done(problem)
    context = {"problem": problem, "request_id": getattr(request, "request_id", ""), "environment": ""}
    response = _sent(request, problem, lambda template: render_to_string(template, context))
    if away:
        response["Retry-After"] = "30"
    return response


def _broken() -> Problem:
    return Problem(
        500,
        _("Something went wrong here"),
        _("The page could not be made."),
        _("Everything recorded so far is safe."),
        _(
            "Reload in a minute. If it fails twice, tell the person who runs OpsLedger, with the number below."
        ),
        state="integrity-alarm",
    )


def _maybe_done(problem: Problem) -> Problem:
    """The same for a form: its change may have been recorded before the answer failed."""
    return replace(
        problem,
        what=_("The answer could not be made, so it is not known here whether your change was recorded."),
        kept=_("What you typed is still in the form."),
        todo=_("Look in another tab. Pressing again is safe: what was already done is not done twice."),
    )


def _database_is_away(error: BaseException | None) -> bool:
    """A refused or lost connection; a statement that ran too long or met a lock is not that."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.__cause__, "sqlstate", None)
    return state is None or state.startswith(("08", "57P"))


def no_team(request: HttpRequest) -> HttpResponse:
    return answer(
        request,
        Problem(
            403,
            _("You are in no team yet"),
            _("Operations belong to teams, and nobody has given you a role in one."),
            "",
            _("Ask an administrator of your team to add you."),
            state="nobody-claimed",
            link="/settings/profile/",
            link_text=_("Your profile"),
        ),
    )


def session_ended(request: HttpRequest) -> HttpResponse:
    """401: nothing was done. The page keeps what was typed, and the person signs in beside it."""
    back = _page_behind(request)
    sign_in = f"{settings.LOGIN_URL}?{urlencode({'next': back})}"
    response = answer(
        request,
        Problem(
            401,
            _("Your session ended; nothing was done"),
            _("Sessions end after eight hours, or when you sign out in another tab."),
            _("What you typed is still here.") if request.method == "POST" else "",
            _("Sign in in a new tab, come back to this one and press again."),
            state="access-refused",
            link=sign_in,
            link_text=_("Sign in in a new tab"),
            new_tab=True,
            typed=_typed(request),
        ),
    )
    response[SIGN_IN_HEADER] = sign_in
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 for a form older than the session. htmx gets a fresh token, and the text stays in the form."""
    logger.info("form refused", extra={"reason": reason})
    if not request.user.is_authenticated and not request.path.startswith(settings.LOGIN_URL):
        return session_ended(request)
    own = _from_own_page(request)
    response = answer(
        request,
        Problem(
            403,
            _("This form is from before you signed in; nothing was done"),
            _who_now(request),
            _("What you typed is still here.") if own else "",
            _("Press again to do it now.")
            if wants_fragment(request)
            else _("Go back, reload the page and do it again."),
            state="expired",
            link=_page_behind(request) if own else "/",
            link_text=_("Back to the page") if own else _("Inbox"),
            typed=_typed(request) if own else [],
        ),
    )
    if own and wants_fragment(request):
        response[TOKEN_HEADER] = get_token(request)
    return response


def _who_now(request: HttpRequest) -> str:
    if request.user.is_authenticated:
        return _("Somebody signed in again in this browser. You are now %(name)s.") % {
            "name": request.user.display_name
        }
    return _("The sign-in page was open for too long, or cookies are switched off.")


def _from_own_page(request: HttpRequest) -> bool:
    """Whether the browser itself says that one of our pages sent this; then it may be shown what it sent."""
    if (site := request.headers.get("Sec-Fetch-Site")) is not None:
        return site == "same-origin"
    return request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"


def _page_behind(request: HttpRequest) -> str:
    """The path of the page that sent the request, on this host; the inbox where that is not known."""
    if request.method in {"GET", "HEAD"} and not wants_fragment(request):
        return request.get_full_path()
    try:
        shown = urlsplit(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "")
    except ValueError:
        return "/"
    if shown.netloc != request.get_host() or not shown.path.startswith("/"):
        return "/"
    return shown.path + (f"?{shown.query}" if shown.query else "")


_SECRETS = ("password", "token", "secret")


def _typed(request: HttpRequest) -> list[tuple[str, str]]:
    """The sentences that a person typed, to be shown again on a whole page. Never secrets, never codes."""
    if request.method != "POST" or wants_fragment(request) or not _from_own_page(request):
        return []
    texts = [(name, value) for name, values in request.POST.lists() for value in values]
    return [
        (name.replace("_", " ").capitalize(), value)
        for name, value in texts
        if " " in value.strip() and not any(word in name for word in _SECRETS)
    ]


def locked_out(
    request: HttpRequest, original: HttpResponse | None = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """Too many wrong passwords for this name from this address: 429, until the cool-off is over."""
    cool_off = get_cool_off(request) or timedelta(minutes=15)
    attempts = AccessAttempt.objects.filter(
        username=get_client_username(request, credentials), ip_address=get_client_ip_address(request)
    )
    last = attempts.order_by("-attempt_time").values_list("attempt_time", flat=True).first() or timezone.now()
    left = (last + cool_off - timezone.now()).total_seconds()
    return too_many(
        request,
        _("Too many wrong passwords were entered for this address, so sign-in waits."),
        max(1.0, left),
    )
