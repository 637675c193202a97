"""The control from Python, for tests, drills and simulations. Standard library only."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

TIMEOUT_SECONDS = 30.0


class SandboxRefused(Exception):
    """The peer refused a control request; `fields` maps the wrong fields to what is wrong with them."""

    def __init__(self, status: int, message: str, fields: dict[str, str]) -> None:
        details = "; ".join(f"{field} {why}" for field, why in fields.items())
        super().__init__(f"{status}: {message} {details}".strip())
        self.status = status
        self.fields = fields


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class SandboxControl:
    """`url` is the peer's address. Calls raise SandboxRefused, or OSError when the peer is not there."""

    def __init__(self, url: str, token: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not an http:// or https:// address")
        self.url = url.rstrip("/")
        self._token = token
        self._opener = build_opener(ProxyHandler({}), _NoRedirect())

    def script(
        self,
        behaviour: str,
        count: int | None = 1,
        *,
        method: str | None = None,
        path: str | None = None,
        identity: str | None = None,
        key: str | None = None,
        nth: int | None = None,
        **options: Any,
    ) -> int:
        """Add a rule; the first that fits a request wins. `count` None: always. Returns the rule's number."""
        match = {"method": method, "path": path, "identity": identity, "key": key, "nth": nth}
        rule = {"behaviour": behaviour, "count": count, "match": match, "options": options}
        return int(self._call("POST", "script", rule)["number"])

    def random(
        self,
        seed: int | None,
        weights: dict[str, Any] | None = None,
        lookup_weights: dict[str, Any] | None = None,
    ) -> None:
        """Random behaviour by seed; seed None turns it off."""
        document = {"seed": seed, "weights": weights, "lookup_weights": lookup_weights}
        self._call(
            "POST", "random", {name: value for name, value in document.items() if name == "seed" or value}
        )

    def requests(
        self, since: int = 0, *, identity: str | None = None, method: str | None = None
    ) -> list[dict[str, Any]]:
        """Every wire request after number `since`, oldest first."""
        found = self._all("requests", since, identity)
        return [one for one in found if method in (None, one["method"])]

    def effects(
        self, *, identity: str | None = None, since: int = 0, kind: str | None = None
    ) -> list[dict[str, Any]]:
        """Every effect after number `since`, oldest first."""
        return [one for one in self._all("effects", since, identity) if kind in (None, one["kind"])]

    def mode(self, **changes: Any) -> dict[str, Any]:
        """Change the mode; returns the whole of it."""
        return self._call("POST", "mode", changes) if changes else self._call("GET", "mode")

    def advance(self, seconds: float) -> None:
        """Move the peer's own clock forward."""
        self._call("POST", "clock", {"advance_seconds": seconds})

    def reset(self, *only: str) -> None:
        """Forget everything, or only these parts: records, script, random, mode, clock."""
        self._call("POST", "reset", {"only": list(only)} if only else {})

    def rules(self) -> list[dict[str, Any]]:
        """The rules that are not used up."""
        return list(self._call("GET", "script")["rules"])

    def _all(self, table: str, since: int, identity: str | None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        following: int | None = since
        while following is not None:
            query = {"since": str(following), "limit": "5000"}
            if identity is not None:
                query["identity"] = identity
            page = self._call("GET", f"{table}?{urlencode(query)}")
            found += page["items"]
            following = page["next"]
        return found

    def _call(self, method: str, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        body = None
        if document is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(document).encode()
        request = Request(f"{self.url}/_sandbox/{path}", body, headers, method=method)  # noqa: S310 - checked above
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as reply:
                return dict(json.load(reply))
        except HTTPError as wrong:
            raise _refused(wrong) from None


def _refused(wrong: HTTPError) -> SandboxRefused:
    with wrong:
        error = json.loads(wrong.read())["error"]
    fields = {one["field"]: one["message"] for one in error.get("fields", ())}
    return SandboxRefused(wrong.code, error["message"], fields)
