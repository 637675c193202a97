"""`manage.py after_restore --until T`: after a backup was restored, what may have been sent since becomes unknown."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from opsledger.journal.actor import current_actor
from opsledger.ledger.actions.sending import NotAllRestored, record_restored
from opsledger.ledger.models import SendingSwitch
from opsledger.lib.ids import public
from opsledger.lib.timestamps import read_moment

SHOWN_MAX = 5


class Command(BaseCommand):
    help = (
        "Makes every step that could have been sent since the restored backup unknown. Sending must be off."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--until", required=True, help="when sending stopped for good (ISO time with zone)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        until = read_moment(options["until"])
        if until is None:
            raise CommandError("--until must be an ISO time with its zone, such as 2026-11-29T12:00:00Z.")
        if SendingSwitch.objects.get(pk=1).sending:
            raise CommandError(
                'Sending is on. Turn it off first: manage.py sending off --reason "backup restored".'
            )
        try:
            count = record_restored(until, actor=current_actor())
        except NotAllRestored as why:
            raise CommandError(_words_of(why)) from why
        self.stdout.write(
            f"{count} operations have steps of unknown outcome now. Look at them, then: manage.py sending on --reason …"
        )


def _words_of(why: NotAllRestored) -> str:
    shown = ", ".join(public("op", one) for one in why.broken[:SHOWN_MAX])
    more = f" and {len(why.broken) - SHOWN_MAX} more" if len(why.broken) > SHOWN_MAX else ""
    return (
        f"{why.count} operations have steps of unknown outcome now, but {len(why.broken)} can't be read: {shown}{more}."
        " Leave sending off: their steps could be sent a second time. verify_ledger says what is wrong with them; mend that,"
        " then run this again."
    )
