"""The services that a channel may name: what their addresses look like, and what of them may be shown.

The addresses are Apprise's (https://github.com/caronc/apprise/wiki, read 2026-11). Only the services below are spoken to,
and of the options of an address only those that say to whom: none that reads a local file, follows a redirect, repeats by
itself or turns the check of certificates off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

ADDRESS_LENGTH_MAX = 2000


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    host: str = ""  # "": the address names it


SERVICES = {
    "json": Service("Webhook (JSON)"),
    "jsons": Service("Webhook (JSON over TLS)"),
    "mailto": Service("Mail"),
    "mailtos": Service("Mail over TLS"),
    "slack": Service("Slack", "slack.com"),
    "workflow": Service("Microsoft Teams"),
    "discord": Service("Discord", "discord.com"),
    "mmost": Service("Mattermost"),
    "mmosts": Service("Mattermost over TLS"),
    "gchat": Service("Google Chat", "chat.googleapis.com"),
    "ntfy": Service("ntfy"),
    "ntfys": Service("ntfy over TLS"),
    "pagerduty": Service("PagerDuty", "events.pagerduty.com"),
    "opsgenie": Service("Opsgenie", "api.opsgenie.com"),
    "tgram": Service("Telegram", "api.telegram.org"),
    "wxteams": Service("Webex", "webexapis.com"),
}
_NTFY_CLOUD = "ntfy.sh"
# Other ways to write the same; what Apprise gives back is the first form.
_ALSO = frozenset({"workflows", "webex", "https"})
_OPTIONS = frozenset(
    {"from", "to", "cc", "bcc", "name", "user", "pass", "smtp", "port", "mode", "format", "priority", "tags", "region",
     "method", "channel", "topic", "token", "thread"}
)  # fmt: skip


class BadAddress(ValueError):
    """The address can't be a channel's. The message says why, and holds nothing of it."""


@dataclass(frozen=True, slots=True)
class Shown:
    scheme: str
    host: str


def read_address(text: str) -> Shown:
    """What may be shown of an address that a channel may have; BadAddress for any other."""
    sender = instantiate(text)
    scheme = _scheme_of(sender)
    service = SERVICES[scheme]
    host = service.host or getattr(sender, "smtp_host", None) or sender.host or ""
    return Shown(scheme, host or (_NTFY_CLOUD if scheme.startswith("ntfy") else ""))


def instantiate(text: str) -> Any:
    """Apprise's sender for the address: it sends once, follows no redirect and checks certificates."""
    text = text.strip()
    if not text or len(text) > ADDRESS_LENGTH_MAX or not text.isprintable():
        raise BadAddress(f"An address has 1 to {ADDRESS_LENGTH_MAX} printable characters.")
    _check_form(text)
    sender = _apprise().Apprise.instantiate(text, asset=_asset(), suppress_exceptions=True)
    if sender is None or _scheme_of(sender) not in SERVICES:
        raise BadAddress(
            "The address lacks something that this service needs, or is of a service not spoken to."
        )
    sender.redirects = False
    sender.verify_certificate = True
    sender.retry = 0
    return sender


def _check_form(text: str) -> None:
    scheme, found, _rest = text.partition("://")
    if not found or scheme.lower() not in SERVICES.keys() | _ALSO:
        raise BadAddress(f"The address must begin with one of: {', '.join(f'{one}://' for one in SERVICES)}.")
    try:
        parts = urlsplit(text)
        options = {name.lower() for name, _value in parse_qsl(parts.query, keep_blank_values=True)}
    except ValueError as why:
        raise BadAddress("The address can’t be read.") from why
    others = {
        one for one in options if one not in _OPTIONS and not one.startswith("+")
    }  # + is a header of a webhook
    if others:
        allowed = ", ".join(sorted(_OPTIONS))
        raise BadAddress(f"The address has options that are not taken here; those that are: {allowed}.")


def _scheme_of(sender: Any) -> str:
    return urlsplit(str(sender.url(privacy=True))).scheme


def _apprise() -> Any:
    """It is large: loaded by those who add a channel or send to one, and by nobody else."""
    import apprise

    return apprise


def _asset() -> Any:
    """Nothing is loaded from disk, and no picture of Apprise's is linked to."""
    return _apprise().AppriseAsset(
        app_id="OpsLedger", app_desc="OpsLedger", app_url="", image_url_mask="", http_redirects=False,
        plugin_paths=[], secure_logging=True,
    )  # fmt: skip
