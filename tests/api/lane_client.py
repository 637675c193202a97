"""Django's client on the way that a server's requests take."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.test.client import ClientHandler

from opsledger.api.lane import PLACES, Lane


class _LaneHandler(Lane, ClientHandler):
    """What the API and the hooks go through, instead of the settings' middleware."""


class LaneClient(Client):
    """Goes through the lane where the server does, and through the console's middleware everywhere else."""

    def __init__(self, enforce_csrf_checks: bool = False, **defaults: Any) -> None:
        super().__init__(enforce_csrf_checks=enforce_csrf_checks, **defaults)
        self._console, self._lane = self.handler, _LaneHandler(enforce_csrf_checks)

    def request(self, **request: Any) -> Any:
        self.handler = self._lane if str(request.get("PATH_INFO", "")).startswith(PLACES) else self._console
        return super().request(**request)
