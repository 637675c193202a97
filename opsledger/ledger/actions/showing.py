"""The content that wanted operations show: a version that they name, or one that they bring.

1. `lock_contents_here` locks the contents that exist, in the order of their ids, before any event and any operation.
2. `Contents.read` says what one would show, and refuses it without having written anything. What earlier ones of the same
   call bring counts as if it were there.
3. `Contents.write` proposes what was read, in the order of the contents' ids.

What is recorded already proposes nothing again: what it brings only decides whether it is the same one (`told`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.actions.content import (
    USABLE,
    BadContent,
    Proposal,
    ReadProposal,
    open_read_version_here,
    read_proposal,
)
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.open import ShownContent
from opsledger.ledger.actions.wanted import Moved, Wanted, WantedContent
from opsledger.ledger.models import Content, ContentVersion
from opsledger.ledger.rendering import read_params
from opsledger.lib.ids import new_id
from opsledger.rules.content import check_version
from opsledger.rules.identity import canonical_json


def told(team_id: UUID, wanted: WantedContent, workflow_version_id: UUID) -> ShownContent:
    """What an operation that is recorded is compared with. Reads only; BadContent where it can't be read."""
    content = Content.objects.filter(team_id=team_id, content_id=wanted.content_id).first()
    if wanted.fields is None:
        return _named(wanted, definitions.workflow(workflow_version_id).slug, content)
    kept, problems = check_version(definitions.workflow(workflow_version_id), wanted.fields, None)
    if problems:
        raise BadContent(*problems)
    text = canonical_json(kept)
    return _not_yet(content, wanted.content_id, hashlib.sha256(text.encode()).digest(), text)


def lock_contents_here(team_id: UUID, wanted: Iterable[WantedContent], by: By) -> Contents:
    """The contents that exist: FOR NO KEY UPDATE on ledger_content, ordered by id. None is decided or moved meanwhile."""
    ids = sorted({one.content_id for one in wanted})
    if not ids:
        return Contents(team_id, by, {})
    rows = Content.objects.select_for_update(of=("self",), no_key=True).filter(
        team_id=team_id, content_id__in=ids
    )
    return Contents(team_id, by, {row.content_id: row for row in rows.order_by("content_id")})


@dataclass(frozen=True, slots=True)
class _Newest:
    """A content's newest version, as it is or as it will be once what was read is written."""

    workflow_id: UUID
    number: int = 0
    digest: bytes = b""
    usable: bool = False
    fields: Mapping[str, Any] | None = None

    def after(self, read: ReadProposal) -> _Newest:
        again = self.usable and self.digest == read.digest
        number = self.number if again else self.number + 1
        return _Newest(read.workflow_id, number, read.digest, True, read.kept)


@dataclass(slots=True)
class Contents:
    """The contents of one call, locked. `proposed`: those that got a version; their other operations are to be moved."""

    team_id: UUID
    by: By
    known: dict[str, Content]
    proposed: set[UUID] = field(default_factory=set)
    _newest: dict[str, _Newest] = field(default_factory=dict)
    _brought: dict[tuple[str, int], ReadProposal] = field(default_factory=dict)
    # a batch mostly brings one text again and again
    _last_read: ReadProposal | None = None
    _last_shown: tuple[ReadProposal, ShownContent] | None = None

    def read(self, one: Wanted) -> tuple[ShownContent | None, ReadProposal | None]:
        """What it shows, as far as that is known before it is written; and what it brings. BadContent refuses it."""
        wanted = one.content
        if wanted is None:
            return None, None
        if wanted.fields is not None:
            return self._read_fields(wanted, one.workflow)
        brought = self._brought.get((wanted.content_id, wanted.version or 0))
        if brought is not None and brought.proposal.workflow == one.workflow:
            return self._will_show(brought), brought
        return _named(wanted, one.workflow, self.known.get(wanted.content_id)), None

    def _read_fields(self, wanted: WantedContent, workflow: str) -> tuple[ShownContent, ReadProposal]:
        assert wanted.fields is not None
        author = wanted.author or self.by.name
        proposal = Proposal(wanted.content_id, workflow, wanted.fields, wanted.author_kind, author)
        if self._last_read is None or self._last_read.proposal != proposal:
            read = read_proposal(self.team_id, proposal)
            newest = self._newest_of(wanted.content_id)
            if newest is not None:
                read.check_against(newest.workflow_id, newest.fields)
            newest = (newest or _Newest(read.workflow_id)).after(read)
            self._newest[wanted.content_id] = newest
            self._brought.setdefault((wanted.content_id, newest.number), read)
            self._last_read = read
        return self._will_show(self._last_read), self._last_read

    def _newest_of(self, content_id: str) -> _Newest | None:
        content = self.known.get(content_id)
        if content_id not in self._newest and content is not None:
            self._newest[content_id] = _newest_of(content)
        return self._newest.get(content_id)

    def _will_show(self, read: ReadProposal) -> ShownContent:
        return _not_yet(
            self.known.get(read.proposal.content_id), read.proposal.content_id, read.digest, read.text
        )

    def write(self, one: Wanted, read: ReadProposal) -> ShownContent:
        """Proposes what was read, or finds what was proposed a moment before; Moved where it has become another version."""
        assert one.content is not None
        if one.content.fields is None:
            return _named(one.content, one.workflow, self.known.get(one.content.content_id))
        if self._last_shown is not None and self._last_shown[0] is read:
            return self._last_shown[1]
        opened = open_read_version_here(self.team_id, read, self.by, reuses=True)
        content_id = read.proposal.content_id
        if self._brought.get((content_id, opened.number)) is None:
            raise Moved
        if opened.new:
            self.proposed.add(opened.of_id)
        content = self.known[content_id] = Content.objects.get(pk=opened.of_id)
        shown = _showing(content, opened.number, opened.digest, opened.body)
        self._last_shown = (read, shown)
        return shown


def _newest_of(content: Content) -> _Newest:
    version = content.versions.order_by("-number").first()
    if version is None:
        return _Newest(content.workflow_id)
    usable, fields = version.state in USABLE, read_params(version.body)
    return _Newest(content.workflow_id, version.number, bytes(version.digest), usable, fields)


def _not_yet(content: Content | None, content_id: str, digest: bytes, text: str) -> ShownContent:
    return ShownContent(content.pk if content else new_id(), content_id, digest, 0, 0, text)


def _named(wanted: WantedContent, workflow: str, content: Content | None) -> ShownContent:
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
