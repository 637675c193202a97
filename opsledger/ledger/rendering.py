"""Requests, rendered once from an operation's parameters and the references of its earlier steps."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.lib.ids import public
from opsledger.lib.strict_json import loads_stored
from opsledger.rules.identity import idempotency_key
from opsledger.rules.next_step import Rendered
from opsledger.rules.record import Operation, Step
from opsledger.rules.rendering import CompiledRequest, Missing, RenderedRequest

if TYPE_CHECKING:
    from opsledger.ledger.records import Loaded


class Outgoing(NamedTuple):
    """A rendered request and its key, ready to be frozen."""

    request: RenderedRequest
    key: str
    revision: int = 1
    content_number: int | None = None

    def row(self) -> dict[str, Any]:
        return {
            "method": self.request.method,
            "url": self.request.url,
            "headers": json.dumps(self.request.headers),
            "body": base64.b64encode(self.request.body).decode(),
            "idempotency_key": self.key,
            "digest": self.request.digest,
            "content_digest": self.request.content_digest,
        }


def identity_of(stored: str | None, operation_id: UUID, number: int) -> str:
    """The step's identity as its row says. Rows from before identities were stored: what was sent for them then."""
    return stored or f"{public('op', operation_id)}-{number}"


class Whose(NamedTuple):
    """The step that a request is for, as far as the request says."""

    team_id: UUID
    operation_id: str
    id: UUID  # of the operation
    step: str
    identity: str


def render(
    loaded: Loaded,
    operation: Operation,
    step: Step,
    destination_version_id: UUID,
    params: Mapping[str, Any],
    content: Mapping[str, Any] | None = None,
) -> Outgoing | Missing:
    """The step's request from the parameters, the content it shows, and what the earlier steps brought."""
    whose = Whose(loaded.team_id, loaded.operation_id, loaded.id, step.name, loaded.identities[step.number])
    brought = {earlier.name: earlier.reference for earlier in operation.earlier(step) if earlier.reference}
    request = definitions.request(destination_version_id, step.action)
    rendered = render_for(whose, request, params, step.revision, brought, content)
    if isinstance(rendered, Missing):
        return rendered
    return rendered._replace(content_number=step.content_number) if step.content_number else rendered


def render_for(
    whose: Whose,
    request: CompiledRequest,
    params: Mapping[str, Any],
    revision: int = 1,
    references: Mapping[str, str] | None = None,
    content: Mapping[str, Any] | None = None,
) -> Outgoing | Missing:
    """The same without a record: of a step that has none yet."""
    key = idempotency_key(
        whose.team_id.bytes, whose.operation_id, whose.step, revision, length_max=request.key_length_max
    )
    operation_id = public("op", whose.id) if request.names_operation else ""
    rendered = request.render(
        params, whose.identity, references or {}, key, operation_id=operation_id, content=content
    )
    return rendered if isinstance(rendered, Missing) else Outgoing(rendered, key, revision)


def renderer(
    loaded: Loaded, number: int, destination_version_id: UUID, params: Mapping[str, Any] | None = None
) -> Callable[[Operation, Step], Rendered]:
    """For the rules: renders when a step becomes ready, and keeps what was rendered for the writer.

    `params`: the operation's, where they are not read from its row. What belongs to another revision is rendered again.
    """

    def rendered(operation: Operation, step: Step) -> Rendered:
        known = loaded.renderings.get(number)
        if known is None or (known.revision, known.content_number) != (step.revision, step.content_number):
            given = params_of(loaded, number) if params is None else params
            outgoing = render(
                loaded, operation, step, destination_version_id, given, content_of(loaded, step)
            )
            if isinstance(outgoing, Missing):
                return Rendered(missing=outgoing.fields)
            known = loaded.renderings[number] = outgoing
        return Rendered(known.request.digest, known.request.content_digest)

    return rendered


def params_of(loaded: Loaded, number: int) -> dict[str, Any]:
    """The parameters of a step's present revision: the operation's, with what the revision changed. Null takes one away."""
    params = read_params(loaded.params or "{}")
    if number in loaded.revised:
        params |= read_params(loaded.revised[number])
    return present(params)


def present(params: Mapping[str, Any]) -> dict[str, Any]:
    """Those that have a value: null is as good as none."""
    return {name: value for name, value in params.items() if value is not None}


def content_of(loaded: Loaded, step: Step) -> dict[str, Any]:
    """The fields of the content version that the step shows."""
    if step.content_number is None:
        return {}
    return read_params(loaded.contents[step.content_number])


def read_params(text: str) -> dict[str, Any]:
    """Parameters from their stored text; numbers keep their original digits."""
    read: dict[str, Any] = loads_stored(text)
    return read
