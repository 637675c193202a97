"""Settings from the environment: `NAME`, or `NAME_FILE` that names a file with the value.

Nonsense is an error that names the variable; an empty value counts as absent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

# A name, `.name` for it and what is below it, an address (a v6 one in brackets), or * for any.
_HOST = re.compile(r"\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\]", re.ASCII)


class BadSetting(ValueError):
    """A variable holds something that can't be used. The message names it and says what would be right."""


class Env:
    """Reads typed values; `source` is passed in by tests, `os.environ` otherwise."""

    def __init__(self, source: Mapping[str, str] | None = None) -> None:
        self._source = os.environ if source is None else source

    def text(self, name: str, default: str = "") -> str:
        direct, from_file = self._source.get(name, ""), self._source.get(f"{name}_FILE", "")
        if direct and from_file:
            raise BadSetting(f"{name} and {name}_FILE are both set; keep one of them.")
        if from_file:
            try:
                return Path(from_file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as why:
                raise BadSetting(f"{name}_FILE={from_file!r} can't be read: {why}.") from why
        return direct.strip() or default

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name).lower()
        if not value:
            return default
        if value in {"1", "true", "yes", "on"}:
            return True
        if value in {"0", "false", "no", "off"}:
            return False
        raise BadSetting(f"{name}={value!r} is neither yes nor no; use 1 or 0.")

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        value = self.text(name)
        if not value:
            return default
        if not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            raise BadSetting(f"{name}={value!r} must be a whole number from {least} to {most}.")
        return int(value)

    def networks(self, name: str) -> list[str]:
        """CIDR ranges, as text; one that is none is an error here, at the start, and not when something is to be sent."""
        found = self.names(name, [])
        for text in found:
            try:
                ip_network(text)
            except ValueError as why:
                raise BadSetting(f"{name} holds {text!r}: {why}. Write ranges such as 10.0.0.0/8.") from why
        return found

    def hosts(self, name: str, default: list[str]) -> list[str]:
        """Names of hosts as Django compares them; one that could fit no request is an error here."""
        found = self.names(name, default)
        for text in found:
            if not _HOST.fullmatch(text):
                raise BadSetting(
                    f"{name} holds {text!r}, which is no name of a host. Write names such as ops.example.com, without "
                    "scheme, port or path."
                )
        return found

    def names(self, name: str, default: list[str]) -> list[str]:
        value = self.text(name)
        return [part.strip() for part in value.split(",") if part.strip()] if value else default

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise BadSetting(f"{name}={value!r} is not one of: {', '.join(choices)}.")
        return value

    def url(self, name: str, default: str, schemes: tuple[str, ...], *, bare: bool = False) -> str:
        """A URL that can lead somewhere; with `bare` of a host and a port alone. Its text is never shown: it may hold a
        password."""
        value = self.text(name, default)
        if not value:
            return value
        scheme = value.partition(":")[0].lower()
        if "://" not in value or scheme not in schemes:
            raise BadSetting(
                f"{name} must be a URL that starts with one of: {', '.join(s + '://' for s in schemes)}."
            )
        wrong = _wrong_with(value)
        if not wrong and bare and not _is_bare(value):
            wrong = f"it must be {scheme}://host:port and nothing more"
        if wrong:
            raise BadSetting(f"{name} can't be used: {wrong}.")
        return value


def _wrong_with(value: str) -> str:
    """Why this URL leads nowhere, whatever is there; "" when it may."""
    try:
        parts = urlsplit(value)
        hosts = parts.netloc.rpartition("@")[2].split(",")  # a database's may be several
        ports = [urlsplit(f"//{host}").port for host in hosts]
    except ValueError as why:
        return str(why) if "IPv6" in str(why) else "its port is not a number from 1 to 65535"
    if 0 in ports:
        return "its port is not a number from 1 to 65535"
    if parts.scheme in {"http", "https"} and not parts.hostname:
        return "it names no host"
    path = parts.path.strip("/")
    if parts.scheme in {"redis", "rediss"} and path and not (path.isascii() and path.isdigit()):
        return "its path is the number of a database, such as /0"
    return ""


def _is_bare(value: str) -> bool:
    parts = urlsplit(value)
    return parts.path in {"", "/"} and not (parts.query or parts.fragment or "@" in parts.netloc)
