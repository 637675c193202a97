"""Definitions as the ledger uses them: immutable versions, parsed once per process."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from uuid import UUID

from opsledger.ledger.models import DefinitionVersion
from opsledger.rules.definitions import (
    DestinationDefinition,
    SourceDefinition,
    WorkflowDefinition,
    from_json,
)


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


def sensitive_fields(version_id: UUID, action: str) -> tuple[str, ...]:
    """Fields of the action's request that are shown masked."""
    return destination(version_id).actions[action].sensitive


def reference_key(reference: str) -> str:
    """The digest under which a destination's reference is unique, in hex: byte-exact, of any length."""
    return hashlib.sha256(reference.encode("utf-8", "surrogatepass")).hexdigest()


def forget_parsed() -> None:
    """For tests, whose databases come and go."""
    _parsed.cache_clear()
