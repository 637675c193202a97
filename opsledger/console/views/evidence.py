"""Evidence of one operation: each piece by itself, and all of it as a text for somebody outside."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed
from opsledger.console.by_address import view_of
from opsledger.console.evidence_file import evidence_file
from opsledger.console.evidence_words import sentence_of
from opsledger.console.forms import by_person
from opsledger.console.http import ConsoleRequest, page
from opsledger.console.masked import shown_content
from opsledger.console.permissions import require_in, team_and_roles, why_not
from opsledger.console.story.lookups import looked_word
from opsledger.console.story.telling import names_in
from opsledger.console.wording.statements import evidence_word
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.queries.timeline import content_of, names_of, story_of
from opsledger.lib import ids
from opsledger.lib.strict_json import visible


@require_GET
def evidence_page(request: ConsoleRequest, operation: str, evidence: str) -> HttpResponse:
    """One piece of evidence: what it says, where it came from, and the bytes that were kept, as text."""
    return _evidence(request, operation, evidence, reveal=False)


@require_POST
def reveal_evidence(request: ConsoleRequest, operation: str, evidence: str) -> HttpResponse:
    """The same with sensitive values shown; written to the journal before."""
    return _evidence(request, operation, evidence, reveal=True)


def _evidence(request: ConsoleRequest, operation: str, evidence: str, *, reveal: bool) -> HttpResponse:
    view = view_of(request, operation)
    number = ids.parse("ev", evidence)
    line = next((one for one in view.record.evidence if one.id == number), None)
    if line is None:
        raise Http404(_("This operation has no such evidence."))
    if reveal:
        require_in(request, view.record.team_id, Permission.REVEAL)
        record_revealed(view.record.id, f"evidence:{line.id}", by_person(request.user))
    team, roles = team_and_roles(request, view.record.team_id)
    content = content_of(line.id, view.record.id) or b""
    may_reveal = allowed(roles, Permission.REVEAL)
    masked, plain = shown_content(view, content), shown_content(view, content, reveal=True)
    context = {
        "record": view.record,
        "op": ids.public("op", view.record.id),
        "line": line,
        "sentence": sentence_of(line),
        "public": evidence,
        "kind": evidence_word(line.kind),
        "outcome": looked_word(line.says) if line.kind == "lookup" else "",
        "content": plain if reveal else masked,
        "masked": masked != plain,
        "revealed": reveal,
        "may_reveal": may_reveal,
        "why_not": "" if may_reveal else why_not(roles, Permission.REVEAL, team),
        "names": names_of([line.origin]),
        "origin": names_of([line.origin]).get(line.origin, line.origin),
    }
    return page(request, "operation/evidence.html", context)


@require_GET
def evidence_download(request: ConsoleRequest, operation: str) -> HttpResponse:
    """A text for the provider or the system’s owner: what was observed and decided, and what remains."""
    view = view_of(request, operation)
    told = story_of(view.record.id)
    text = evidence_file(view, told.told, names_in(told.told))
    response = HttpResponse(visible(text), content_type="text/markdown; charset=utf-8")
    name = f"evidence-{ids.public('op', view.record.id)}.md"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
