"""Requests, rendered once from an operation's parameters and the references of its earlier steps."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.lib.ids import public
from opsledger.lib.strict_json import loads_stored
from opsledger.rules.identity import idempotency_key
from opsledger.rules.next_step import Rendered
from opsledger.rules.record import Operation, Step
from opsledger.rules.rendering import Missing, RenderedRequest, render_request

if TYPE_CHECKING:
    from opsledger.ledger.records import Loaded


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A rendered request and its key, ready to be frozen."""

    request: RenderedRequest
    key: str

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


def render(
    loaded: Loaded, operation: Operation, step: Step, destination_version_id: UUID, params: Mapping[str, Any]
) -> Outgoing | Missing:
    """The step's request from the parameters and from what the earlier steps brought."""
    destination = definitions.destination(destination_version_id)
    action = destination.actions[step.action]
    key = idempotency_key(
        loaded.team_id.bytes,
        loaded.operation_id,
        step.name,
        step.revision,
        length_max=action.profile.protection.key_length_max,
    )
    rendered = render_request(
        action,
        params=params,
        step_identity=loaded.identities[step.number],
        references={
            earlier.name: earlier.reference for earlier in operation.earlier(step) if earlier.reference
        },
        key=key,
        base_url=destination.base_url,
        operation_id=public("op", loaded.id),
    )
    return rendered if isinstance(rendered, Missing) else Outgoing(rendered, key)


def renderer(
    loaded: Loaded, number: int, destination_version_id: UUID, params_of: Callable[[], Mapping[str, Any]]
) -> Callable[[Operation, Step], Rendered]:
    """For the rules: renders when a step becomes ready, and keeps what was rendered for the writer."""

    def rendered(operation: Operation, step: Step) -> Rendered:
        if number not in loaded.renderings:
            outgoing = render(loaded, operation, step, destination_version_id, params_of())
            if isinstance(outgoing, Missing):
                return Rendered(None, outgoing.fields)
            loaded.renderings[number] = outgoing
        return Rendered(loaded.renderings[number].request.digest)

    return rendered


def read_params(text: str) -> dict[str, Any]:
    """Parameters from their stored text; numbers keep their original digits."""
    read: dict[str, Any] = loads_stored(text)
    return read
