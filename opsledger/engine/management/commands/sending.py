"""`manage.py sending off --reason …` / `on`: the one switch for everything that leaves this house."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from opsledger.journal.actor import current_actor
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import SendingSwitch


class Command(BaseCommand):
    help = "Turns all sending off or on, or shows which it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("to", nargs="?", choices=["on", "off"])
        parser.add_argument("--reason", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["to"] is not None:
            if not options["reason"].strip():
                raise CommandError('Say why: --reason "…". It is kept with the switch.')
            try:
                self._switch(options["to"] == "on", options["reason"])
            except Refused as why:
                raise CommandError(f"{why.why} Nothing was switched.") from why
        switch = SendingSwitch.objects.get(pk=1)
        word = "on" if switch.sending else "off"
        said = f", since {switch.changed_at:%Y-%m-%d %H:%M} UTC by {switch.changed_by}: {switch.reason}"
        self.stdout.write(f"Sending is {word}{said if switch.changed_by else ''}.")

    def _switch(self, to_on: bool, reason: str) -> None:
        if not switch_sending(to_on, reason=reason, by=current_actor()):
            self.stdout.write(
                "A worker is still at a claim that it began before; what it opens may be sent. Ask again to wait for it."
            )
