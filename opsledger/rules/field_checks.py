"""What must hold of single fields, in whatever definition they stand: names, paths, templates, dates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from opsledger.rules.building import Problems
from opsledger.rules.templates import BadTemplate, Placeholder, parse, placeholders

_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)


def check_template(template: Any, roots: set[str], path: str, problems: Problems) -> None:
    """The template can be read, and every placeholder begins with one of these words."""
    try:
        found = list(placeholders(template))
    except BadTemplate as why:
        problems.add(path, str(why))
        return
    for placeholder in found:
        if placeholder.path[0] not in roots:
            problems.add(path, f"names {placeholder.name}; known here are {', '.join(sorted(roots))}")


def safe_parts(template: str) -> tuple[str | Placeholder, ...]:
    try:
        return parse(template)
    except BadTemplate:
        return ()  # told by check_template


def safe_placeholders(template: str) -> list[Placeholder]:
    return [part for part in safe_parts(template) if isinstance(part, Placeholder)]


def at_place(body: Any, place: str) -> Any:
    """What stands at a dotted path of a body's template; None where nothing does. "" is the body itself."""
    for name in place.split(".") if place else ():
        if not isinstance(body, dict) or name not in body:
            return None
        body = body[name]
    return body


def check_slug(slug: str, path: str, problems: Problems) -> None:
    if not _SLUG.fullmatch(slug):
        problems.add(
            path, "must be named with a-z, 0-9, _ and -, beginning with a letter, at most 63 characters"
        )


def check_name(name: str, path: str, problems: Problems) -> None:
    if not _NAME.fullmatch(name):
        problems.add(
            path, "must be named with a-z, 0-9 and _, beginning with a letter, at most 63 characters"
        )


def check_variable(name: str, path: str, problems: Problems) -> None:
    if not _VARIABLE.fullmatch(name):
        problems.add(path, "must be the name of an environment variable, such as CRM_TOKEN")


def check_path(value: str, path: str, problems: Problems) -> None:
    if not value.startswith("/") or "?" in value.replace("?}", "") or "#" in value:
        problems.add(path, "must begin with / and hold neither ? nor #; write fields of the query as query")


def check_distinct(names: list[str], path: str, problems: Problems) -> None:
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add(path, f"names {name} more than once")


def check_increasing(delays: Iterable[int], path: str, problems: Problems) -> None:
    listed = list(delays)
    if listed != sorted(listed):
        problems.add(path, "must not decrease")


def check_date(text: str, path: str, problems: Problems) -> None:
    try:
        datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007  a day, not a moment
    except ValueError:
        problems.add(path, "must be a date, such as 2026-03-01")
