"""Provider's statements that actions did not happen: kept as they came, with the questions that they cover as these stand.

A statement changes no step. It may be the ground of a replay, whose start answers each covered question with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import transaction

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.bulk import lock_selection
from opsledger.ledger.actions.deciding import By, Refused, check_length
from opsledger.ledger.actions.lists import plain_name
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import ProviderStatement, Selection, StatementCover
from opsledger.ledger.queries.bulk import groups_of, remaining
from opsledger.ledger.queries.lists import Target, headings_for, identities_of, targets_of
from opsledger.lib.ids import new_id
from opsledger.rules.bulk import Verb
from opsledger.rules.bulk_verbs import why_not
from opsledger.rules.identity import digest
from opsledger.rules.list_matching import Cover, covered
from opsledger.rules.reference_list import BYTES_MAX, UnreadableList, read_list

WORDS_LENGTH_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Said:
    """What a provider said, and how it came."""

    how: str  # it was asked
    words: str = ""
    file_name: str = ""
    file: bytes = b""
    listed: bytes | None = None  # the identities that it covers; None: all that was selected
    ticket: str = ""


def keep_statement(selection: Selection, said: Said, by: By) -> ProviderStatement:
    """Keeps a statement about a selection; nothing follows from it yet. The same one again is the one that is kept.

    It covers the holds that its list names, or all, as far as they still ask whether it happened, have not changed since
    they were chosen, and nothing was found or named that contradicts it. Refused where that is none, and where something is
    missing or can't be read.
    """
    why = why_not(Verb.ABSENT, remaining(groups_of(selection.pk)))
    if why:
        raise Refused(why)
    said = replace(said, words=said.words.replace("\x00", "␀"))
    _check(said)
    targets = targets_of(selection.pk, Verb.ABSENT)
    identities = _identities(said, targets)
    fed = digest(b"statement 1", said.words.encode(), said.file, said.listed or b"", said.how.encode())
    with transaction.atomic(durable=True):
        lock_selection(selection.pk)
        known = ProviderStatement.objects.filter(selection=selection, digest=fed).first()
        if known is not None:
            return known
        covers = covered([one.sought for one in targets], identities)
        here = [one for one in targets if covers[one.sought.hold_id] is Cover.COVERED]
        if not here:
            raise Refused(
                "The statement covers none of the selected holds, so nothing can follow from it.",
                field="list",
            )
        return _keep(selection, said, by, fed, here)


def _check(said: Said) -> None:
    if not said.words.strip() and not said.file:
        raise Refused("Write what the provider said, or attach it.", field="words")
    if len(said.words) > WORDS_LENGTH_MAX:
        raise Refused(
            f"The words are longer than {WORDS_LENGTH_MAX:,} characters; attach them as a file.",
            field="words",
        )
    if len(said.file) > BYTES_MAX:
        raise Refused(
            f"The file has {len(said.file):,} bytes; it may have {BYTES_MAX:,}. Nothing was kept.",
            field="file",
        )
    if not said.how.strip():
        raise Refused("Say how it was asked, and who answered.", field="how")
    for name, text in (("how", said.how), ("ticket", said.ticket)):
        check_length(text, "This", name)


def _identities(said: Said, targets: Sequence[Target]) -> set[str] | None:
    if said.listed is None:
        return None
    try:
        listed = read_list(said.listed, headings_for(targets), identities_of(targets), identities_alone=True)
    except UnreadableList as bad:
        raise Refused(str(bad), field="list") from bad
    if not listed.identities:
        raise Refused(
            "The list names no identities, only references; what did not happen has none. Nothing was kept.",
            field="list",
        )
    return listed.identities


def _keep(selection: Selection, said: Said, by: By, fed: bytes, here: Sequence[Target]) -> ProviderStatement:
    how = keep_text(selection.team_id, said.how)
    ticket = keep_text(selection.team_id, said.ticket) if said.ticket.strip() else None
    kept = ProviderStatement(
        id=new_id(), team_id=selection.team_id, selection=selection, person_id=by.person_id, made_at=database_now(),
        words=said.words, file_name=plain_name(said.file_name) if said.file else "", file=said.file,
        listed=said.listed, how=json.dumps(how), ticket=json.dumps(ticket) if ticket else "", digest=fed,
        covered_count=len(here),
    )  # fmt: skip
    kept.save(force_insert=True)
    StatementCover.objects.bulk_create(
        StatementCover(
            statement=kept, operation_id=one.operation_id, number=one.number, hold_id=one.hold_id,
            attempt_count=one.attempt_count,
        )
        for one in here
    )  # fmt: skip
    facts = {
        "statement": str(kept.pk), "selection": str(selection.pk), "digest": fed.hex(), "covered": len(here),
        "how": how, "ticket": ticket,
    }  # fmt: skip
    line = body({name: value for name, value in facts.items() if value is not None})
    append([Line("team", selection.team_id, "statement_kept", by.actor, line)])
    return kept
