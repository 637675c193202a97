"""Where mail is handed over, from one address: `smtp://user:password@mail.example.com:587`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from opsledger.lib.env import BadSetting

_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailSettings:
    host: str
    port: int
    user: str
    password: str
    starttls: bool
    ssl: bool
    sender: str


def mail_settings(url: str, sender: str) -> MailSettings | None:
    """None without an address. `smtp://` asks for STARTTLS unless `?tls=off`; `smtps://` speaks TLS from the first byte."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as why:
        raise BadSetting(f"EMAIL_URL can't be read: {why}.") from why
    if parts.scheme not in _PORTS or not parts.hostname:
        raise BadSetting("EMAIL_URL must be like smtp://user:password@mail.example.com:587, or smtps://….")
    tls = parse_qs(parts.query, keep_blank_values=True)
    if tls not in ({}, {"tls": ["off"]}):
        raise BadSetting("EMAIL_URL takes ?tls=off and nothing else after the question mark.")
    if "@" not in sender:
        raise BadSetting("MAIL_FROM must be the address that mail comes from; EMAIL_URL is set.")
    return MailSettings(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starttls=parts.scheme == "smtp" and not tls,
        ssl=parts.scheme == "smtps",
        sender=sender,
    )
