"""A team, the demo's definitions at a sandbox of the test's own, and operations to play with."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from opsledger.accounts.actions import add_person, add_team
from opsledger.accounts.models import Team
from opsledger.destinations.http import Wire
from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.destinations.sandbox.peer import SandboxPeer
from opsledger.destinations.transport import AddressGuard
from opsledger.engine import dispatch, reconcile, sweep
from opsledger.engine.loading import read_files
from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.content import OpenedVersion, Proposal, open_content_version
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import current_workflow, forget_current, load
from opsledger.ledger.actions.intake import open_intended
from opsledger.ledger.actions.open import NewOperation, Opened, open_operations
from opsledger.ledger.actions.wanted import Wanted, WantedContent
from opsledger.ledger.models import Operation, Recovery, Step
from opsledger.rules.content import AuthorKind

DEFINITIONS = Path(__file__).resolve().parents[1] / "demo" / "definitions"
AUTOMATION = By("token:00000000-0000-0000-0000-000000000001", "test automation")
LETTER = {
    "subject": "Thank you for ordering from the spring launch",
    "text": "Your order is on its way. We hope that you like it.",
    "sender": "launch-care desk",
}
LETTER_PARAMS = {"campaign": "spring launch", "company": "Alder Works", "email": "contact@customers.example"}
WIRE = Wire(AddressGuard.of(["127.0.0.0/8"]))


@pytest.fixture
def sandbox() -> Iterator[SandboxControl]:
    peer = SandboxPeer(port=0)
    peer.start()
    yield SandboxControl(peer.url)
    peer.stop()


@dataclass
class Desk:
    """What a test does with the engine, without Celery in between."""

    team: Team
    sandbox: SandboxControl

    def open(
        self, workflow: str = "campaign_follow_up", operation_id: str | None = None, **extra: Any
    ) -> Opened:
        return open_operations([self.wanted(workflow, operation_id, **extra)])[0]

    def wanted(
        self, workflow: str = "campaign_follow_up", operation_id: str | None = None, **extra: Any
    ) -> NewOperation:
        current = current_workflow(self.team.pk, workflow)
        return NewOperation(
            team_id=self.team.pk,
            operation_id=operation_id or f"test:{uuid.uuid4()}",
            workflow_version_id=current.version_id,
            destinations=current.destinations,
            params=params(workflow, **extra),
            actor="command:test",
        )

    def letter(self, text_id: str | None = None, *, by: By = AUTOMATION, **more: Any) -> Opened:
        """An operation of `campaign_letter` with content that a model wrote, or with that of `more`."""
        content = {"content_id": "spring-launch:letter", "fields": LETTER, "author_kind": AuthorKind.MODEL}
        content |= {"author": "draft-writer-2", **more}
        wanted = Wanted(text_id or f"test:{uuid.uuid4()}", "campaign_letter", dict(LETTER_PARAMS),
                        content=WantedContent(**content))  # fmt: skip
        taken = open_intended(self.team.pk, [wanted], by)[0]
        assert taken.opened is not None, taken
        return taken.opened

    def propose(
        self, by: By, *, kind: AuthorKind = AuthorKind.PERSON, author: str = "", **changed: str
    ) -> OpenedVersion:
        """Another version of the letter; a person’s own unless `kind` says otherwise."""
        proposal = Proposal(
            "spring-launch:letter", "campaign_letter", LETTER | changed, kind, author or by.name
        )
        return open_content_version(self.team.pk, proposal, by)

    def send(self) -> dispatch.Counts:
        return dispatch.run_once(wire=WIRE, threads=8, claim_for_seconds=0.5)

    def look(self) -> int:
        return reconcile.run_once(wire=WIRE, threads=8, look_for_seconds=0.5)

    def sweep(self) -> sweep.Swept:
        return sweep.run_once()

    def hurry(self, seconds: float = 3600.0) -> None:
        """Moves everything that waits for a time into the past: the tests' way of letting time go by."""
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE ledger_step SET act_at = act_at - %s * interval '1 second' WHERE act IN ('send', 'look')",
                [seconds],
            )

    def step(self, opened: Opened, number: int = 1) -> Step:
        return Step.objects.get(operation_id=opened.id, number=number)

    def operation(self, opened: Opened) -> Operation:
        return Operation.objects.get(pk=opened.id)


def step_identity(operation_id: uuid.UUID, number: int) -> str:
    """What the step's record carries of ours, by which the sandbox's requests and effects are found."""
    found = Step.objects.values_list("identity", flat=True).get(operation_id=operation_id, number=number)
    assert found
    return found


def turn_recovery(*actions: str, on: bool) -> None:
    """Whether these actions recover by themselves from now on, or all of them; their journals say so."""
    rows = Recovery.objects.filter(action__in=actions) if actions else Recovery.objects.all()
    with transaction.atomic():
        for row in rows:
            facts = {"recovers": {row.action: on}}
            append([Line("definition", row.destination_id, "recovery_changed", "command:test", body(facts))])
        rows.update(enabled=on)


def load_with_steps(team_id: uuid.UUID, folder: Path, workflow: str, steps: str) -> None:
    """The demo's definitions, copied into the folder, in which this workflow has these steps instead of its own."""
    copied = folder / "definitions"
    shutil.copytree(DEFINITIONS, copied, dirs_exist_ok=True)
    file = copied / f"{workflow}.toml"
    file.write_text(file.read_text().partition(f"[[workflow.{workflow}.steps]]")[0] + steps)
    load(team_id, read_files([copied]), actor="command:test")
    forget_current()


def params(workflow: str, **extra: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "campaign": "spring launch", "company": "Alder Works", "account": "ACC-4417", "subject": "Call Alder Works",
        "queue": "launch-care", "due_date": "2026-12-16",
    }  # fmt: skip
    if workflow == "campaign_follow_up":
        values |= {
            "email": "contact@customers.example",
            "message_subject": "Thank you",
            "message_text": "We will call you.",
        }
    return values | extra


@pytest.fixture
def desk(transactional_db: None, sandbox: SandboxControl, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("SANDBOX_URL", sandbox.url)
    forget_current()
    owner = add_person(
        email="owner@test.example", display_name="Test owner", password="correct horse battery"
    )
    team = add_team(slug="desk", name="Desk", fallback_owner=owner)
    load(team.pk, read_files([DEFINITIONS]), actor="command:test")
    return Desk(team, sandbox)
