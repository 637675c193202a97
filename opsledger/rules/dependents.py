"""What depends on a record: whether a request names its reference, and which later requests have to follow another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from opsledger.rules.reading import Unreadable, read_json
from opsledger.rules.record import Operation, Step
from opsledger.rules.rendering import as_text
from opsledger.rules.revisions import begin_revision, may_be_revised
from opsledger.rules.settling import Moment

# A shorter reference stands in too many texts by chance; it counts only where it is a whole value.
WITHIN_TEXT_LENGTH_MIN = 4


def names_reference(reference: str, url: str, body: bytes) -> bool:
    """Whether a request names this reference: as a whole value of its address or body, or as a word within one."""
    if not reference:
        return False
    within = re.compile(rf"(?<![^\W_]){re.escape(reference)}(?![^\W_])")
    long = len(reference) >= WITHIN_TEXT_LENGTH_MIN
    values = [*_of_address(url), *_of_body(body)]
    return any(value == reference or (long and within.search(value) is not None) for value in values)


def _of_address(url: str) -> Iterator[str]:
    path, _, query = url.partition("?")
    yield from (unquote(part) for part in path.split("/"))
    yield from (unquote(pair.partition("=")[2]) for pair in query.split("&") if pair)


def _of_body(body: bytes) -> Iterator[str]:
    try:
        yield from _scalars(read_json(body)) if body else ()
    except Unreadable:
        yield body.decode("utf-8", "replace")


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _scalars(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _scalars(inner)
    elif value is not None:
        yield as_text(value)


def follow_reference(operation: Operation, step: Step, moment: Moment) -> None:
    """Later requests that were frozen with another reference of this step, and had no effect, are made anew with its own.

    What they name is changed, so each is another revision under another key, which needs an approval (law 7). Requests
    that may have had an effect keep their bytes.
    """
    if step.reference is None:
        return
    for later in operation.later(step):
        if later.request_digest is None or not may_be_revised(operation, later):
            continue
        if moment.policies[later.number].render(operation, later).digest != later.request_digest:
            begin_revision(operation, later, content_number=later.content_number)
