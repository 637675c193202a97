"""Loading definitions: unchanged = nothing; changed = a new immutable version; one journal line for each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger import definitions
from opsledger.ledger.actions.recoveries import ask_where_nothing_recovers, follow_definition_here
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Definition, DefinitionVersion, Destination
from opsledger.lib.recent import Recent
from opsledger.rules.definitions import (
    DestinationDefinition,
    SourceDefinition,
    WorkflowDefinition,
    kind_of,
    to_json,
)
from opsledger.rules.identity import canonical_json

AnyDefinition = DestinationDefinition | WorkflowDefinition | SourceDefinition


@dataclass(frozen=True, slots=True)
class Loaded:
    kind: str
    slug: str
    number: int
    changed: bool


def load(team_id: UUID, wanted: Sequence[AnyDefinition], *, actor: str) -> list[Loaded]:
    """Stores each definition's version, in one transaction. The caller has validated them (rules.definitions).

    What a destination's definition says besides is taken over from the newest one: its limits, what recovers by itself.
    """
    with transaction.atomic(durable=True):
        answers = [
            _load_one(team_id, one, actor) for one in sorted(wanted, key=lambda d: (kind_of(d), d.slug))
        ]
    forget_current()
    slugs = [one.slug for one in wanted if isinstance(one, DestinationDefinition)]
    if slugs:
        ask_where_nothing_recovers(
            Destination.objects.filter(team_id=team_id, slug__in=slugs).values_list("pk", flat=True)
        )
    return answers


def _load_one(team_id: UUID, wanted: AnyDefinition, actor: str) -> Loaded:
    kind = kind_of(wanted)
    Definition.objects.bulk_create(
        [Definition(team_id=team_id, kind=kind, slug=wanted.slug)], ignore_conflicts=True
    )
    definition = Definition.objects.select_for_update(of=("self",)).get(
        team_id=team_id, kind=kind, slug=wanted.slug
    )
    if isinstance(wanted, DestinationDefinition):
        _destination(definition, wanted)
    loaded = _version(definition, wanted, actor)
    if isinstance(wanted, DestinationDefinition):
        follow_definition_here(definition.pk, wanted, actor)
    return loaded


def _version(definition: Definition, wanted: AnyDefinition, actor: str) -> Loaded:
    text = canonical_json(to_json(wanted))
    digest = hashlib.sha256(text.encode()).digest()
    newest = definition.versions.order_by("-number").first()
    if newest is not None and bytes(newest.digest) == digest:
        return Loaded(definition.kind, definition.slug, newest.number, False)
    number = newest.number + 1 if newest else 1
    version = DefinitionVersion.objects.create(
        definition=definition, number=number, digest=digest, body=text, loaded_at=database_now()
    )
    Definition.objects.filter(pk=definition.pk).update(current=version)
    facts = {"kind": definition.kind, "slug": definition.slug, "version": number, "digest": digest.hex()}
    append([Line("definition", definition.pk, "definition_loaded", actor, body(facts))])
    return Loaded(definition.kind, definition.slug, number, True)


def _destination(definition: Definition, wanted: DestinationDefinition) -> None:
    Destination.objects.bulk_create(
        [
            Destination(
                definition=definition,
                team_id=definition.team_id,
                slug=definition.slug,
                send_tokens=max(wanted.sends_per_second, 1.0),
            )
        ],
        ignore_conflicts=True,
    )
    Destination.objects.filter(pk=definition.pk).update(
        sends_per_second=wanted.sends_per_second, in_flight_max=wanted.max_in_flight
    )


# What is current, for intake


@dataclass(frozen=True, slots=True)
class CurrentWorkflow:
    version_id: UUID
    destinations: Mapping[int, tuple[UUID, UUID]]  # per step: definition, version


class UnknownWorkflow(LookupError):
    """No such workflow in the team, or one of its destinations is not loaded. The message is for people."""


def _find_current(key: tuple[UUID, str]) -> CurrentWorkflow | str:
    team_id, slug = key
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, slug, id, current_id FROM ledger_definition"
            " WHERE team_id = %s AND current_id IS NOT NULL AND (kind = 'destination' OR (kind = 'workflow' AND slug = %s))",
            [team_id, slug],
        )
        rows: dict[tuple[str, str], tuple[UUID, UUID]] = {
            (r[0], r[1]): (r[2], r[3]) for r in cursor.fetchall()
        }
    found = rows.get(("workflow", slug))
    if found is None:
        return f"There is no workflow “{slug}” in this team."

    destinations: dict[int, tuple[UUID, UUID]] = {}
    for number, step in enumerate(definitions.workflow(found[1]).steps, start=1):
        at = rows.get(("destination", step.destination))
        if at is None or step.action not in definitions.destination(at[1]).actions:
            return f"Workflow “{slug}” uses {step.destination}.{step.action}, which is not loaded."
        destinations[number] = at
    return CurrentWorkflow(found[1], destinations)


_current: Recent[tuple[UUID, str], CurrentWorkflow | str] = Recent(_find_current, keep_seconds=2.0)


def current_workflow(team_id: UUID, slug: str) -> CurrentWorkflow:
    """The newest version of a workflow and of its destinations; at most two seconds old."""
    found = _current.get((team_id, slug))
    if isinstance(found, str):
        raise UnknownWorkflow(found)
    return found


def forget_current() -> None:
    """After a load in this process; others notice within two seconds."""
    _current.forget()
