"""The demo's team and its people, one for each role, with passwords made on the first start."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from opsledger.accounts.actions import add_person, add_team, grant_role
from opsledger.accounts.models import Person, Team
from opsledger.accounts.permissions import Role

TEAM = "campaigns"
FIRST_OWNER, OPERATOR = "owner@demo.example", "operator@demo.example"
SECOND_OWNER = "second-owner@demo.example"  # approves what the first one wrote or asked for
PEOPLE: tuple[tuple[str, str, tuple[Role, ...]], ...] = (
    (FIRST_OWNER, "Demo owner", (Role.OWNER,)),
    (SECOND_OWNER, "Second owner", (Role.OWNER,)),
    (OPERATOR, "Demo operator", (Role.OPERATOR,)),
    ("manager@demo.example", "Demo manager", (Role.VIEWER,)),
    ("admin@demo.example", "Demo admin", (Role.ADMIN,)),
)


def make_people(kept_in: Path) -> Team:
    """The team with its people. Passwords are made once and kept in a file that only its owner can read."""
    team = Team.objects.filter(slug=TEAM).first()
    if team is not None:
        return team
    passwords = {email: _password() for email, _, _ in PEOPLE}
    _keep(kept_in, passwords)
    people: dict[str, Person] = {
        email: add_person(email=email, display_name=name, password=passwords[email])
        for email, name, _ in PEOPLE
    }
    team = add_team(slug=TEAM, name="Campaign desk", fallback_owner=people[FIRST_OWNER])
    for email, _, roles in PEOPLE:
        for role in roles:
            grant_role(people[email], team, role)
    return team


def sign_in_lines(kept_in: Path) -> list[str]:
    """How to sign in, for the console."""
    try:
        passwords = json.loads(kept_in.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [f"The demo's passwords are not in {kept_in.name} any more; an admin can set new ones."]
    return [f"{email:<28} {password}" for email, password in passwords.items()]


def _password() -> str:
    return "-".join(secrets.token_hex(2) for _ in range(4))


def _keep(path: Path, passwords: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(passwords, file, indent=1)
