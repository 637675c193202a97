"""What differs between two texts, word by word. Pure; nothing of it is markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

COMPARED_MAX = 20_000  # characters of a text; longer ones are shown as changed whole
_WORD = re.compile(r"\w+(?:[.,]\w+)*\s*|[^\w\s]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of one of the texts; `changed` where the other does not have it."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Difference:
    before: tuple[Part, ...]
    after: tuple[Part, ...]


def difference(before: str, after: str) -> Difference:
    """Both texts in parts. Joined, the parts of each side are exactly its text."""
    if max(len(before), len(after)) > COMPARED_MAX:
        return Difference(_whole(before, before != after), _whole(after, before != after))
    ours, theirs = _WORD.findall(before), _WORD.findall(after)
    head = _common(ours, theirs)
    tail = _common(ours[head:][::-1], theirs[head:][::-1])
    left, right = _middle(ours[head : len(ours) - tail], theirs[head : len(theirs) - tail])
    ends = ("".join(ours[:head]), "".join(ours[len(ours) - tail :]))
    return Difference(_joined(ends, left), _joined(ends, right))


def _common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """How many words they begin with alike."""
    pairs = zip(ours, theirs, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(ours), len(theirs)))


def _middle(ours: list[str], theirs: list[str]) -> tuple[list[Part], list[Part]]:
    left: list[Part] = []
    right: list[Part] = []
    for how, a, b, c, d in SequenceMatcher(None, ours, theirs).get_opcodes():
        left.append(Part("".join(ours[a:b]), how != "equal"))
        right.append(Part("".join(theirs[c:d]), how != "equal"))
    return left, right


def _joined(ends: tuple[str, str], middle: list[Part]) -> tuple[Part, ...]:
    parts = [Part(ends[0], changed=False), *middle, Part(ends[1], changed=False)]
    return tuple(part for part in parts if part.text)


def _whole(text: str, changed: bool) -> tuple[Part, ...]:
    return (Part(text, changed),) if text else ()
