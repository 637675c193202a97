"""Intended actions that name more than parameters: people, events, earlier operations, content.

Everything is read and judged before anything is written, so that what is refused changes nothing:

1. What is recorded already is read, then what is named; contents are locked (`showing`), the rest is not.
2. In their order each is judged: the same one again, another action under a taken id, refused, or new. Of several with one
   id the first that passes is new, and the others are compared with it.
3. Only what passed is written, in one order for all calls: contents by id, events by source and key, then the existing
   operations that are replaced or get an event, locked by id, then the new ones by own id, then links.
4. What was read without a lock is read again under it. Where it has changed, `Moved` ends the transaction, and the caller
   begins again. So calls that cross wait for each other, and never in a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from opsledger.accounts.models import Membership
from opsledger.accounts.permissions import Role
from opsledger.ledger import definitions
from opsledger.ledger.actions.content import BadContent, ReadProposal
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.earlier import Earlier, earlier_of, replaced_by
from opsledger.ledger.actions.events import EventName, event_names, open_named_events_here
from opsledger.ledger.actions.open import (
    Link,
    NewOperation,
    ShownContent,
    add_events_here,
    open_operations_here,
)
from opsledger.ledger.actions.opened import Known, Opened, compare, known_as, known_of
from opsledger.ledger.actions.showing import Contents, lock_contents_here, told
from opsledger.ledger.actions.wanted import Moved, Taken, Verdict, Wanted, refused
from opsledger.ledger.queries.names import find_all_named
from opsledger.ledger.records import lock
from opsledger.lib.ids import new_id
from opsledger.rules.building import Problem
from opsledger.rules.definitions import check_params

Checked = NewOperation | Taken


def open_naming_here(
    team_id: UUID, wanted: Sequence[Wanted], checked: Sequence[Checked], by: By
) -> tuple[list[Taken], set[UUID]]:
    """One answer each, in order, inside the caller's transaction; and the contents whose other operations are to be moved.

    `checked`: what each is by itself. Moved where something that was read has changed: roll back and begin again.
    """
    items = [_Item(one, new) for one, new in zip(wanted, checked, strict=True)]
    call = _read(team_id, wanted, by)
    for item in items:
        call.judge(item)
    call.write(items)
    return [item.answer() for item in items], call.contents.proposed


def as_recorded(team_id: UUID, one: Wanted, known: Known, by: By) -> NewOperation | None:
    """The wanted one without its content, as the workflow version reads it that the recorded one keeps; None if it can't."""
    if one.workflow != known.workflow_slug:
        return None
    params, wrong = check_params(definitions.workflow(known.workflow_version_id), one.params)
    if wrong:
        return None
    return NewOperation(
        team_id, one.operation_id, known.workflow_version_id, {}, params, by.actor,
        event_id=one.event_id, not_after=one.not_after,
    )  # fmt: skip


@dataclass(slots=True, eq=False)
class _Item:
    one: Wanted
    checked: Checked
    taken: Taken | None = None
    new: NewOperation | None = None  # passed, and the first of its id
    brings: ReadProposal | None = None
    known: Known | None = None  # what others of this call with its id are compared with
    other: _Item | None = None  # one of this call that its answer names
    number: UUID | None = None  # of the operation that its event belongs to

    def answer(self) -> Taken:
        assert self.taken is not None
        if self.other is None:
            return self.taken
        named = self.other.answer().opened
        assert named is not None
        assert self.taken.opened is not None
        return self.taken._replace(opened=self.taken.opened._replace(id=named.id, state=named.state))


def _read(team_id: UUID, wanted: Sequence[Wanted], by: By) -> _Call:
    known = {own: one for (_, own), one in known_of((team_id, one.operation_id) for one in wanted).items()}
    new = [one for one in wanted if one.operation_id not in known]
    contents = lock_contents_here(team_id, [one.content for one in new if one.content], by)
    ids = find_all_named(team_id, {one.replaces for one in wanted if one.replaces})
    return _Call(
        team_id=team_id,
        by=by,
        known=known,
        contents=contents,
        owners=_owners(team_id, {_sign_in(one.owner) for one in wanted if one.owner}),
        events=event_names(team_id, [(one.event.source, one.event.event_id) for one in wanted if one.event]),
        ids=ids,
        earlier=earlier_of({ids[one.replaces] for one in new if one.replaces in ids}),
    )


def _sign_in(name: str) -> str:
    return name.strip().lower()


def _owners(team_id: UUID, names: set[str]) -> dict[str, UUID]:
    if not names:
        return {}
    rows = Membership.objects.filter(team_id=team_id, role=Role.OWNER.value, person__is_active=True)
    return dict(rows.filter(person__email__in=names).values_list("person__email", "person_id"))


@dataclass(slots=True)
class _Call:
    """What was read for one call, and what its items have taken so far."""

    team_id: UUID
    by: By
    known: dict[str, Known]
    contents: Contents
    owners: dict[str, UUID]
    events: dict[tuple[str, str], EventName]
    ids: dict[str, UUID]  # of the operations that `replaces` names
    earlier: dict[UUID, Earlier]
    firsts: dict[str, _Item] = field(default_factory=dict)  # by own id
    replacing: dict[UUID, _Item] = field(default_factory=dict)  # by the operation that is replaced

    # Judging: nothing is written

    def judge(self, item: _Item) -> None:
        known, first = self.known.get(item.one.operation_id), self.firsts.get(item.one.operation_id)
        if known is not None:
            item.taken = self._again(item, known)
        elif first is not None and first.known is not None:
            item.taken, item.other = self._again(item, first.known), first
            if item.taken.opened is None:
                item.other = None
        else:
            item.taken = self._judged(item)

    def _again(self, item: _Item, known: Known) -> Taken:
        """The same one again, or another action; refused where nobody can tell what it says."""
        one, new = item.one, self._as_told(item, known)
        if isinstance(new, Taken):
            return new
        opened = compare(new, known)
        if one.replaces and one.replaces not in self.ids:
            opened = opened._replace(differs=(*opened.differs, "replaces"))
        if opened.differs:
            return Taken(Verdict.CONFLICT, opened)
        item.number = known.id
        if one.owner and new.owner_id is None:
            opened = opened._replace(stands=("owner", *opened.stands))
        if one.event and self._event(one) is None:
            opened = opened._replace(stands=(*opened.stands, "source_event"))
        return Taken(Verdict.SAME, opened)

    def _as_told(self, item: _Item, known: Known) -> Checked:
        why: Taken | None = None
        for new in (as_recorded(self.team_id, item.one, known, self.by), item.checked):
            if isinstance(new, NewOperation):
                try:
                    return self._named(item.one, new, self._told_content(item.one, new))
                except BadContent as bad:
                    why = why or _refused_content(bad)
        if isinstance(item.checked, Taken):
            return item.checked
        assert why is not None
        return why

    def _told_content(self, one: Wanted, new: NewOperation) -> ShownContent | None:
        if one.content is None:
            return None
        if one.content.fields is None and one.operation_id not in self.known:
            return self.contents.read(one)[0]  # it may name what an earlier one of this call brings
        return told(self.team_id, one.content, new.workflow_version_id)

    def _named(self, one: Wanted, new: NewOperation, content: ShownContent | None) -> NewOperation:
        return new._replace(
            owner_id=self.owners.get(_sign_in(one.owner)) if one.owner else None,
            replaces=self.ids.get(one.replaces) if one.replaces else None,
            content=content,
        )

    def _event(self, one: Wanted) -> EventName | None:
        return self.events.get((one.event.source, one.event.event_id)) if one.event else None

    def _judged(self, item: _Item) -> Taken | None:
        """None: it is new, and is to be recorded."""
        one, new = item.one, item.checked
        problems = self._problems(one)
        if isinstance(new, Taken):
            return refused(*new.problems, *problems)
        if problems:
            return refused(*problems)
        new = self._named(one, new, None)
        if new.replaces is not None:
            other = self.replacing.get(new.replaces)
            if other is not None:
                item.other = other
                return replaced_by(other.one.operation_id, Opened(new.replaces, "", False))
            not_now = self.earlier[new.replaces].refused
            if not_now is not None:
                return not_now
        try:
            content, item.brings = self.contents.read(one)
        except BadContent as why:
            return _refused_content(why)
        self._pass(item, new._replace(content=content))
        return None

    def _problems(self, one: Wanted) -> list[Problem]:
        problems: list[Problem] = []
        if one.owner and _sign_in(one.owner) not in self.owners:
            problems.append(
                ("owner", "must be the sign-in name of an active person with the role owner here")
            )
        if one.event and self._event(one) is None:
            problems.append(("source_event.source", "is not a source of this team"))
        if one.replaces and one.replaces not in self.ids:
            problems.append(("replaces", "names no operation of this team"))
        return problems

    def _pass(self, item: _Item, new: NewOperation) -> None:
        item.new, item.known = new, known_as(new, new_id())
        self.firsts[item.one.operation_id] = item
        if new.replaces is not None:
            self.replacing[new.replaces] = item

    # Writing: in the order that all calls keep

    def write(self, items: Sequence[_Item]) -> None:
        new = [item for item in items if item.new is not None]
        again = [item for item in items if item.number is not None]
        self._write_contents(new)
        events = self._write_events([*new, *again])
        self._lock([item for item in again if item in events])
        recorded = open_operations_here(
            [item.new._replace(event_id=events.get(item)) for item in new if item.new is not None]
        )
        if not all(opened.new for opened in recorded):
            raise Moved
        for item, opened in zip(new, recorded, strict=True):
            item.taken = Taken(Verdict.RECORDED, opened)
        self._link(again, events)

    def _write_contents(self, new: Sequence[_Item]) -> None:
        showing = [item for item in new if item.brings is not None]
        for item in sorted(showing, key=lambda item: item.brings.proposal.content_id if item.brings else ""):
            assert item.new is not None
            assert item.brings is not None
            try:
                item.new = item.new._replace(content=self.contents.write(item.one, item.brings))
            except BadContent as why:
                raise Moved from why

    def _write_events(self, items: Sequence[_Item]) -> dict[_Item, UUID]:
        """The event of each that has one: named by an automation, or in the ledger already."""
        named = {item: name for item in items if (name := self._event(item.one)) is not None}
        ids = open_named_events_here(self.team_id, named.values(), actor=self.by.actor)
        kept = {item: item.one.event_id for item in items if item.one.event_id is not None}
        return {**kept, **{item: ids[name] for item, name in named.items()}}

    def _lock(self, linked: Sequence[_Item]) -> None:
        """Operations that exist: those that are replaced, and those that get another event (FOR UPDATE, ordered by id)."""
        ids = {item.number for item in linked if item.other is None and item.number is not None}
        if ids or self.replacing:
            lock({*ids, *self.replacing})
        if any(one.refused for one in earlier_of(self.replacing).values()):
            raise Moved

    def _link(self, again: Sequence[_Item], events: dict[_Item, UUID]) -> None:
        links = []
        for item in again:
            opened = item.answer().opened
            if item in events and opened is not None:
                links.append(Link(opened.id, events[item], self.by.actor, False))
        add_events_here(links)


def _refused_content(why: BadContent) -> Taken:
    return refused(*((f"content.{name}", message) for name, message in why.problems))
