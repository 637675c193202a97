"""What a table of words is made of: for each kind its rows of value, word, shape and paragraph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Rows: TypeAlias = Mapping[str, tuple[tuple[str, str, str, str], ...]]
