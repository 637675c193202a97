"""`manage.py create_token NAME --team … --scope …` prints a token once."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from opsledger.accounts import actions
from opsledger.accounts.models import Person, Team
from opsledger.accounts.named import person_of, team_of
from opsledger.accounts.permissions import Scope


class Command(BaseCommand):
    help = "Makes an API token and prints it once; only its hash is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--team", required=True, help="the team's short name")
        parser.add_argument(
            "--scope",
            action="append",
            required=True,
            choices=[scope.value for scope in Scope],
            help="may be repeated",
        )
        parser.add_argument("--person", help="an e-mail address: makes that person's own token")
        parser.add_argument(
            "--days", type=int, help="expires after so many days; a personal one always does (30)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        person = _person(options["person"]) if options["person"] else None
        days = options["days"] if options["days"] is not None else (30 if person else None)
        if days is not None and not 1 <= days <= 3650:
            raise CommandError("--days is a number from 1 to 3650.")
        try:
            made = actions.create_token(
                team=_team(options["team"]),
                name=options["name"],
                scopes=options["scope"],
                person=person,
                expires_at=timezone.now() + timedelta(days=days) if days else None,
            )
        except actions.Refused as why:
            raise CommandError(why.message) from why
        self.stderr.write(f"Token “{made.token.name}” for {made.token.team.name}. It is shown this once:")
        self.stdout.write(made.text)


def _team(slug: str) -> Team:
    team = team_of(slug)
    if team is None:
        known = ", ".join(Team.objects.values_list("slug", flat=True)) or "none yet"
        raise CommandError(f"There is no team “{slug}”. Teams: {known}.")
    return team


def _person(email: str) -> Person:
    person = person_of(email)
    if person is None:
        raise CommandError(f"There is no person with the address {email}.")
    return person
