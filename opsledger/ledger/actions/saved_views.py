"""Writers of saved views. Each locks the row of whose they are (the person, or the team; FOR NO KEY UPDATE) first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from opsledger.accounts.models import Person, Team
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.models import SavedView
from opsledger.ledger.models.saved_views import NAME_LENGTH_MAX, QUERY_LENGTH_MAX, VIEWS_MAX
from opsledger.lib.ids import new_id


def save_view(team_id: UUID, person_id: UUID | None, name: str, query: str, author_id: UUID) -> UUID:
    """Keeps a filter, after those that there are. `person_id` None: the team's. `query` is canonical already."""
    if len(query) > QUERY_LENGTH_MAX:
        raise Refused("This filter is too long to be kept.", field="name")
    with transaction.atomic(durable=True):
        _lock_owner(team_id, person_id)
        count = _of_same(team_id, person_id).count()
        if count >= VIEWS_MAX:
            whose = "You have" if person_id else "The team has"
            raise Refused(f"{whose} {VIEWS_MAX} saved views already. Remove one first; nothing was saved.")
        row = SavedView(
            id=new_id(), team_id=team_id, person_id=person_id, holder_id=person_id or team_id, name=_name(name),
            query=query, author_id=author_id, position=count + 1,
        )  # fmt: skip
        with _free_name(row.name):
            row.save(force_insert=True)
        return row.pk


def rename_view(view: SavedView, name: str) -> None:
    with transaction.atomic(durable=True):
        _lock_owner(view.team_id, view.person_id)
        clean = _name(name)
        with _free_name(clean):
            SavedView.objects.filter(pk=view.pk).update(name=clean)


def move_view(view: SavedView, *, up: bool) -> None:
    """One place up or down: it and its neighbour change places. At the end of the list nothing moves."""
    with transaction.atomic(durable=True):
        _lock_owner(view.team_id, view.person_id)
        of_same = _of_same(view.team_id, view.person_id)
        row = of_same.filter(pk=view.pk).first()
        other = of_same.filter(position=row.position + (-1 if up else 1)).first() if row else None
        if row is None or other is None:
            return
        SavedView.objects.filter(pk=row.pk).update(position=other.position)
        SavedView.objects.filter(pk=other.pk).update(position=row.position)


def remove_view(view: SavedView) -> bool:
    """False when it was gone already."""
    with transaction.atomic(durable=True):
        _lock_owner(view.team_id, view.person_id)
        of_same = _of_same(view.team_id, view.person_id)
        row = of_same.filter(pk=view.pk).first()
        if row is None:
            return False
        of_same.filter(pk=row.pk).delete()
        of_same.filter(position__gt=row.position).update(position=F("position") - 1)
        return True


def _lock_owner(team_id: UUID, person_id: UUID | None) -> None:
    if person_id is not None:
        Person.objects.select_for_update(no_key=True).get(pk=person_id)
    else:
        Team.objects.select_for_update(no_key=True).get(pk=team_id)


def _of_same(team_id: UUID, person_id: UUID | None) -> QuerySet[SavedView]:
    return SavedView.objects.filter(team_id=team_id, holder_id=person_id or team_id)


def _name(text: str) -> str:
    name = " ".join(text.split())
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise Refused(f"A name has 1 to {NAME_LENGTH_MAX} printable characters.", field="name")
    return name


@contextmanager
def _free_name(name: str) -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
    except IntegrityError as why:
        raise Refused(f"There is a saved view “{name}” already. Choose another name.", field="name") from why
