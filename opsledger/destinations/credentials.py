"""Credentials of destinations: they come from the environment at the moment of use and are stored nowhere."""

from __future__ import annotations

from opsledger.lib.env import BadSetting, Env
from opsledger.rules.definitions import DestinationDefinition


class CredentialMissing(LookupError):
    """The variable that should hold the credential is not set. The message names it."""


def credential_headers(
    destination: DestinationDefinition, env: Env | None = None
) -> tuple[tuple[str, str], ...]:
    """The header that carries the destination's credential, or none when it needs none."""
    credential = destination.credential
    if credential is None:
        return ()
    try:
        secret = (env or Env()).text(credential.environment)
    except BadSetting as why:
        raise CredentialMissing(str(why)) from why
    if not secret:
        raise CredentialMissing(
            f"{credential.environment} is not set, so {destination.slug} can't be called."
        )
    name, _, form = credential.header.partition(":")
    return ((name.strip(), form.strip().replace("{secret}", secret)),)
