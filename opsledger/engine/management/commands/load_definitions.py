"""`manage.py load_definitions PATH… --team SLUG`: sources, destinations and workflows from TOML."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from opsledger.accounts.named import team_of
from opsledger.engine.loading import BadDefinitions, read_files
from opsledger.journal.actor import current_actor
from opsledger.ledger.actions.definitions import load


class Command(BaseCommand):
    help = "Loads sources, destinations and workflows. Unchanged = nothing; changed = a new version."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "paths", nargs="+", type=Path, metavar="PATH", help="TOML files, or folders of them"
        )
        parser.add_argument("--team", required=True, help="the team's slug")
        parser.add_argument("--check", action="store_true", help="only validate; load nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        team = team_of(options["team"])
        if team is None:
            raise CommandError(f"There is no team “{options['team']}”. Nothing was loaded.")
        try:
            definitions = read_files(options["paths"])
        except BadDefinitions as why:
            raise CommandError("\n".join([*why.problems, "Nothing was loaded."])) from why
        if options["check"]:
            self.stdout.write(f"{len(definitions)} definitions are valid.")
            return
        for one in load(team.pk, definitions, actor=current_actor()):
            self.stdout.write(
                f"{one.kind} {one.slug}: version {one.number}{', new' if one.changed else ', unchanged'}"
            )
