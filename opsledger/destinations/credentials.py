"""Credentials of destinations: they come from the environment at the moment of use and are stored nowhere."""

from __future__ import annotations

from opsledger.lib.env import BadSetting, Env
from opsledger.rules.definitions import DestinationDefinition
from opsledger.rules.sendable import is_header


class CredentialMissing(LookupError):
    """The variable that should hold the credential is not set, or holds none. The message names it, never the value."""


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
            f"{credential.environment} is not set, so {destination.slug} can’t be called."
        )
    name, _, form = credential.header.partition(":")
    header = name.strip(), form.strip().replace("{secret}", secret)
    if not is_header(*header):
        raise CredentialMissing(
            f"{credential.environment} can’t be sent to {destination.slug}: a header takes one line of ASCII text."
        )
    return (header,)
