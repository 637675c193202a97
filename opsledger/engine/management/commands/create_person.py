"""`manage.py create_person E-MAIL --name … --team … --role …`: the first people of an installation."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from opsledger.accounts import actions
from opsledger.accounts.models import Person, Team
from opsledger.accounts.named import team_of
from opsledger.accounts.permissions import Role
from opsledger.journal.actor import current_actor
from opsledger.ledger.actions.approvers import settle_approvers_changed_here
from opsledger.ledger.actions.deciding import By


class Command(BaseCommand):
    help = "Makes a person with roles in a team, and the team when it is new; prints a first password once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", required=True, help="as shown beside decisions")
        parser.add_argument("--team", required=True, help="the team's short name")
        parser.add_argument("--team-name", help="makes the team, with this person as its fallback owner")
        parser.add_argument("--role", action="append", required=True, choices=[role.value for role in Role])

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                person = actions.add_person(email=options["email"], display_name=options["name"])
                team = _team(options["team"], options["team_name"], person)
                for role in options["role"]:
                    actions.grant_role(person, team, Role(role))
                actor = current_actor()
                settle_approvers_changed_here([team.pk], By(actor, actor))
                password = actions.set_temporary_password(person)
        except actions.Refused as why:
            raise CommandError(why.message) from why
        self.stderr.write(f"{person.display_name} may sign in as {person.email} with this password, once:")
        self.stdout.write(password)


def _team(slug: str, name: str | None, person: Person) -> Team:
    team = team_of(slug)
    if team is None and name:
        return actions.add_team(slug=slug, name=name, fallback_owner=person)
    if team is None:
        raise CommandError(f"There is no team “{slug}”; --team-name makes it.")
    return team
