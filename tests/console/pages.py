"""Addresses of the tests: the console's own, and a few views that answer in every way a view can."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path

from opsledger.accounts.roles import Permission
from opsledger.console import errors
from opsledger.console.http import conflict, page, see_other, unprocessable
from opsledger.console.permissions import needs
from opsledger.urls import (
    handler400,
    handler403,
    handler404,
    handler500,
)
from opsledger.urls import urlpatterns as real

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

PARTS = {"rows", "count"}
done: list[dict[str, Any]] = []


def sheet(request: HttpRequest) -> HttpResponse:
    return page(request, "sheet.html", {"text": request.GET.get("text", "nothing yet")}, fragments=PARTS)


def write(request: HttpRequest) -> HttpResponse:
    """Does what `how` says; what was really done is in `done`."""
    how = request.POST.get("how", "")
    context = {"text": request.POST.get("reason", "")}
    if how == "conflict":
        return conflict(request, "sheet.html", context, fragments=PARTS)
    if how == "unprocessable":
        return unprocessable(request, "sheet.html", context, fragments=PARTS)
    if how == "denied":
        raise PermissionDenied("You need the role owner.")
    if how == "missing":
        raise Http404("No such hold.")
    if how == "busy":
        return errors.too_many(request, "Ten checks in a minute are enough.", 61)
    if how == "changed":
        return errors.conflict_page(request, "Olga answered at 16:12.")
    if how == "broken":
        raise RuntimeError("secret detail")
    if how == "away":
        raise OperationalError("connection refused")
    if how == "proxy":
        return HttpResponse("<h1>Bad gateway</h1><script>alert(1)</script>", status=502)
    done.append(request.POST.dict())
    messages.success(request, "It is written.")
    return see_other("/sheet/?text=written")


@needs(Permission.SETTLE)
def owners_only(request: HttpRequest) -> HttpResponse:
    return HttpResponse("settled")


urlpatterns = [
    path("sheet/", sheet),
    path("write/", write),
    path("owners/", owners_only),
    *real,
]
