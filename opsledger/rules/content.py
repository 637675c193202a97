"""Content versions as the rules see them: which requests show content, which need an approval, what may change.

What is approved of many at once is named by one digest over all of them (`covered_digest`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from opsledger.rules.building import Problem
from opsledger.rules.definition_types import ActionDefinition, StepDefinition, WorkflowDefinition
from opsledger.rules.identity import canonical_json, digest, hex_digest
from opsledger.rules.params import check_content
from opsledger.rules.templates import placeholders


class VersionState(StrEnum):
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"  # a newer one was proposed before it was decided, or approved after it


class AuthorKind(StrEnum):
    PERSON = "person"
    AUTOMATION = "automation"
    MODEL = "model"


def shows_content(action: ActionDefinition) -> bool:
    """Whether the action's request has a place for a field of content."""
    request = action.request
    used = placeholders((request.path, request.query, request.headers, request.body))
    return any(one.path[0] == "content" for one in used)


def needs_approval(workflow: WorkflowDefinition, step: StepDefinition, action: ActionDefinition) -> bool:
    """By the workflow's word, or because its request shows content that has a sensitive field."""
    return step.needs_approval or (any(one.sensitive for one in workflow.content) and shows_content(action))


def check_version(
    workflow: WorkflowDefinition, fields: object, before: Mapping[str, Any] | None
) -> tuple[dict[str, Any], list[Problem]]:
    """The fields of a new version as they are kept, and what is wrong with them.

    `before` are those of the version before it: locked fields carry the same value, digit by digit.
    """
    kept, problems = check_content(workflow, fields, "fields")
    if problems or before is None:
        return kept, problems
    wrong = [
        (f"fields.{one.name}", "is locked: a new version carries the value of the one before")
        for one in workflow.content
        if one.locked and _written(kept, one.name) != _written(before, one.name)
    ]
    return ({} if wrong else kept), wrong


def _written(fields: Mapping[str, Any], name: str) -> str | None:
    return canonical_json(fields[name]) if name in fields else None


def content_part(content_id: str, version_digest: bytes) -> bytes:
    """What an operation's digest holds of its content: which one, and the fields; not the version's number."""
    return digest(b"content 1", content_id.encode("utf-8", "surrogatepass"), version_digest)


def covered_digest(covered: Iterable[tuple[bytes, int, str]]) -> str:
    """One digest over everything that an approval covers: (step id, revision, request with the key left out).

    Steps are sorted by id, every part has its length in front; nothing covered has a digest, too.
    """
    parts = [
        part
        for step_id, revision, content_digest in sorted(covered)
        for part in (step_id, revision.to_bytes(8, "big"), content_digest.encode())
    ]
    return hex_digest(b"covered 1", *parts)
