"""Templates: text with `{params.subject}` in it. A parser of its own; nothing in a template is executed.

`{a.b}` stands for a value, `{a.b?}` for one that may be absent, `{{` and `}}` for a brace. What a value
contains is never looked at again, so a value that looks like a placeholder stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(
    r"\$\{[A-Z][A-Z0-9_]*\}|\{\{|\}\}|\{([a-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*)(\?)?\}|[{}]", re.ASCII
)


class BadTemplate(ValueError):
    """A template that can't be read. The message says where."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    path: tuple[str, ...]
    optional: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)


class Absent:
    """The type of ABSENT, which says that nothing stands at a path."""


ABSENT = Absent()


@lru_cache(maxsize=4096)
def parse(template: str) -> tuple[str | Placeholder, ...]:
    """The parts of a template in order; neighbouring text is one part."""
    parts: list[str | Placeholder] = []
    text, end = "", 0
    for token in _TOKEN.finditer(template):
        text += template[end : token.start()]
        end = token.end()
        if token[1] is not None:
            parts += [text, Placeholder(tuple(token[1].split(".")), optional=token[2] is not None)]
            text = ""
        elif token[0] in {"{{", "}}"}:
            text += token[0][0]
        elif token[0][0] == "$":
            text += token[0]  # ${NAME} of the environment, which is not ours to fill in
        else:
            where = f"has a single brace at character {token.start() + 1}"
            raise BadTemplate(f"{where}; write {{params.name}} for a value, {{{{ for a brace")
    parts.append(text + template[end:])
    return tuple(part for part in parts if part != "")


def placeholders(template: Any) -> Iterator[Placeholder]:
    """Every placeholder of a template: of a text, or of all texts inside a structure."""
    if isinstance(template, str):
        yield from (part for part in parse(template) if isinstance(part, Placeholder))
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from placeholders(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from placeholders(value)


def look_up(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path of mappings, or ABSENT. Never an attribute or a call; null counts as absent."""
    found: Any = values
    for name in path:
        if not isinstance(found, dict | Mapping) or name not in found:  # a dict is known at once
            return ABSENT
        found = found[name]
    return ABSENT if found is None else found


def whole(template: str) -> Placeholder | None:
    """The placeholder, when the template is nothing else: its value then keeps its type."""
    parts = parse(template)
    return parts[0] if len(parts) == 1 and isinstance(parts[0], Placeholder) else None
