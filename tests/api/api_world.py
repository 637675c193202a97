"""Two teams with definitions and tokens, and a caller that holds every answer against its documented shape."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone
from lane_client import LaneClient
from people import Cast, make_cast

from opsledger.accounts import actions, tokens
from opsledger.accounts.models import Person, Team
from opsledger.accounts.permissions import AUTOMATION_SCOPES, PERSONAL_SCOPES, Scope
from opsledger.api import hooks
from opsledger.api.calls import CALLS
from opsledger.ledger import definitions
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.evidence import forget_reporting
from opsledger.rules.definitions import read_definitions
from opsledger.sources.signatures import sign

NOW = int(time.time())  # of this run: an event told twice says the same time
SECRET = "correct horse battery staple"
DEFINITIONS = """
[destination.crm]
name = "CRM"
base_url = "http://127.0.0.1:9"

[destination.crm.actions.create_task]
title = "Create a task"
effect = "create"
sensitive = ["account"]
[destination.crm.actions.create_task.request]
method = "POST"
path = "/tasks"
[destination.crm.actions.create_task.request.body]
subject = "{params.subject}"
account = "{params.account?}"
amount = "{params.amount?}"
external_id = "{step.identity}"
[destination.crm.actions.create_task.reply]
reference = "id"
required = "id"
meanings = { "422:error.code=key_reused_with_other_parameters" = "key_mismatch" }
source = { url = "https://opsledger.example/docs/sandbox#crm", checked = "2026-11-01" }
[destination.crm.actions.create_task.lookup]
settles = "both"
quiet_seconds = 5
delays_seconds = [2, 5]
last_look_seconds = 60
identity = "external_id"
decisive = { subject = "subject" }
[destination.crm.actions.create_task.lookup.source]
url = "https://opsledger.example/docs"
checked = "2026-11-01"
[destination.crm.actions.create_task.search]
path = "/tasks"
query = { external_id = "{step.identity}" }
records = "items"
[destination.crm.actions.create_task.protection]
kind = "idempotency_key"
key_in = "header:Idempotency-Key"
window_seconds = 86400
[destination.crm.actions.create_task.protection.source]
url = "https://opsledger.example/docs"
checked = "2026-11-01"

[destination.mail]
name = "Mail"
base_url = "http://127.0.0.1:9"
[destination.mail.actions.send]
title = "Send a message"
effect = "message"
[destination.mail.actions.send.request]
method = "POST"
path = "/messages"
[destination.mail.actions.send.request.body]
text = "About {steps.create_task.reference}"
[destination.mail.actions.send.reply]
reference = "id"
accepts_only = true

[destination.mail.actions.tell]
title = "Send a message and hear of it"
effect = "message"
status = { field = "data.status", confirmed = ["delivered"], failed = ["bounced"] }
final_effect = { by = "report", deadline_seconds = 3600 }
report = { source = "shop", identity = "data.step", reference = "data.message" }
[destination.mail.actions.tell.request]
method = "POST"
path = "/messages"
[destination.mail.actions.tell.request.body]
text = "{params.subject}"
[destination.mail.actions.tell.reply]
reference = "id"
accepts_only = true

[workflow.told]
title = "Tell them of {params.subject}"
owner = "owner"
if_nobody = "Nobody is told."
due_seconds = { default = 3600 }
[[workflow.told.params]]
name = "subject"
label = "Subject"
[[workflow.told.steps]]
name = "tell"
title = "Tell them"
destination = "mail"
action = "tell"
performer = "automation"

[workflow.follow_up]
title = "Follow up {params.subject}"
owner = "owner"
if_nobody = "Nobody is called."
due_seconds = { default = 3600 }
[[workflow.follow_up.params]]
name = "subject"
label = "Subject"
[[workflow.follow_up.params]]
name = "account"
label = "Account"
sensitive = true
required = false
[[workflow.follow_up.params]]
name = "amount"
label = "Amount"
type = "decimal"
required = false
[[workflow.follow_up.steps]]
name = "create_task"
title = "Create the task"
destination = "crm"
action = "create_task"
[[workflow.follow_up.steps]]
name = "send_message"
title = "Send the message"
destination = "mail"
action = "send"

[workflow.by_hand]
title = "Do {params.subject} elsewhere"
owner = "owner"
if_nobody = "Nobody is called."
due_seconds = { default = 3600 }
[[workflow.by_hand.params]]
name = "subject"
label = "Subject"
[[workflow.by_hand.steps]]
name = "create_task"
title = "Create the task"
destination = "crm"
action = "create_task"
performer = "automation"
lease_seconds = 60
longest_seconds = 90
[[workflow.by_hand.steps]]
name = "send_message"
title = "Send the message"
destination = "mail"
action = "send"

[source.shop]
name = "Shop"
event_id = "id"
topic = "type"
occurred_at = "at"
topics = ["task.wanted"]
starts = "follow_up"
operation_id = "shop:{event.id}"
answer_while_open = 202
secrets = [
  { environment = "API_TEST_SECRET" },
  { environment = "API_TEST_SECRET_OLD" },
  { environment = "API_TEST_SECRET_ENDED", active_until = "2026-01-01T00:00:00Z" },
]
[source.shop.signature]
header = "X-Signature"
scheme = "v1"
timestamp_key = "t"
signed = "{timestamp}.{body}"
tolerance_seconds = 300
[source.shop.params]
subject = "data.subject"
account = "data.account"
amount = "data.amount"

[source.board]
name = "Board"
delivery = "github"
event_id = "header:X-GitHub-Delivery"
content_types = ["application/x-www-form-urlencoded"]
form_field = "payload"
secrets = [{ environment = "API_TEST_SECRET" }]
"""


def read(text: str) -> list[Any]:
    found, problems = read_definitions(tomllib.loads(text))
    assert not problems, problems
    return found


class Api:
    """A caller with a token. Every answer is held against the shape that the OpenAPI document gives it."""

    def __init__(self, token: str | None) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = LaneClient(raise_request_exception=True)

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Any:
        return _checked(self._client.get(f"/api/v1{path}", query, headers=self._all(headers)), "GET", path)

    def post(self, path: str, body: Any = None, *, if_match: object = None, **headers: str) -> Any:
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        sent = self._all(headers) | ({"If-Match": f'"{if_match}"'} if if_match is not None else {})
        kind = sent.setdefault("Content-Type", "application/json")
        found = self._client.post(f"/api/v1{path}", raw, content_type=kind, headers=sent)
        return _checked(found, "POST", path)

    def _all(self, headers: dict[str, str]) -> dict[str, str]:
        return self._headers | {name.replace("_", "-"): value for name, value in headers.items()}


def strictly(raw: bytes) -> Any:
    """The JSON as the strictest reader takes it: UTF-8, no key twice, no half of a surrogate pair, no NUL, no NaN."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = {_whole(name): value for name, value in pairs}
        assert len(made) == len(pairs), f"a key stands twice: {[name for name, _ in pairs]}"
        return made

    def constant(text: str) -> Any:
        raise AssertionError(f"{text} is no JSON")

    return _whole(json.loads(raw.decode("utf-8"), object_pairs_hook=once, parse_constant=constant))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        value.encode("utf-8")
        assert "\x00" not in value
    for inner in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        _whole(inner)
    return value


def _checked(response: Any, method: str, path: str) -> Any:
    assert response.status_code < 500 or response.json()["code"] == "busy"
    strictly(response.content)
    for value in response.headers.values():
        value.encode("latin-1")
    if response.status_code >= 400:
        assert response["Content-Type"] == "application/problem+json", response.content
        problem = response.json()
        assert {"type", "title", "status", "code", "detail", "todo"} <= set(problem)
        assert problem["status"] == response.status_code
        return response
    call = next(
        one
        for one in CALLS
        if one.method == method and re.fullmatch(re.sub(r"\{[a-z]+\}", "[^/]+", one.path), path)
    )
    shape = next(reply.shape for reply in call.replies if reply.status == response.status_code)
    assert shape is not None
    shape.model_validate_json(response.content)
    assert response["Cache-Control"] == "no-store"
    return response


@dataclass
class World:
    """`auto` and `robot` are automations of the first team, `owner` and `operator` its people; `other` is elsewhere."""

    cast: Cast
    auto: Api
    robot: Api
    owner: Api
    operator: Api
    viewer: Api
    admin: Api
    other: Api
    other_owner: Api
    stranger: Api

    def token(self, name: str, *scopes: Scope, person: Person | None = None, team: Team | None = None) -> Api:
        expires_at = timezone.now() + timedelta(days=1) if person else None
        made = actions.create_token(
            team=team or self.cast.launch, name=name, scopes=scopes, person=person, expires_at=expires_at
        )
        return Api(made.text)

    def record(self, own: str = "order:1", workflow: str = "follow_up", **more: Any) -> Any:
        body = wanted(own, workflow) | more
        return self.auto.post("/operations", body)

    def decide(
        self, own: str, action: str = "cancel", *, reason: str = "not wanted", by: str = "owner"
    ) -> Any:
        """Cancels an operation, or takes an answer back, on the version that it is at."""
        caller: Api = getattr(self, by)
        version = caller.get(f"/operations/{own}").json()["version"]
        return caller.post(f"/operations/{own}/{action}", {"reason": reason}, if_match=version)


def wanted(own: str = "order:1", workflow: str = "follow_up", **params: Any) -> dict[str, Any]:
    return {"operation_id": own, "workflow": workflow, "params": {"subject": "Call back"} | params}


def make_world() -> World:
    tokens.forget_all()
    forget_current()
    forget_reporting()
    definitions.forget_parsed()
    hooks.forget()
    cast = make_cast()
    for team in (cast.launch, cast.returns):
        load(
            team.pk,
            [one for one in read(DEFINITIONS) if team == cast.launch or one.slug != "shop"],
            actor="command:test",
        )
    nobody = Api(None)
    world = World(cast, *[nobody] * 9)
    world.auto = world.token("n8n", *AUTOMATION_SCOPES)
    world.robot = world.token("robot", *AUTOMATION_SCOPES)
    for name, person in (
        ("owner", cast.olga),
        ("operator", cast.omar),
        ("viewer", cast.vera),
        ("admin", cast.adam),
    ):
        setattr(world, name, world.token(name, *PERSONAL_SCOPES, person=person))
    world.other = world.token("elsewhere", *AUTOMATION_SCOPES, team=cast.returns)
    world.other_owner = world.token("elsewhere too", *PERSONAL_SCOPES, person=cast.rita, team=cast.returns)
    return world


@contextmanager
def statements() -> Iterator[list[str]]:
    """Every statement that this thread's connection executes meanwhile, whichever cursor it goes through."""
    executed: list[str] = []
    raw = connection.connection

    class Counting(raw.cursor_factory):  # type: ignore[misc, name-defined]
        def execute(self, query: Any, *args: Any, **more: Any) -> Any:
            executed.append(str(query))
            return super().execute(query, *args, **more)

    before, raw.cursor_factory = raw.cursor_factory, Counting
    try:
        yield executed
    finally:
        raw.cursor_factory = before


# Deliveries


def event(number: object = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"evt_{number}",
        "type": "task.wanted",
        "at": NOW,
        "data": {"subject": "Call"},
    } | more


def signed(raw: bytes, secret: str = SECRET, *, at: int | None = None) -> dict[str, str]:
    source = next(one for one in read(DEFINITIONS) if one.slug == "shop")
    return sign(source.signature, secret, raw, timestamp=at if at is not None else int(time.time()))


def deliver(
    body: Any, *, headers: dict[str, str] | None = None, source: str = "shop", kind: str = "application/json"
) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = signed(raw) if headers is None else headers
    response = LaneClient().post(f"/hooks/{source}", raw, content_type=kind, headers=sent)
    assert response.status_code < 500 or response.status_code == 503, response.content
    strictly(response.content)
    if response.status_code >= 400:
        assert response["Content-Type"] == "application/problem+json", response.content
    return response
