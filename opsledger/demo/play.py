"""Plays the scenario through the product's own doors: HTTP API, signed webhooks, the sending switch."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from opsledger.demo.letters import FIRST, LETTER, REGENERATED, SENT, THANKS, WAITING, Brought, letter_params
from opsledger.demo.scenario import CHANGED, DUPLICATED, ENDED, FOLLOW_UP, PARTS, Part, params_of
from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.ledger.models import Step
from opsledger.lib import ids

WAIT_SECONDS_MAX = 60


@dataclass(frozen=True, slots=True)
class Doors:
    """Where the product and the sandbox are, and with what one gets in."""

    web_url: str
    token: str
    shop_secret: bytes
    sandbox: SandboxControl

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        """Posts, and again while nothing answers: the same operation twice is the same operation."""
        return self._ask("POST", path, body, headers)

    def call(
        self, path: str, document: dict[str, Any] | None = None, *, token: str = "", **headers: str
    ) -> dict[str, Any]:
        """The API, by the automation’s token or by another one."""
        sent = {
            "Authorization": f"Bearer {token or self.token}",
            "Content-Type": "application/json",
            **headers,
        }
        if document is None:
            return self._ask("GET", f"/api/v1{path}", None, sent)
        return self._ask("POST", f"/api/v1{path}", json.dumps(document).encode(), sent)

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
        request = Request(f"{self.web_url}{path}", body, headers, method=method)  # noqa: S310 - our own address
        opener = build_opener(ProxyHandler({}))
        until = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                with opener.open(request, timeout=20) as reply:
                    return dict(json.load(reply) or {})
            except HTTPError as why:
                raise RuntimeError(f"{path} answered {why.code}: {why.read()[:500]!r}") from why
            except (URLError, ConnectionError, TimeoutError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def record(self, operation_id: str, workflow: str, params: dict[str, Any], **more: Any) -> str:
        """Records an operation; returns its public id."""
        wanted = {"operation_id": operation_id, "workflow": workflow, "params": params, **more}
        return str(self.call("/operations", wanted)["id"])

    def write(self, number: int, content: dict[str, Any]) -> str:
        """Records a letter to a customer; returns its public id."""
        return self.record(
            f"spring-launch:letter-{number:03d}", LETTER, letter_params(number), content=content
        )

    def deliver(self, event_id: str, body: bytes) -> None:
        """One delivery of a shop's event, signed as Standard Webhooks does."""
        timestamp = str(int(time.time()))
        signed = hmac.new(
            self.shop_secret, f"{event_id}.{timestamp}.".encode() + body, hashlib.sha256
        ).digest()
        headers = {
            "Content-Type": "application/json",
            "webhook-id": event_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }
        self.post("/hooks/shop", body, headers)


def _tell(doors: Doors, event_id: str, part: Part, params: dict[str, Any]) -> None:
    """The same bytes each time, as sources repeat themselves; where the part says so, other ones the last time."""
    body = json.dumps(_event(params)).encode()
    bodies = [body] * part.by_webhook
    if part.body_changes:
        bodies[-1] = json.dumps(_event(params | {"due_date": "2027-01-31"})).encode()
    for one in bodies:
        doors.deliver(event_id, one)


def _event(params: dict[str, Any]) -> dict[str, Any]:
    task = {name: params[name] for name in ("subject", "queue", "due_date")}
    message = {"subject": params["message_subject"], "text": params["message_text"]}
    answered = {name: params[name] for name in ("campaign", "company", "account", "email")}
    occurred = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "type": "campaign.answered",
        "timestamp": occurred,
        "data": {**answered, "task": task, "message": message},
    }


@dataclass(frozen=True, slots=True)
class Played:
    part: Part
    public_id: str
    identities: tuple[str, ...]  # of the steps, in their order: by these the sandbox knows our requests
    params: dict[str, Any]

    def task(self) -> dict[str, Any]:
        """The fields of the task that its first step asks for."""
        return {name: self.params[name] for name in ("subject", "queue", "due_date", "account")}


def identities_of(public_id: str) -> tuple[str, ...]:
    """What the steps of an operation are called at their destinations, in the order of the steps."""
    operation_id = ids.parse("op", public_id)
    assert operation_id is not None
    steps = Step.objects.filter(operation_id=operation_id).order_by("number")
    return tuple(identity or "" for identity in steps.values_list("identity", flat=True))


def play(doors: Doors, parts: Sequence[Part] = (*PARTS, DUPLICATED, CHANGED, ENDED)) -> list[Played]:
    """Records all operations and tells the sandbox how to treat each. Sending should be off meanwhile."""
    played: list[Played] = []
    number = 0
    for part in parts:
        for _ in range(part.count):
            number += 1
            params = params_of(number, part.workflow, part.params)
            if part.by_webhook:
                _tell(doors, f"evt-answered-{number:03d}", part, params)
                continue
            public_id = doors.record(f"spring-launch:req-{8800 + number}", part.workflow, params)
            one = Played(part, public_id, identities_of(public_id), params)
            if part.prepare is not None:
                part.prepare(doors.sandbox, one.identities)
            played.append(one)
    return played


def interfere(doors: Doors, played: list[Played]) -> None:
    """What happens at the other system behind our back: a proxy sends a request twice, a colleague edits a record."""
    for one in played:
        if one.part not in (DUPLICATED, CHANGED):
            continue
        identity = one.identities[0]
        record = _made(doors, identity)
        if record is None:
            continue
        if one.part is DUPLICATED:
            write_at_crm(doors, "POST", "/crm/tasks", one.task() | {"external_id": identity})
        else:
            write_at_crm(doors, "PATCH", f"/crm/tasks/{record}", {"due_date": "2027-01-31"})


def write_letters(doors: Doors, approver: str) -> list[str]:
    """Letters whose first words an owner approves with a token of their own. Returns the identities of their steps."""
    written = [doors.write(number, FIRST.document()) for number in range(1, SENT + 1)]
    approve(doors, FIRST, approver)
    return [identity for public_id in written for identity in identities_of(public_id)]


def approve(doors: Doors, content: Brought, approver: str) -> None:
    """Approves the newest version of a content with everything that waits for it."""
    version = doors.call(f"/content/{content.content_id}/versions")["items"][0]
    covered = doors.call(f"/content-versions/{version['id']}/covered")
    decision = {
        "covered_digest": covered["covered_digest"],
        "reason": "Read and agreed with the campaign’s owner.",
    }
    headers = {"If-Match": f'"{covered["version"]}"'}
    doors.call(f"/content-versions/{version['id']}/approve", decision, token=approver, **headers)


def leave_to_be_approved(doors: Doors, sent: list[str]) -> None:
    """A model writes the letter anew once the first ones are out; more letters wait for it, and some for another text."""
    for identity in sent:
        _made(doors, identity)
    for number in range(SENT + 1, SENT + WAITING + 1):
        doors.write(number, {"content_id": FIRST.content_id, "version": 1})
    doors.call(
        f"/content/{FIRST.content_id}/versions",
        {
            "workflow": LETTER,
            "fields": REGENERATED.fields,
            "author": REGENERATED.author,
            "origin": REGENERATED.origin,
        },
    )
    for number in range(SENT + WAITING + 1, SENT + 2 * WAITING - 1):
        doors.write(number, THANKS.document())


def _made(doors: Doors, identity: str) -> str | None:
    """The record that our request made, as soon as it has."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if effects := effects_of(doors, identity):
            return str(effects[0]["reference"])
        time.sleep(0.02)
    return None


def effects_of(doors: Doors, identity: str) -> list[dict[str, Any]]:
    """What our request, or another under its identity, made there; oldest first."""
    return doors.sandbox.effects(identity=identity)


def write_at_crm(doors: Doors, method: str, path: str, fields: dict[str, Any]) -> None:
    """What others do at the other system, without us."""
    headers = {"Content-Type": "application/json"}
    request = Request(f"{doors.sandbox.url}{path}", json.dumps(fields).encode(), headers, method=method)  # noqa: S310
    with build_opener(ProxyHandler({})).open(request, timeout=20) as reply:
        reply.read()


__all__ = [
    "FOLLOW_UP",
    "Doors",
    "Played",
    "effects_of",
    "interfere",
    "leave_to_be_approved",
    "play",
    "write_at_crm",
    "write_letters",
]
