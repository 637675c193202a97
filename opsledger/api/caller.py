"""Who calls: a bearer token, its team, and what it may do there."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest

from opsledger.accounts import tokens
from opsledger.accounts.models import ApiToken
from opsledger.accounts.permissions import (
    AUTOMATION_GRANTS,
    WORDS,
    Permission,
    Via,
    granted_by,
    roles_with,
)
from opsledger.api.problems import Problem
from opsledger.ledger.actions.deciding import By


@dataclass(frozen=True, slots=True)
class Caller:
    token: ApiToken
    team_id: UUID
    by: By

    def require(self, permission: Permission) -> None:
        """403 with the reason: the token's scopes, its kind, or its person's roles."""
        if not tokens.token_allows(self.token, permission):
            raise Problem("not_allowed", f"{_why(self.token, permission)} Nothing was changed.")


def caller_of(request: HttpRequest) -> Caller:
    """The live token of this request; 401 for anything else, however it is written."""
    scheme, _, text = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise _refused("Without a bearer token nothing can be read or recorded.")
    token = tokens.find(text.strip(" "))
    if token is None:
        raise _refused("The token is unknown, revoked or expired.")
    request.log_ids = {"token_id": token.pk, "team_id": token.team_id}  # type: ignore[attr-defined]
    return Caller(token, token.team_id, _by(token))


def _by(token: ApiToken) -> By:
    """A personal token acts as its person."""
    if token.person is None:
        return By(f"token:{token.pk}", token.name)
    return By(f"person:{token.person.pk}", token.person.display_name, token.person.pk)


def _refused(detail: str) -> Problem:
    return Problem("not_signed_in", f"{detail} Nothing was recorded.", headers={"WWW-Authenticate": "Bearer"})


def _why(token: ApiToken, permission: Permission) -> str:
    words = WORDS[permission]
    if token.via is Via.AUTOMATION and permission not in AUTOMATION_GRANTS:
        return f"An automation’s token can’t {words}: that needs a person’s own token."
    if token.via is Via.PERSONAL and permission in AUTOMATION_GRANTS and not roles_with(permission):
        return f"A person’s token can’t {words}: that needs an automation’s token."
    if permission not in granted_by(token.scopes):
        return f"The token’s scopes ({', '.join(token.scopes)}) don’t let it {words}."
    roles = " or ".join(role.value for role in roles_with(permission))
    return f"To {words}, its person needs the role {roles} in this team."
