"""A revision as a person asks for it: changed parameters, another content version, or only another key.

It is refused while anything of the earlier revision may have had an effect; the rules see to that. What is checked here is
the data. A revision is approved by somebody else before it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.ledger import definitions
from opsledger.ledger.models import Content, ContentVersion
from opsledger.ledger.records import Loaded
from opsledger.ledger.rendering import read_params
from opsledger.rules.content import VersionState
from opsledger.rules.definitions import check_params
from opsledger.rules.identity import canonical_json, hex_digest
from opsledger.rules.record import Operation
from opsledger.rules.states import HoldReason


class BadRevision(Exception):
    """What was given can't be sent; `field` names what to mend."""

    def __init__(self, why: str, field: str) -> None:
        super().__init__(why)
        self.why, self.field = why, field


def locked_version(team_id: UUID, content_id: str, number: int) -> ContentVersion:
    """The version, its content locked (FOR NO KEY UPDATE on ledger_content; before any operation)."""
    rows = Content.objects.select_for_update(of=("self",), no_key=True)
    content = rows.filter(team_id=team_id, content_id=content_id).first()
    if content is None:
        raise BadRevision("This team has no such content.", "content.content_id")
    version = content.versions.select_related("workflow").filter(number=number).first()
    if version is None:
        raise BadRevision(
            f"It has no such version; the newest is {content.latest_number}.", "content.version"
        )
    if version.state not in {VersionState.PROPOSED, VersionState.APPROVED}:
        raise BadRevision(f"Version {number} was {version.state}; choose another.", "content.version")
    return version


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the rules and the journal are told of a revision: names and a digest, no value."""

    content_number: int | None
    content_steps: frozenset[int]  # further steps that show the same content from now on
    facts: Mapping[str, Any]


def prepare(
    loaded: Loaded, number: int, params: Mapping[str, Any], version: ContentVersion | None
) -> Prepared:
    """Checks what the revision would send. What changes is put into `loaded`, where requests are rendered from."""
    facts: dict[str, Any] = {"revision": loaded.record.step(number).revision + 1}
    if params:
        facts |= _change_params(loaded, number, params)
    if version is None:
        return Prepared(None, frozenset(), facts)
    steps = _show(loaded, number, version)
    facts |= {"content": str(version.of_id), "content_number": version.number}
    return Prepared(version.number, steps, facts)


def _change_params(loaded: Loaded, number: int, params: Mapping[str, Any]) -> dict[str, Any]:
    changed = read_params(loaded.revised.get(number, "{}")) | dict(params)
    every = read_params(loaded.params or "{}") | changed
    given = {name: value for name, value in every.items() if value is not None}
    _, problems = check_params(definitions.workflow(loaded.workflow_version_id), given)
    if problems:
        raise BadRevision(problems[0][1], problems[0][0])
    loaded.revised[number] = canonical_json(changed)
    return {
        "changed": sorted(params),
        "params_digest": hex_digest(b"revision 1", loaded.revised[number].encode()),
    }


def _show(loaded: Loaded, number: int, version: ContentVersion) -> frozenset[int]:
    """The content that the step shows; where the operation had none, its other steps that show content get it too."""
    if version.workflow.slug != loaded.workflow_slug:
        raise BadRevision(f"This content belongs to workflow {version.workflow.slug}.", "content.content_id")
    if loaded.content_id not in {None, version.of_id}:
        raise BadRevision(
            "This operation shows another content; name a version of that.", "content.content_id"
        )
    if not _shows_content(loaded, number):
        raise BadRevision("The request of this step shows no content.", "content")
    loaded.contents[version.number] = version.body
    if loaded.content_id is not None:
        return frozenset()
    loaded.content_id = version.of_id
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_operation SET content_id = %s WHERE id = %s AND content_id IS NULL",
            [version.of_id, loaded.id],
        )
    return frozenset(one for one in loaded.step_ids if one != number and _shows_content(loaded, one))


def _shows_content(loaded: Loaded, number: int) -> bool:
    return definitions.asks_for(
        loaded.workflow_version_id, number, loaded.destination_version_ids[number]
    ).content


def still_missing(loaded: Loaded, after: Operation, number: int) -> None:
    """BadRevision when the changed request lacks something all the same."""
    hold = after.hold_on(number)
    if hold is not None and hold.reason is HoldReason.DATA_MISSING:
        missing = [str(name) for name in hold.facts.get("missing", ())]
        raise BadRevision(
            f"The request still lacks {', '.join(missing)}.", missing[0] if missing else "params"
        )
