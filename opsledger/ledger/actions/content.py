"""Content versions: proposed, each immutable, and the operations that show the content moved to the newest one.

1. The content's row is locked; the newest version is compared with what is proposed (INSERT, or the same one again).
2. An older proposal that nobody decided is superseded. All that is one transaction with one line in the content's chain.
3. Operations whose steps can still change are moved, in batches that commit. The row says that this is under way, so the
   sweep goes on with it when a process dies; nothing that is left behind is sent in both forms, each step has one request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from opsledger.accounts.models import Person
from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger import definitions
from opsledger.ledger.actions.change import Change, change_each_here
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import UnknownWorkflow, current_workflow
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Content, ContentVersion, Definition
from opsledger.ledger.records import Loaded
from opsledger.ledger.rendering import read_params
from opsledger.rules.building import Problem
from opsledger.rules.content import AuthorKind, VersionState, check_version
from opsledger.rules.definitions import WorkflowDefinition
from opsledger.rules.identity import canonical_json, refuse_own_id
from opsledger.rules.reading import can_be_kept
from opsledger.rules.record import Operation
from opsledger.rules.revisions import may_be_revised, moved_to_content
from opsledger.rules.settling import Moment

NAME_LENGTH_MAX = 200
ORIGIN_LENGTH_MAX = 400
MOVE_BATCH = 500
USABLE = frozenset({VersionState.PROPOSED, VersionState.APPROVED})


@dataclass(frozen=True, slots=True)
class Proposal:
    """A content version as somebody brings it. Nothing of it is checked yet."""

    content_id: str
    workflow: str  # slug
    fields: Mapping[str, Any]
    author_kind: AuthorKind
    author: str  # a person's sign-in name, an automation's or a model's name
    origin: str = ""  # where it comes from, in a few words; "" = said for them
    client_key: str | None = None  # its requester's own: the same proposal again under the same key


@dataclass(frozen=True, slots=True)
class OpenedVersion:
    """What became of a proposal. `new` is False when it was there already."""

    id: UUID
    of_id: UUID
    number: int
    state: VersionState
    new: bool
    digest: bytes
    body: str
    moved_count: int = 0  # operations that show it now instead of an earlier one


class BadContent(Exception):
    """A proposal that can't be taken. `problems` are (field, message); nothing was recorded."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{field}: {why}" for field, why in problems))
        self.problems = problems


def open_content_version(team_id: UUID, proposal: Proposal, by: By) -> OpenedVersion:
    """Proposes a version, unapproved, and moves the operations that can still change to it. Call it outside transactions.

    A person's text again, as the same requester proposed it last, is that version; what a model or an automation wrote is
    always a new one. A client key makes any proposal of its requester the same again. BadContent names the fields to mend.
    """
    with transaction.atomic(durable=True):
        opened = open_version_here(team_id, proposal, by)
    return replace(opened, moved_count=move_operations(opened.of_id)) if opened.new else opened


def open_version_here(team_id: UUID, proposal: Proposal, by: By, *, reuses: bool = False) -> OpenedVersion:
    """The same inside the caller's transaction, without moving anything yet.

    `reuses`: fields that equal the newest usable version's are that version, whoever wrote them.
    """
    try:
        read = read_proposal(team_id, proposal)
    except BadContent:
        known = _told_before(team_id, proposal, by)
        if known is None:
            raise
        return _opened(known, new=False)
    return open_read_version_here(team_id, read, by, reuses=reuses)


def _told_before(team_id: UUID, proposal: Proposal, by: By) -> ContentVersion | None:
    """The version that this proposal was under its key, although its workflow or its author would be refused by now."""
    texts = (proposal.content_id, proposal.client_key or "", proposal.author)
    if not proposal.client_key or not all(map(can_be_kept, texts)):
        return None
    known = ContentVersion.objects.select_related("author_person").filter(
        team_id=team_id, content_id=proposal.content_id, requested_by=by.actor, client_key=proposal.client_key
    ).first()  # fmt: skip
    if known is None or known.workflow.slug != proposal.workflow:
        return None
    text = canonical_json({name: value for name, value in proposal.fields.items() if value is not None})
    wrote = proposal.author.strip()
    writer = known.author_person.email if known.author_person else known.author
    same = (
        hashlib.sha256(text.encode()).digest() == bytes(known.digest)
        and known.author_kind == proposal.author_kind.value
        and writer == (wrote.lower() if known.author_person else wrote)
        and proposal.origin.strip() in {"", known.origin}
    )
    return known if same else None


@dataclass(frozen=True, slots=True)
class ReadProposal:
    """A proposal that fits its workflow. Whether it fits its content is checked where that is locked."""

    proposal: Proposal
    definition: WorkflowDefinition
    workflow_id: UUID
    author: Person | None
    kept: Mapping[str, Any]  # its fields
    text: str  # as they are stored
    digest: bytes

    def check_against(self, workflow_id: UUID | None, before: Mapping[str, Any] | None) -> None:
        """BadContent where its content belongs to another workflow, or has other values in locked fields.

        `before`: the newest version's fields. None of both while there is none.
        """
        if workflow_id not in {None, self.workflow_id}:
            raise BadContent(
                ("workflow", "is another one than this content's; its fields belong to that one")
            )
        wrong = check_version(self.definition, self.kept, before)[1] if before is not None else []
        if wrong:
            raise BadContent(*wrong)


def read_proposal(team_id: UUID, proposal: Proposal) -> ReadProposal:
    """Reads only. BadContent names what can't be taken, whatever its content is."""
    workflow, workflow_id = _workflow(team_id, proposal)
    kept, problems = check_version(workflow, proposal.fields, None)
    if problems := [*_wrong_words(proposal), *problems]:
        raise BadContent(*problems)
    text = canonical_json(kept)
    digest = hashlib.sha256(text.encode()).digest()
    author = _author(team_id, proposal)
    return ReadProposal(proposal, workflow, workflow_id, author, kept, text, digest)


def open_read_version_here(
    team_id: UUID, read: ReadProposal, by: By, *, reuses: bool = False
) -> OpenedVersion:
    proposal, author = read.proposal, read.author
    content = lock_content(team_id, proposal.content_id, read.workflow_id)
    read.check_against(content.workflow_id, None)
    newest = content.versions.order_by("-number").first()
    again = _again(content, newest, proposal, read.digest, author, by, reuses=reuses)
    if again is not None:
        return _opened(again, new=False)
    read.check_against(content.workflow_id, read_params(newest.body) if newest else None)
    return _opened(_write(content, newest, proposal, by, author, read.text, read.digest), new=True)


def _workflow(team_id: UUID, proposal: Proposal) -> tuple[WorkflowDefinition, UUID]:
    try:
        current = current_workflow(team_id, proposal.workflow)
    except UnknownWorkflow as why:
        raise BadContent(("workflow", str(why))) from why
    workflow = definitions.workflow(current.version_id)
    if not workflow.content:
        raise BadContent(("workflow", f"{proposal.workflow} has no content; send everything as params"))
    found = Definition.objects.values_list("pk", flat=True).get(
        team_id=team_id, kind=Definition.Kind.WORKFLOW, slug=proposal.workflow
    )
    return workflow, found


def _wrong_words(proposal: Proposal) -> list[Problem]:
    problems = [("content_id", why) for why in refuse_own_id(proposal.content_id)]
    if not 1 <= len(proposal.author.strip()) <= NAME_LENGTH_MAX:
        problems.append(("author.name", f"must have 1 to {NAME_LENGTH_MAX} characters"))
    if len(proposal.origin) > ORIGIN_LENGTH_MAX or "\x00" in proposal.origin:
        problems.append(("origin", f"must have at most {ORIGIN_LENGTH_MAX} characters, without NUL"))
    if proposal.client_key is not None and not 1 <= len(proposal.client_key) <= NAME_LENGTH_MAX:
        problems.append(("client_key", f"must have 1 to {NAME_LENGTH_MAX} characters"))
    return problems


def _author(team_id: UUID, proposal: Proposal) -> Person | None:
    """The person who wrote it: somebody of the team, who then may not approve it."""
    if proposal.author_kind is not AuthorKind.PERSON:
        return None
    people = Person.objects.filter(is_active=True, memberships__team_id=team_id).distinct()
    found = people.filter(email=proposal.author.strip().lower()).first()
    if found is None:
        raise BadContent(("author.name", "must be the sign-in name of an active person of this team"))
    return found


def lock_content(team_id: UUID, content_id: str, workflow_id: UUID) -> Content:
    """The content's row, made where it is new, locked (FOR NO KEY UPDATE on ledger_content; before any operation)."""
    made = Content(team_id=team_id, content_id=content_id, workflow_id=workflow_id, created_at=database_now())
    Content.objects.bulk_create([made], ignore_conflicts=True)
    return Content.objects.select_for_update(of=("self",), no_key=True).get(
        team_id=team_id, content_id=content_id
    )


def _again(
    content: Content,
    newest: ContentVersion | None,
    proposal: Proposal,
    digest: bytes,
    author: Person | None,
    by: By,
    *,
    reuses: bool,
) -> ContentVersion | None:
    """The version that this proposal is already."""
    if proposal.client_key is not None:
        # of this requester alone: who asked for a version may not approve it
        own_key = content.versions.filter(requested_by=by.actor, client_key=proposal.client_key)
        known = own_key.first()
        if known is not None:
            _same_or_refused(known, proposal, digest, author)
            return known
    if newest is None or bytes(newest.digest) != digest:
        return None
    if reuses and newest.state in USABLE:
        return newest
    # brought by another person it is another version: who asked for it may not approve it
    own = author is not None and (newest.author_person_id, newest.requested_by) == (author.pk, by.actor)
    return newest if own and newest.state == VersionState.PROPOSED else None


def _same_or_refused(known: ContentVersion, proposal: Proposal, digest: bytes, author: Person | None) -> None:
    """BadContent names what is not as it came the first time under this key."""
    wrote = (proposal.author_kind.value, author.pk if author else proposal.author.strip())
    stands = (known.author_kind, known.author_person_id or known.author)
    same = {
        "fields": bytes(known.digest) == digest,
        "author": stands == wrote,
        "origin": proposal.origin.strip() in {"", known.origin},
    }
    differs = ", ".join(name for name, is_same in same.items() if not is_same)
    if differs:
        why = f"was used for version {known.number}, which says something else: {differs}."
        raise BadContent(
            ("client_key", f"{why} Nothing was recorded; send the first one again, or use another key")
        )


def _write(
    content: Content,
    newest: ContentVersion | None,
    proposal: Proposal,
    by: By,
    author: Person | None,
    text: str,
    digest: bytes,
) -> ContentVersion:
    number = content.latest_number + 1
    superseded = list(content.versions.filter(state=VersionState.PROPOSED).values_list("number", flat=True))
    set_state(content, superseded, VersionState.SUPERSEDED)
    origin = proposal.origin.strip() or _origin(proposal, newest)
    version = ContentVersion.objects.create(
        team_id=content.team_id, of=content, content_id=content.content_id, workflow_id=content.workflow_id,
        number=number, digest=digest, body=text, author_kind=proposal.author_kind.value,
        author=author.display_name if author else proposal.author.strip(), author_person=author, origin=origin,
        requested_by=by.actor, requested_by_person_id=by.person_id, client_key=proposal.client_key,
        created_at=database_now(),
    )  # fmt: skip
    Content.objects.filter(pk=content.pk).update(latest_number=number, target_number=number, moving=True)
    states = {number: VersionState.PROPOSED} | dict.fromkeys(superseded, VersionState.SUPERSEDED)
    facts = {
        "number": number,
        "digest": digest.hex(),
        "author_kind": proposal.author_kind.value,
        "author_person": str(author.pk) if author else None,
        "workflow": proposal.workflow,
        "origin": keep_text(content.pk, origin),
    }
    append_content_line(content.pk, "content_proposed", by, states, facts)
    return version


def _origin(proposal: Proposal, newest: ContentVersion | None) -> str:
    if proposal.author_kind is AuthorKind.MODEL:
        return f"{'regenerated' if newest else 'written'} by {proposal.author.strip()}"
    if proposal.author_kind is AuthorKind.AUTOMATION:
        return f"brought by {proposal.author.strip()}"
    return f"edit of version {newest.number}" if newest else "written by hand"


def set_state(content: Content, numbers: Sequence[int], state: VersionState, **decision: Any) -> None:
    """The state of versions of a locked content; whoever read them before is stale."""
    if numbers:
        rows = content.versions.filter(number__in=numbers)
        for row in rows:
            content.versions.filter(pk=row.pk).update(state=state, version=row.version + 1, **decision)


def append_content_line(
    of_id: UUID, kind: str, by: By, states: Mapping[int, VersionState], facts: Mapping[str, Any]
) -> None:
    """One line of a content's chain. `states`: what becomes of which version; folding them gives the rows."""
    told = {str(number): state.value for number, state in states.items()}
    kept = {name: value for name, value in facts.items() if value is not None}
    append([Line("content", of_id, kind, by.actor, body({**kept, "states": told}))])


def _opened(version: ContentVersion, *, new: bool) -> OpenedVersion:
    state = VersionState(version.state)
    return OpenedVersion(
        version.pk, version.of_id, version.number, state, new, bytes(version.digest), version.body
    )


# Moving operations to the version that their content is at. Those that are sent at this moment are locked, too: whoever
# records that nothing took effect (`change`) either comes first, and they are moved here, or reads the new version.

_MOVABLE = """
SELECT o.id FROM ledger_operation o
 WHERE o.content_id = %s AND o.ended_at IS NULL AND NOT o.cancelled AND o.id > %s
   AND EXISTS (SELECT 1 FROM ledger_step s
                WHERE s.operation_id = o.id AND s.content_number <> %s
                  AND s.state IN ('waiting', 'ready', 'in_flight', 'unknown') OFFSET 0)
 ORDER BY o.id LIMIT %s
"""


def move_operations(of_id: UUID) -> int:
    """Moves the steps that can still change to the version that their content is at. Returns how many operations did.

    One that breaks holds up no other; the sweep tries it again.
    """
    moved, broken, after, target = 0, False, UUID(int=0), None
    while True:
        with transaction.atomic(durable=True):
            content = Content.objects.select_for_update(of=("self",), no_key=True).get(pk=of_id)
            if not content.moving or content.target_number is None:
                return moved
            if content.target_number != target:  # another version meanwhile: from the beginning
                target, after, broken = content.target_number, UUID(int=0), False
            ids = _movable(of_id, after, target)
            count, whole = _move(content, target, ids)
            moved, broken = moved + count, broken or not whole
            if len(ids) < MOVE_BATCH:
                Content.objects.filter(pk=of_id).update(moving=broken)
                return moved
            after = ids[-1]


def _movable(of_id: UUID, after: UUID, target: int) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_MOVABLE, [of_id, after, target, MOVE_BATCH])
        return [row[0] for row in cursor.fetchall()]


def _move(content: Content, target: int, ids: Sequence[UUID]) -> tuple[int, bool]:
    """How many were moved, and whether none of them broke."""
    if not ids:
        return 0, True
    version = content.versions.get(number=target)
    changed = change_each_here({one: moving(version) for one in ids})
    return sum(1 for one in changed.values() if one.after != one.loaded.record), len(changed) == len(ids)


def moving(version: ContentVersion) -> Change:
    """The change that moves one operation to a version: another revision of each step that can still change."""

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        record = loaded.record
        others = [step for step in record.steps if step.content_number not in {None, version.number}]
        if not any(may_be_revised(record, step) for step in others):
            return record.copy()  # it is under way
        loaded.contents[version.number] = version.body
        return moved_to_content(loaded.record, version.number, moment)

    return Change(
        kind="content_moved",
        actor=version.requested_by,
        decide=decide,
        facts={"content": str(version.of_id), "content_number": version.number},
        closed_by="superseded",
        revision_kind="moved",
        void_reason=f"its content is at version {version.number} now",
        quiet=True,
    )


def record_moves(limit: int) -> int:
    """Goes on with moves that a process left behind. Returns how many operations were moved."""
    found = Content.objects.filter(moving=True).order_by("pk").values_list("pk", flat=True)[:limit]
    return sum(move_operations(of_id) for of_id in list(found))
