"""`manage.py play_demo`: plays the demo's operations once, through the API, against the sandbox."""

from __future__ import annotations

import base64
import os
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import timezone

from opsledger.accounts.actions import create_token, revoke_token
from opsledger.accounts.models import ApiToken, Person, Team
from opsledger.accounts.permissions import Scope
from opsledger.demo.colleagues import Hands, work
from opsledger.demo.management.commands.prepare_demo import SHOP_SECRET
from opsledger.demo.people import FIRST_OWNER, OPERATOR, SECOND_OWNER, TEAM
from opsledger.demo.play import Doors, interfere, leave_to_be_approved, play, write_letters
from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.ledger.actions.assignment import NewRule, add_rule
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import Operation, SendingSwitch

NAME = "demo automation"
BY = "command:play_demo"


class Command(BaseCommand):
    help = (
        "Plays some seventy operations through the sandbox. Does nothing when there are operations already."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        team = Team.objects.get(slug=TEAM)
        if Operation.objects.filter(team=team).exists():
            self._go_on()
            return
        sandbox = SandboxControl(os.environ.get("SANDBOX_URL", "http://127.0.0.1:8701"))
        hands = _hands(team)
        doors = Doors(settings.PUBLIC_URL, hands.automation, _shop_secret(), sandbox)
        _set_rules(team)
        sandbox.mode(mail_delivery_seconds=4.0)
        # Nothing leaves while the sandbox learns how to treat each request.
        switch_sending(False, reason="the demo is being laid out", by=BY)
        try:
            played = play(doors)
            letters = write_letters(doors, hands.owner)
        finally:
            switch_sending(True, reason="the demo is laid out", by=BY)
        interfere(doors, played)
        leave_to_be_approved(doors, letters)
        work(doors, played, hands)
        self.stdout.write(f"{Operation.objects.filter(team=team).count()} operations are under way.")

    def _go_on(self) -> None:
        """Who was stopped while it laid the demo out has left sending off; what anybody else switched off stays off."""
        if SendingSwitch.objects.filter(sending=False, changed_by=BY).exists():
            switch_sending(True, reason="the demo was stopped while it was laid out", by=BY)
            self.stdout.write(
                "The demo was stopped while it was laid out. What it had recorded is sent now; nothing more is added."
            )
            return
        self.stdout.write("The demo was played before; its operations are in the inbox and in the list.")


def _shop_secret() -> bytes:
    return base64.b64decode(SHOP_SECRET.read_text(encoding="ascii").strip().removeprefix("whsec_"))


def _set_rules(team: Team) -> None:
    """Two reasons have somebody who knows about them; the rest opens unowned."""
    people = {one.email: one for one in Person.objects.filter(email__in=[FIRST_OWNER, OPERATOR])}
    wanted = (
        NewRule(people[FIRST_OWNER].pk, reason="duplicate_found"),
        NewRule(people[OPERATOR].pk, destination="mail", reason="delivery_failed"),
    )
    for rule in wanted:
        add_rule(team.pk, rule, By(BY, NAME, people[FIRST_OWNER].pk))


def _hands(team: Team) -> Hands:
    return Hands(
        automation=_token(team),
        operator=_own_token(team, OPERATOR, Scope.READ, Scope.PROPOSE),
        owner=_own_token(team, SECOND_OWNER, Scope.READ, Scope.DECIDE),
    )


def _token(team: Team) -> str:
    _revoke(team, NAME)
    scopes = [Scope.RECORD, Scope.READ, Scope.REPORT, Scope.PROPOSE]
    return create_token(team=team, name=NAME, scopes=scopes).text


def _revoke(team: Team, name: str) -> None:
    for token in ApiToken.objects.filter(team=team, name=name, revoked_at__isnull=True):
        revoke_token(token)


def _own_token(team: Team, email: str, *scopes: Scope) -> str:
    """A person's own, good for as long as the demo is laid out: an automation may neither approve nor settle."""
    until = timezone.now() + timedelta(minutes=5)
    name = f"{NAME}: {email}"
    _revoke(team, name)
    person = Person.objects.get(email=email)
    return create_token(team=team, name=name, scopes=scopes, person=person, expires_at=until).text
