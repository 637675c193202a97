"""The journal of the team, newest first."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, members_of
from opsledger.console.filters import AuditFilter
from opsledger.console.forms import by_person
from opsledger.console.http import ConsoleRequest, no_store, page
from opsledger.console.permissions import needs
from opsledger.console.story.attempts import outcome_in
from opsledger.console.story.lookups import looked_word
from opsledger.console.vocabulary import shown
from opsledger.console.wording import answers
from opsledger.console.wording.entries import (
    ACTOR_WORDS,
    ENTRY_WORDS,
    actor_word,
    actors_word,
    entry_word,
    revealed_words,
    subject_word,
)
from opsledger.ledger.actions.reveal import record_exported
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries import audit
from opsledger.ledger.queries.audit import AuditLine
from opsledger.ledger.queries.audit_export import as_json_lines
from opsledger.ledger.queries.timeline import names_of
from opsledger.lib import ids


@require_GET
@needs(Permission.READ_AUDIT)
def audit_page(request: ConsoleRequest) -> HttpResponse:
    chosen = AuditFilter.read(request.GET, request.team.pk)
    found = audit.page_of(chosen.wanted, before=chosen.before)
    names = names_of({line.actor for line in found.lines})
    context = {
        "rows": [_row(line, names) for line in found.lines],
        "chosen": chosen.chosen,
        "kinds": [(kind, entry_word(kind)) for kind in ENTRY_WORDS],
        "people": [(f"person:{one.person.pk}", one.person.display_name) for one in members_of(request.team)],
        "actors": [(kind, actors_word(kind)) for kind in ACTOR_WORDS],
        "next_url": f"?{chosen.query(found.following)}" if found.following else "",
        "first_url": f"?{chosen.query(None)}",
        "is_older": chosen.before is not None,
        "looked_back_to": found.looked_back_to,
        "verification": audit.verification(),
        "now": database_now(),
    }
    return page(request, "audit/audit.html", context)


_ACTOR = re.compile(rf"({'|'.join(ACTOR_WORDS)})(:[0-9a-f-]{{36}})?")


@require_POST
@needs(Permission.READ_AUDIT)
def export_journal(request: ConsoleRequest) -> HttpResponseBase:
    """Every entry of the team, or what the page's filter lets through, as JSON lines; written to the journal before.

    Not a GET, as it writes that line. What is written of the filter are words of ours and ids, so nothing else is taken.
    """
    chosen = AuditFilter.read(request.POST, request.team.pk)
    wanted = chosen.wanted
    if (wanted.kind and wanted.kind not in ENTRY_WORDS) or (
        wanted.actor and not _ACTOR.fullmatch(wanted.actor)
    ):
        raise BadRequest(
            _("This filter can’t be read, so nothing was exported. Choose it again from the lists.")
        )
    record_exported(request.team.pk, chosen.chosen, by_person(request.user))
    response = StreamingHttpResponse(as_json_lines(wanted), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="journal-{request.team.slug}.jsonl"'
    no_store(response)
    return response


def _row(line: AuditLine, names: dict[str, str]) -> dict[str, Any]:
    kind, _sep, rest = line.actor.partition(":")
    return {
        "at": line.at,
        "word": entry_word(line.kind),
        "kind": line.kind,
        "who": names.get(line.actor, ""),
        "actor": actor_word(kind) if line.actor not in names else "",
        "actor_name": rest if kind in {"source", "destination", "command"} else "",
        "subject_kind": subject_word(line.about),
        "subject": line.subject_name,
        "url": _url(line),
        "seq": line.seq,
        "what": _what(line),
    }


def _what(line: AuditLine) -> str:
    """One short phrase from the entry’s facts; free text stays where it is kept."""
    if line.body.get("answer"):
        return capfirst(answers.given(str(line.body["answer"])))
    if line.subject_kind == "operation" and (said := _became(line)):
        return said
    stopped = line.body.get("stopped") or line.body.get("went_on")
    if stopped:
        return shown(str(stopped), "hold").word
    if line.body.get("content_number") or (line.subject_kind == "content" and line.body.get("number")):
        number = line.body.get("content_number") or line.body["number"]
        return _("Content version %(number)s") % {"number": number}
    if line.kind == "recovery_changed":
        return " · ".join(_recovery_words(name, on) for name, on in line.body["recovers"].items())
    if line.body.get("version") and line.subject_kind == "definition":
        return _("Version %(number)s") % {"number": line.body["version"]}
    what = str(line.body.get("what", ""))
    return revealed_words(what) if line.kind == "revealed" else what


def _recovery_words(action: str, on: bool) -> str:
    words = _("%(action)s on") if on else _("%(action)s off")
    return words % {"action": action}


def _became(line: AuditLine) -> str:
    """What a lookup or an attempt brought, and what the operation became with it."""
    said = []
    if line.kind == "lookup_ended" and line.body.get("says"):
        said.append(looked_word(str(line.body["says"])))
    outcome = outcome_in(line.body, str(line.body.get("attempt")))
    if outcome:
        said.append(shown(outcome, "outcome").word)
    if line.body.get("state"):
        state = shown(str(line.body["state"]), "operation").word
        said.append(_("operation: %(state)s") % {"state": state.lower()})
    return capfirst(" · ".join(said))


def _url(line: AuditLine) -> str:
    if line.subject_kind == "operation":
        return reverse("operation", args=[ids.public("op", line.subject_id)])
    if line.subject_kind == "replay":
        return reverse("replay", args=[ids.public("rpl", line.subject_id)])
    if line.about == "destination":
        return f"{reverse('destinations')}#d-{line.subject_name}"
    if line.subject_kind == "content" and line.content_version_id is not None:
        return reverse("approval", args=[ids.public("cv", line.content_version_id)])
    if line.subject_kind == "event":
        return f"{reverse('operations')}?{urlencode({'q': line.subject_name})}"
    return ""
