"""Versions in headers: read with ETag, decided on with If-Match. Nobody decides on what has changed since (law 14)."""

from __future__ import annotations

import re

from django.http import HttpRequest

from opsledger.api.problems import Problem
from opsledger.api.reading import invalid

_VERSION = re.compile(r'"([0-9]{1,9})"|([0-9]{1,9})', re.ASCII)


def version_of(request: HttpRequest) -> int:
    """The version that the decision was made on: 428 without one, 422 for one that can't be read."""
    text = request.headers.get("If-Match", "").strip()
    if not text:
        raise Problem(
            "version_needed", "A decision carries the version that it was made on. Nothing was changed."
        )
    match = _VERSION.fullmatch(text)
    if match is None:
        raise invalid([("If-Match", 'must be one version, such as "3"')])
    return int(match[1] or match[2])


def tagged(version: int) -> dict[str, str]:
    return {"ETag": f'"{version}"'}
