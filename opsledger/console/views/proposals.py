"""*Propose new content*: another version of a content, written by hand. It is sent only after somebody else approved it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed
from opsledger.console.fields import form_field, read_field
from opsledger.console.forms import TEXT_MAX, by_person
from opsledger.console.http import ConsoleRequest, page, see_other, wants_fragment
from opsledger.console.permissions import require_in, team_and_roles, why_not
from opsledger.console.views.approvals import version_here
from opsledger.ledger.actions.content import BadContent, OpenedVersion, Proposal, open_content_version
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.queries import approvals
from opsledger.ledger.queries.approvals import Text
from opsledger.ledger.queries.content import Version
from opsledger.lib import ids
from opsledger.rules.content import AuthorKind

TEMPLATE = "approvals/propose.html"
PREFIX = "field"


def _base(request: ConsoleRequest, public: str) -> tuple[Version, Text]:
    """The version that the form was made from, whatever became of it since."""
    version = version_here(request, public)
    text = approvals.text_of(version.id, request.team_ids)
    if text is None:
        raise Http404(_("There is no such content version in your teams."))
    return version, text


@require_GET
def propose_page(request: ConsoleRequest, version: str) -> HttpResponse:
    """The form, filled with the newest version: what is proposed comes after that one."""
    known, text = _base(request, version)
    require_in(request, known.team_id, Permission.PROPOSE)
    newest = approvals.newest_text(known.of_id)
    if newest.id != text.id:
        return see_other(reverse("propose", args=[ids.public("cv", newest.id)]))
    return _form(request, known, text)


def _form(
    request: ConsoleRequest,
    version: Version,
    base: Text,
    *,
    errors: dict[str, str] | None = None,
    changed: str = "",
    reveal: bool = False,
    status: int = 200,
) -> HttpResponse:
    team, roles = team_and_roles(request, version.team_id)
    names = [name for name in request.POST if name.startswith(f"{PREFIX}.")]
    typed = {name: request.POST[name][: TEXT_MAX * 10] for name in names}
    fields = [
        form_field(one, base.fields.get(one.name), prefix=PREFIX, typed=_typed(typed, base, one.name, reveal), reveal=reveal)
        for one in base.definition.content
    ]  # fmt: skip
    context: dict[str, Any] = {
        "version": version,
        "base": base,
        "public": ids.public("cv", base.id),
        "heading": _("Propose new content for %(content)s") % {"content": base.content_id},
        "fields": fields,
        "errors": errors or {},
        "changed": changed,
        "origin": request.POST.get("origin", ""),
        "revealed": reveal,
        "may_reveal": allowed(roles, Permission.REVEAL),
        "why_reveal": why_not(roles, Permission.REVEAL, team),
        "has_hidden": any(one.kept for one in fields),
    }
    fragment = "propose" if wants_fragment(request) else None
    return page(request, TEMPLATE, context, fragments=("propose",), fragment=fragment, status=status)


def _typed(typed: dict[str, str], base: Text, name: str, reveal: bool) -> dict[str, str]:
    """What was typed; an empty field gives way to the value that is shown now."""
    key = f"{PREFIX}.{name}"
    return {} if reveal and not typed.get(key) else typed


@require_POST
def reveal_text(request: ConsoleRequest, version: str) -> HttpResponse:
    """The form with the sensitive texts in it, once; written to the content’s journal before."""
    known, text = _base(request, version)
    require_in(request, known.team_id, Permission.PROPOSE)
    require_in(request, known.team_id, Permission.REVEAL)
    record_revealed(known.of_id, f"version {known.number}", by_person(request.user), kind="content")
    return _form(request, known, text, reveal=True)


@require_POST
def propose(request: ConsoleRequest, version: str) -> HttpResponse:
    """Proposes it. Nothing is sent with it before somebody else approves it; operations that can still change show it."""
    known, base = _base(request, version)
    require_in(request, known.team_id, Permission.PROPOSE)
    if base.latest_number != base.number and not _is_mine_already(request, base):
        newest = approvals.newest_text(known.of_id)
        changed = _(
            "Version %(number)s was proposed while you were writing. Nothing of yours was recorded: your text is below, "
            "and goes on from that version if you propose it again."
        ) % {"number": newest.number}
        return _form(request, known, newest, changed=changed, status=409)
    given = _fields(request, base)
    try:
        opened = open_content_version(known.team_id, _proposal(request, base, given), by_person(request.user))
    except BadContent as bad:
        return _form(request, known, base, errors=_errors(bad), status=422)
    messages.success(request, _said(opened))
    return see_other(reverse("approval", args=[ids.public("cv", opened.id)]))


def _fields(request: ConsoleRequest, base: Text) -> dict[str, Any]:
    revealed = request.POST.get("revealed") == "1"
    read = {
        one.name: read_field(
            one, base.fields.get(one.name), prefix=PREFIX, post=request.POST, reveal=revealed
        )
        for one in base.definition.content
    }
    return {name: value for name, value in read.items() if value is not None}


def _proposal(request: ConsoleRequest, base: Text, given: dict[str, Any]) -> Proposal:
    return Proposal(
        base.content_id,
        base.workflow,
        given,
        AuthorKind.PERSON,
        request.user.email,
        request.POST.get("origin", ""),
    )


def _is_mine_already(request: ConsoleRequest, base: Text) -> bool:
    """Whether the newest version is this very text by this person: the form was sent twice."""
    newest = approvals.newest_text(base.of_id)
    version = version_here(request, ids.public("cv", newest.id))
    return version.author_person_id == request.user.pk and dict(newest.fields) == _fields(request, base)


def _errors(bad: BadContent) -> dict[str, str]:
    """Each message by the form’s field; the rest above the form."""
    errors: dict[str, str] = {}
    for where, why in bad.problems:
        kind, _sep, name = where.partition(".")
        key = f"{PREFIX}.{name}" if kind == "fields" else where if where == "origin" else "form"
        errors[key] = f"{why[:1].upper()}{why[1:]}." if key != "form" else f"{where}: {why}."
    return errors


def _said(opened: OpenedVersion) -> str:
    if not opened.new:
        return _("This is version %(number)s already.") % {"number": opened.number}
    said = _(
        "Version %(number)s is proposed. Somebody else has to approve it before anything is sent with it."
    ) % {"number": opened.number}
    if opened.moved_count:
        said += " " + ngettext(
            "One operation that was not sent yet shows it now.",
            "%(count)s operations that were not sent yet show it now.",
            opened.moved_count,
        ) % {"count": opened.moved_count}  # fmt: skip
    return said
