"""Addresses: health, the API and the hooks; everything else is the console."""

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path
from django.views.decorators.http import require_safe

from opsledger.console.middleware import open_to_all


@open_to_all
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while this process answers; it asks nothing of the database or the broker."""
    return HttpResponse(
        "ok\n", content_type="text/plain; charset=utf-8", headers={"Cache-Control": "no-store"}
    )


urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz, name="healthz"),
    path("", include("opsledger.api.urls")),
    path("", include("opsledger.console.urls")),
]

handler400 = "opsledger.console.errors.bad_request"
handler403 = "opsledger.console.errors.permission_denied"
handler404 = "opsledger.console.errors.not_found"
handler500 = "opsledger.console.errors.server_error"
