"""Definitions as the ledger uses them: immutable versions, parsed once per process."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from opsledger.ledger.models import DefinitionVersion
from opsledger.rules.content import needs_approval, shows_content
from opsledger.rules.definition_types import lease_seconds_of
from opsledger.rules.definitions import (
    DestinationDefinition,
    SourceDefinition,
    WorkflowDefinition,
    from_json,
)
from opsledger.rules.rendering import CompiledRequest, compiled


@lru_cache(maxsize=2048)  # versions never change
def _parsed(version_id: UUID) -> DestinationDefinition | WorkflowDefinition | SourceDefinition:
    return from_json(json.loads(DefinitionVersion.objects.values_list("body", flat=True).get(pk=version_id)))


def destination(version_id: UUID) -> DestinationDefinition:
    found = _parsed(version_id)
    assert isinstance(found, DestinationDefinition)
    return found


def workflow(version_id: UUID) -> WorkflowDefinition:
    found = _parsed(version_id)
    assert isinstance(found, WorkflowDefinition)
    return found


def source(version_id: UUID) -> SourceDefinition:
    found = _parsed(version_id)
    assert isinstance(found, SourceDefinition)
    return found


@lru_cache(maxsize=4096)
def request(destination_version_id: UUID, action: str) -> CompiledRequest:
    """The action's request, ready to be rendered."""
    found = destination(destination_version_id)
    return compiled(found.actions[action], found.base_url)


@dataclass(frozen=True, slots=True)
class Asks:
    """What a step's request has to do with content: whether it shows some, and whether it needs an approval."""

    content: bool
    approval: bool


@lru_cache(maxsize=4096)
def asks_for(workflow_version_id: UUID, number: int, destination_version_id: UUID) -> Asks:
    words = workflow(workflow_version_id)
    step = words.steps[number - 1]
    action = destination(destination_version_id).actions[step.action]
    return Asks(shows_content(action), needs_approval(words, step, action))


class Limits(NamedTuple):
    """How far a claim of a step may go; its row keeps them, so that a claim reads that row only."""

    tries_max: int
    lease_seconds: float
    total_seconds: float


@lru_cache(maxsize=4096)
def limits_of(workflow_version_id: UUID, number: int, destination_version_id: UUID) -> Limits:
    step = workflow(workflow_version_id).steps[number - 1]
    profile = destination(destination_version_id).actions[step.action].profile
    return Limits(profile.retries.tries_max, lease_seconds_of(step, profile), profile.timing.total_seconds)


def sensitive_fields(version_id: UUID, action: str) -> tuple[str, ...]:
    """Fields of the action's request that are shown masked."""
    return destination(version_id).actions[action].sensitive


def reference_key(reference: str, id_space: str = "") -> str:
    """The digest under which a destination's reference is unique, in hex: byte-exact, of any length.

    Records that the destination counts apart (`reply.id_space`) may have the same reference. No name of a space and no
    reference has NUL.
    """
    text = f"{id_space}\0{reference}" if id_space else reference
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def forget_parsed() -> None:
    """For tests, whose databases come and go."""
    _parsed.cache_clear()
    request.cache_clear()
    asks_for.cache_clear()
    limits_of.cache_clear()
