"""The services that a channel may name: what their addresses look like, and what of them may be shown.

The addresses are Apprise's (https://github.com/caronc/apprise/wiki, read 2026-11). Only the services below are spoken to,
and of the options of an address only those that say to whom: none that reads a local file, follows a redirect, repeats by
itself or turns the check of certificates off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

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
    parts = _parts_of(text)
    _check_parts(parts)
    sender = _apprise().Apprise.instantiate(parts, asset=_asset(), suppress_exceptions=True)
    if sender is None or _scheme_of(sender) not in SERVICES:
        raise BadAddress(_LACKING)
    sender.redirects = False
    sender.verify_certificate = True
    sender.retry = 0
    return sender


_LACKING = "The address lacks something that this service needs, or is of a service not spoken to."


def _parts_of(text: str) -> dict[str, Any]:
    """The address as Apprise itself takes it apart. What reads it in any other way is told of other options than are used:
    Apprise also finds some behind a `;` or a `#`."""
    scheme, found, _rest = text.partition("://")
    if not found or scheme.lower() not in SERVICES.keys() | _ALSO:
        raise BadAddress(f"The address must begin with one of: {', '.join(f'{one}://' for one in SERVICES)}.")
    try:
        urlsplit(text)
        parts = _apprise().plugins.url_to_dict(text, secure_logging=True)
    except Exception as why:  # whatever its many parsers raise, the address is what can't be read
        raise BadAddress("The address can’t be read.") from why
    if not parts:
        raise BadAddress(_LACKING)
    return dict(parts)


def _check_parts(parts: Mapping[str, Any]) -> None:
    names = {str(one).lower().strip() for one in parts.get("qsd") or ()}
    others = {
        one for one in names if one not in _OPTIONS and not one.startswith("+")
    }  # + is a header of a webhook
    if others:
        allowed = ", ".join(sorted(_OPTIONS))
        raise BadAddress(f"The address has options that are not taken here; those that are: {allowed}.")
    if not all(one.isprintable() for one in _texts(parts)):
        raise BadAddress("The address holds characters that can’t be printed, such as an end of line.")


def _texts(value: Any) -> Iterator[str]:
    """Every text in the parts of an address, with its escapes undone."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _texts(name)
            yield from _texts(one)
    elif isinstance(value, list | tuple | set):
        for one in value:
            yield from _texts(one)


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
