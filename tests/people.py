"""The cast of the tests: four people of one team, one of another, and how they sign in."""

from __future__ import annotations

from dataclasses import dataclass

from django.test import Client

from opsledger.accounts import actions
from opsledger.accounts.models import Person, Team
from opsledger.accounts.roles import Role

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Cast:
    launch: Team
    returns: Team
    vera: Person  # viewer in launch
    omar: Person  # operator in launch
    olga: Person  # owner in launch, and its fallback owner
    adam: Person  # admin in launch
    rita: Person  # owner and admin in returns: an outsider to launch


def person(name: str) -> Person:
    """Made without the slow hash of a real password; `client_of` signs in without one."""
    made = Person(email=f"{name.lower()}@example.test", display_name=name)
    made.set_unusable_password()
    made.save(force_insert=True)
    return made


def make_cast() -> Cast:
    vera, omar, olga, adam, rita = (person(name) for name in ("Vera", "Omar", "Olga", "Adam", "Rita"))
    launch = actions.add_team(slug="launch", name="Spring launch", fallback_owner=olga)
    returns = actions.add_team(slug="returns", name="Returns", fallback_owner=rita, also=[Role.ADMIN])
    for who, role in ((vera, Role.VIEWER), (omar, Role.OPERATOR), (adam, Role.ADMIN)):
        actions.grant_role(who, launch, role)
    return Cast(launch, returns, vera, omar, olga, adam, rita)


def client_of(who: Person, **extra: object) -> Client:
    client = Client(**extra)  # type: ignore[arg-type]
    client.force_login(who, backend="django.contrib.auth.backends.ModelBackend")
    return client
