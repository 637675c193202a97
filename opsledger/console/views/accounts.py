"""Signing in and out, and what an open page asks about its session."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods

from opsledger.accounts import actions
from opsledger.console.http import ConsoleRequest, page, see_other, unprocessable
from opsledger.console.middleware import open_to_all, without_team


class SignInForm(AuthenticationForm):
    """E-mail address and password. The address is put in lower case before wrong tries are counted by it."""

    error_messages = {
        "invalid_login": gettext_lazy(
            "This e-mail address and password do not belong together. Nothing was changed."
        ),
        "inactive": gettext_lazy("This person is deactivated. An administrator of the team can say more."),
    }

    def __init__(self, request: HttpRequest | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        name = self.fields["username"]
        name.label = _("Work e-mail")
        name.widget.input_type = "email"
        self.fields["password"].label = _("Password")

    def clean_username(self) -> str:
        return str(self.cleaned_data["username"]).strip().lower()


class SignIn(LoginView):
    form_class = SignInForm
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        response.status_code = 422
        return response


sign_in = open_to_all(SignIn.as_view())
sign_out = open_to_all(LogoutView.as_view(http_method_names=["post", "options"]))


@open_to_all
@require_GET
def session_state(request: HttpRequest) -> JsonResponse:
    """For static/js/ops.js, after a session ended: who is signed in now, and a fresh token for the forms."""
    person = request.user
    if not person.is_authenticated:
        return JsonResponse({"signed_in": False})
    return JsonResponse({"signed_in": True, "person": str(person.pk), "token": get_token(request)})


@without_team
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def password(request: ConsoleRequest) -> HttpResponse:
    """Choosing one's own password; the only page besides sign-out that a temporary password opens."""
    person = request.user
    context: dict[str, Any] = {"temporary": person.must_change_password}
    if request.method != "POST":
        return page(request, "settings/password.html", context)
    new = request.POST.get("new", "")
    if not person.check_password(request.POST.get("current", "")):
        context["errors"] = {"current": _("This is not your current password.")}
    elif new != request.POST.get("again", ""):
        context["errors"] = {"again": _("The two new passwords differ.")}
    else:
        try:
            actions.set_own_password(person, new)
        except actions.Refused as why:
            context["errors"] = {"new": why.message}
    if "errors" in context:
        return unprocessable(request, "settings/password.html", context)
    update_session_auth_hash(request, person)
    messages.success(request, _("Your password is changed. Other browsers are signed out."))
    return see_other(reverse("profile"))
