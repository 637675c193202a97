"""`manage.py play_demo`: plays the demo's operations once, through the API, against the sandbox."""

from __future__ import annotations

import base64
import os
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db.models.functions import Now
from django.utils import timezone

from opsledger.accounts.actions import create_token
from opsledger.accounts.models import ApiToken, Person, Team
from opsledger.accounts.permissions import Scope
from opsledger.demo.management.commands.prepare_demo import SHOP_SECRET
from opsledger.demo.people import SECOND_OWNER, TEAM
from opsledger.demo.play import Doors, interfere, leave_to_be_approved, play, write_letters
from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import Operation

NAME = "demo automation"


class Command(BaseCommand):
    help = (
        "Plays some seventy operations through the sandbox. Does nothing when there are operations already."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        team = Team.objects.get(slug=TEAM)
        if Operation.objects.filter(team=team).exists():
            self.stdout.write("The demo was played before; its operations are in the inbox and in the list.")
            return
        sandbox = SandboxControl(os.environ.get("SANDBOX_URL", "http://127.0.0.1:8701"))
        doors = Doors(settings.PUBLIC_URL, _token(team), _shop_secret(), sandbox)
        sandbox.mode(mail_delivery_seconds=4.0)
        # Nothing leaves while the sandbox learns how to treat each request.
        switch_sending(False, reason="the demo is being laid out", by="command:play_demo")
        try:
            played = play(doors)
            letters = write_letters(doors, _approvers_token(team))
        finally:
            switch_sending(True, reason="the demo is laid out", by="command:play_demo")
        interfere(doors, played)
        leave_to_be_approved(doors, letters)
        self.stdout.write(f"{Operation.objects.filter(team=team).count()} operations are under way.")


def _shop_secret() -> bytes:
    return base64.b64decode(SHOP_SECRET.read_text(encoding="ascii").strip().removeprefix("whsec_"))


def _token(team: Team) -> str:
    ApiToken.objects.filter(team=team, name=NAME, revoked_at__isnull=True).update(revoked_at=Now())
    return create_token(team=team, name=NAME, scopes=[Scope.RECORD, Scope.READ, Scope.PROPOSE]).text


def _approvers_token(team: Team) -> str:
    """The second owner's own, good for as long as the demo is laid out: an automation may not approve."""
    owner = Person.objects.get(email=SECOND_OWNER)
    until = timezone.now() + timedelta(minutes=5)
    name = f"{NAME}: approve"
    ApiToken.objects.filter(team=team, name=name, revoked_at__isnull=True).update(revoked_at=Now())
    return create_token(
        team=team, name=name, scopes=[Scope.READ, Scope.DECIDE], person=owner, expires_at=until
    ).text
