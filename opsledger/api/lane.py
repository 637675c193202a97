"""The way of requests that carry a token or a signature: nothing of what only a browser's session needs.

Their answers are JSON and the same for everybody: no session, no messages, no languages, no CSRF, no sign-in to throttle.
What the console's middleware does for every request is done here, too: the request's id and its line in the log, the
redirect to HTTPS, the check of the host's name, and the headers that keep a browser from doing anything with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.urls import ResolverMatch

from opsledger.lib.request_log import RequestLogMiddleware

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PLACES = ("/api/v1/", "/hooks/")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}
Respond = Callable[[HttpRequest], HttpResponseBase]


def guarded(respond: Respond) -> Respond:
    """The host is one of ours (400 otherwise); the answer has its length and is nothing to be shown."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        request.get_host()
        response = respond(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        if not response.streaming:
            response.headers.setdefault("Content-Length", str(len(response.content)))  # type: ignore[attr-defined]
        return response

    return answer


class Lane(BaseHandler):
    """Django's own handling, with this chain instead of the settings'."""

    def load_middleware(self, is_async: bool = False) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        chain: Any = convert_exception_to_response(self._get_response)  # type: ignore[attr-defined]
        for layer in (guarded, SecurityMiddleware, RequestLogMiddleware):
            chain = convert_exception_to_response(layer(chain))
        self._middleware_chain = chain
        self._known: dict[str, ResolverMatch] = {}

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """As Django does; an address that holds nothing of the caller's is looked for once. One with a name has few."""
        known = self._known.get(request.path_info)
        if known is None:
            known = super().resolve_request(request)
            if known.url_name and not known.kwargs:
                self._known[request.path_info] = known
        request.resolver_match = known
        return known


class _Handler(Lane, WSGIHandler):
    """The same for a server."""


def with_lane(console: WSGIApplication) -> WSGIApplication:
    """The application with its own way for the API and the hooks; `console` takes everything else."""
    lane = _Handler()

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        fits = environ.get("PATH_INFO", "").startswith(PLACES)
        return (lane if fits else console)(environ, start_response)

    return application
