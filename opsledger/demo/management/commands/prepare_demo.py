"""`manage.py prepare_demo`: the demo's team, people and definitions. Prints how to sign in."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from opsledger.demo.people import make_people, sign_in_lines
from opsledger.engine.loading import BadDefinitions, read_files
from opsledger.ledger.actions.definitions import load
from opsledger.lib.secret_file import read_or_make


def webhook_secret() -> str:
    """A secret in the form of Standard Webhooks: whsec_ and base64."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}"


SIGN_IN = settings.VAR_DIR / "demo_sign_in.json"
SHOP_SECRET = settings.VAR_DIR / "demo_shop_secret"
DEFINITIONS = Path(settings.BASE_DIR) / "demo" / "definitions"


class Command(BaseCommand):
    help = "Makes the demo's team, people and definitions; prints how to sign in. Harmless when run again."

    def handle(self, *args: Any, **options: Any) -> None:
        read_or_make(SHOP_SECRET, make=webhook_secret)
        team = make_people(SIGN_IN)
        os.environ.setdefault("SANDBOX_URL", "http://127.0.0.1:8701")
        try:
            load(team.pk, read_files([DEFINITIONS]), actor="command:prepare_demo")
        except BadDefinitions as why:
            raise CommandError("\n".join(why.problems)) from why
        for line in sign_in_lines(SIGN_IN):
            self.stdout.write(line)
