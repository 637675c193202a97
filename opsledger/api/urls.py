"""Addresses of the API, the hooks and the checks. Those of /api/v1 follow from the table of calls."""

from __future__ import annotations

import re

from django.urls import URLPattern, path, re_path

from opsledger.api import docs, health, hooks, openapi
from opsledger.api.calls import CALLS
from opsledger.api.problems import Problem, respond
from opsledger.api.routes import Call, addressed


def _pattern(place: str) -> str:
    """One segment per name: whatever stands there is looked up, not guessed about."""
    return "^api/v1" + re.sub(r"\{([a-z]+)\}", r"(?P<\1>[^/]+)", place) + "$"


def _calls() -> list[URLPattern]:
    places: dict[str, list[Call]] = {}
    for call in CALLS:
        places.setdefault(call.path, []).append(call)
    return [re_path(_pattern(place), addressed(calls), name=calls[0].name) for place, calls in places.items()]


def _nothing(request: object, **place: str) -> object:
    return respond(Problem("not_found", "There is no such call; see /api/docs."))


urlpatterns: list[URLPattern] = [
    path("api/v1/openapi.json", openapi.serve, name="openapi"),
    path("api/docs", docs.page, name="api_docs"),
    *_calls(),
    re_path(r"^api/", _nothing),  # type: ignore[arg-type]
    re_path(r"^hooks/(?P<source>[^/]+)/?$", hooks.deliver, name="hook"),
    path("readyz", health.ready, name="readyz"),
    path("readyz/work", health.working, name="readyz_work"),
    path("metrics", health.metrics, name="metrics"),
]
