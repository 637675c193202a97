"""Proposed answers that are open: of one hold with all that they say, and of a page of holds by name only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.ledger.models import Proposal
from opsledger.ledger.queries.timeline import names_of
from opsledger.rules.answers import Answer

NAMES_MAX = 200  # of proposers on one page of the inbox


@dataclass(frozen=True, slots=True)
class ProposedAnswer:
    id: UUID
    hold_id: UUID
    hold_version: int
    proposer: str
    name: str  # the proposer's
    author_kind: str
    author_name: str  # of a model or an automation, by the proposer's word
    answer: Answer
    reference: str | None
    form: Mapping[str, Any]
    texts: Mapping[str, str | None]  # None: erased
    made_at: datetime


def proposal_of(proposal_id: UUID, team_ids: Sequence[UUID]) -> Proposal | None:
    """A proposal, open or ended, with its hold; None when it does not exist for these teams."""
    rows = Proposal.objects.select_related("hold", "hold__step")
    return rows.filter(pk=proposal_id, team_id__in=team_ids).first()


def open_proposals_of(hold_ids: Sequence[UUID]) -> dict[UUID, list[ProposedAnswer]]:
    """Those of open holds, by hold, oldest first."""
    rows = Proposal.objects.filter(hold_id__in=list(hold_ids), ended_at__isnull=True).order_by(
        "made_at", "pk"
    )
    found: dict[UUID, list[ProposedAnswer]] = {}
    for one in shown(list(rows)):
        found.setdefault(one.hold_id, []).append(one)
    return found


def open_proposals(hold_id: UUID) -> list[ProposedAnswer]:
    """Those of an open hold, oldest first."""
    return open_proposals_of([hold_id]).get(hold_id, [])


def shown(rows: Sequence[Proposal]) -> list[ProposedAnswer]:
    """Proposals with their texts and their proposers' names."""
    if not rows:
        return []
    names, texts = names_of([row.proposer for row in rows]), texts_of(rows)
    return [
        ProposedAnswer(
            row.pk, row.hold_id, row.hold_version, row.proposer, names.get(row.proposer, row.proposer), row.author_kind,
            row.author_name, Answer(row.answer), json.loads(row.form)["reference"], json.loads(row.form), texts[row.pk],
            row.made_at,
        )
        for row in rows
    ]  # fmt: skip


def texts_of(rows: Sequence[Proposal]) -> dict[UUID, dict[str, str | None]]:
    """The texts of proposals by what they are; None for one that was erased."""
    named = {row.pk: json.loads(row.texts) for row in rows}
    wanted = [text["text"] for texts in named.values() for text in texts.values()]
    if not wanted:
        return {pk: {} for pk in named}
    with connection.cursor() as cursor:
        cursor.execute("SELECT id::text, text FROM journal_text WHERE id = ANY(%s::uuid[])", [wanted])
        found: dict[str, str | None] = dict(cursor.fetchall())
    return {
        pk: {name: found.get(text["text"]) for name, text in texts.items()} for pk, texts in named.items()
    }


def proposers_of(hold_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Who proposed an answer to these open holds, by name: one statement by index for a page of the inbox."""
    if not hold_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.hold_id, coalesce(w.display_name, t.name, '') FROM ledger_proposal p"
            " LEFT JOIN person w ON w.id = p.proposer_person_id"
            " LEFT JOIN api_token t ON p.proposer_person_id IS NULL AND p.proposer = 'token:' || t.id::text"
            f" WHERE p.hold_id = ANY(%s) AND p.ended_at IS NULL ORDER BY p.made_at, p.id LIMIT {NAMES_MAX}",
            [list(hold_ids)],
        )
        found: dict[UUID, list[str]] = {}
        for hold_id, name in cursor.fetchall():
            found.setdefault(hold_id, []).append(name)
        return found
