"""Answers to a browser: page or fragment, redirects, refusals. Views build their responses here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.contrib.messages import get_messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django_htmx.middleware import HtmxDetails

from opsledger.accounts.models import Person, Team
from opsledger.accounts.roles import Role
from opsledger.lib.strict_json import dumps, visible

VARY = ("HX-Request", "HX-History-Restore-Request", "HX-Boosted", "HX-Target")
# static/js/ops.js puts an answer of 400 or more into the page only when it carries this header.
FRAGMENT_HEADER = "X-Ops-Fragment"


class ConsoleRequest(HttpRequest):
    """What `ConsoleMiddleware` makes of a signed-in person's request; the type of the views' argument."""

    user: Person
    htmx: HtmxDetails
    team: Team  # the one chosen in the user menu
    roles: frozenset[Role]  # in that team
    team_ids: list[UUID]  # every team of the person
    teams: Mapping[Team, frozenset[Role]]
    shown_under: str  # the place in the navigation, where a view says another than the address


def wants_fragment(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page. Boosted links and restored history entries want all of it."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    fragments: Collection[str] = (),
    fragment: str | None = None,
    status: int = 200,
) -> HttpResponse:
    """The whole page, or for htmx the one of `fragments` that is the target.

    A fragment is a `{% partialdef NAME %}` of the template whose root has the id NAME. `fragment` names it
    where the target does not (a row inside a list). A target outside the fixed set is refused: a whole page
    is never put into a part of another.
    """
    name = template
    if wants_fragment(request):
        name = f"{template}#{_chosen(request, fragments, fragment)}"
    response = HttpResponse(visible(render_to_string(name, dict(context or {}), request)), status=status)
    if name != template:
        response[FRAGMENT_HEADER] = "1"
        _pass_messages(request, response)
    return vary_by_htmx(response)


def _chosen(request: HttpRequest, fragments: Collection[str], fragment: str | None) -> str:
    target = fragment or request.htmx.target  # type: ignore[attr-defined]
    if target is None or target not in fragments:
        raise BadRequest(_("This part of the page can’t be asked for by itself. Reload the page."))
    return str(target)


def conflict(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    fragments: Collection[str] = (),
    fragment: str | None = None,
) -> HttpResponse:
    """409: somebody was faster. The template shows the current state, and keeps what was typed."""
    return page(request, template, context, fragments=fragments, fragment=fragment, status=409)


def unprocessable(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    fragments: Collection[str] = (),
    fragment: str | None = None,
) -> HttpResponse:
    """422: the form again, with an error at each field and everything that was typed."""
    return page(request, template, context, fragments=fragments, fragment=fragment, status=422)


def see_other(url: str) -> HttpResponseRedirect:
    """303: the answer to every POST that worked. htmx follows it and asks for its fragment there."""
    return HttpResponseRedirect(url, status=303)


def back_to(request: HttpRequest, fallback: str) -> str:
    """The posted `next` if it stays on this host, else `fallback`."""
    wanted = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if safe else fallback


def no_content(announce: str = "") -> HttpResponse:
    """204 for an htmx POST that changes nothing on the page; `announce` is read out and shown."""
    response = HttpResponse(status=204)
    return with_announcement(response, announce) if announce else response


def with_announcement(response: HttpResponse, *texts: str) -> HttpResponse:
    """Says something in the page's status region (as text, never as markup)."""
    if texts:
        response["HX-Trigger"] = dumps({"ops:announce": {"texts": list(texts)}})
    return response


def _pass_messages(request: HttpRequest, response: HttpResponse) -> None:
    with_announcement(response, *[str(message) for message in get_messages(request)])


def vary_by_htmx(response: HttpResponse) -> HttpResponse:
    patch_vary_headers(response, VARY)
    return response


def no_store(response: HttpResponseBase) -> None:
    """Keeps a page with data out of every cache, the browser's own included."""
    response["Cache-Control"] = "no-store, private"
