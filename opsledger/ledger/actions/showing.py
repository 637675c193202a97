"""The content that wanted operations show: a version that they name, or one that they bring.

Contents are locked in the order of their ids, before any operation. An operation that is recorded already proposes nothing
again: what it brings only decides whether it is the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.actions.content import BadContent, Proposal, open_version_here
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.open import NewOperation, ShownContent
from opsledger.ledger.actions.wanted import Taken, Wanted, WantedContent, refused
from opsledger.ledger.models import Content, ContentVersion, Operation
from opsledger.lib.ids import new_id
from opsledger.rules.content import check_version
from opsledger.rules.identity import canonical_json

Checked = NewOperation | Taken


def with_content_here(
    team_id: UUID, wanted: Sequence[Wanted], checked: Sequence[Checked], by: By, proposed: set[UUID]
) -> list[Checked]:
    """Each operation with the content that it shows, inside the caller's transaction. Into `proposed` goes every content
    that got a version: its other operations are to be moved once this is committed."""
    showing = [one for one in wanted if one.content]
    recorded = Operation.objects.filter(
        team_id=team_id, operation_id__in=[one.operation_id for one in showing]
    )
    contents = _Contents(team_id, by, _lock(team_id, showing), proposed)
    contents.recorded = set(recorded.values_list("operation_id", flat=True))  # read under the locks
    # in the order of the contents' ids: two calls that bring the same new ones wait for each other, never in a ring
    pairs = list(zip(wanted, checked, strict=True))
    order = sorted(range(len(pairs)), key=lambda place: _content_id(pairs[place][0]))
    done = {place: contents.shown_by(*pairs[place]) for place in order}
    return [done[place] for place in range(len(pairs))]


def _content_id(one: Wanted) -> str:
    return one.content.content_id if one.content else ""


def _lock(team_id: UUID, showing: Sequence[Wanted]) -> dict[str, Content]:
    """The contents that exist: FOR NO KEY UPDATE on ledger_content, ordered by id. None is decided or moved meanwhile."""
    ids = sorted({one.content.content_id for one in showing if one.content})
    rows = Content.objects.select_for_update(of=("self",), no_key=True).filter(
        team_id=team_id, content_id__in=ids
    )
    return {row.content_id: row for row in rows.order_by("content_id")}


@dataclass(slots=True)
class _Contents:
    """The contents of one call, locked; and what was shown last, since a batch mostly brings one text again and again."""

    team_id: UUID
    by: By
    known: dict[str, Content]
    proposed: set[UUID]
    recorded: set[str] = field(default_factory=set)
    last: tuple[Proposal, ShownContent] | None = None

    def shown_by(self, one: Wanted, new: Checked) -> Checked:
        if isinstance(new, Taken) or one.content is None:
            return new
        try:
            if one.content.fields is None:
                return new._replace(content=_named(one.content, one.workflow, self.known))
            if one.operation_id in self.recorded:
                return new._replace(content=_only_compared(one.content, new, self.known))
            return new._replace(content=self._brought(one.content, one.workflow))
        except BadContent as why:
            return refused(*((f"content.{name}", message) for name, message in why.problems))

    def _brought(self, wanted: WantedContent, workflow: str) -> ShownContent:
        assert wanted.fields is not None
        proposal = Proposal(
            wanted.content_id, workflow, wanted.fields, wanted.author_kind, wanted.author or self.by.name
        )
        if self.last is not None and self.last[0] == proposal:
            return self.last[1]
        opened = open_version_here(self.team_id, proposal, self.by, reuses=True)
        if opened.new:
            self.proposed.add(opened.of_id)
        content = self.known[wanted.content_id] = Content.objects.get(pk=opened.of_id)
        shown = _showing(content, opened.number, opened.digest, opened.body)
        self.last = (proposal, shown)
        return shown


def _named(wanted: WantedContent, workflow: str, known: dict[str, Content]) -> ShownContent:
    content = known.get(wanted.content_id)
    if content is None:
        raise BadContent(("content_id", "names no content of this team; bring its fields"))
    if content.workflow.slug != workflow:
        raise BadContent(("content_id", f"belongs to workflow {content.workflow.slug}"))
    version = content.versions.filter(number=wanted.version or 0).first()
    if version is None:
        raise BadContent(("version", f"does not exist; the newest is {content.latest_number}"))
    return _showing(content, version.number, bytes(version.digest), version.body)


def _showing(content: Content, number: int, digest: bytes, body: str) -> ShownContent:
    """Whatever was named, what is shown is the version that the content is at."""
    at = content.target_number
    if at is not None and at != number:
        body = ContentVersion.objects.values_list("body", flat=True).get(of=content, number=at)
    shown = number if at is None else at
    return ShownContent(content.pk, content.content_id, digest, number, shown, body)


def _only_compared(wanted: WantedContent, new: NewOperation, known: dict[str, Content]) -> ShownContent:
    workflow = definitions.workflow(new.workflow_version_id)
    kept, problems = check_version(workflow, wanted.fields, None)
    if problems:
        raise BadContent(*problems)
    text = canonical_json(kept)
    digest = hashlib.sha256(text.encode()).digest()
    content = known.get(wanted.content_id)
    return ShownContent(content.pk if content else new_id(), wanted.content_id, digest, 0, 0, text)
