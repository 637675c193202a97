"""A language that is only brackets: whatever goes through gettext is in them, and nothing else is."""

from __future__ import annotations

import re

import pytest
from django.utils.translation import trans_real


class Brackets:
    """A catalogue in which every text is there, in brackets. What a text is said for is left out, as in any other."""

    def gettext(self, text: str) -> str:
        return f"⟦{text.rpartition(trans_real.CONTEXT_SEPARATOR)[2]}⟧"

    def ngettext(self, one: str, many: str, count: int) -> str:
        return self.gettext(one if count == 1 else many)

    def to_language(self) -> str:
        return "eo"

    def language(self) -> str:
        return "eo"


class Pieces(Brackets):
    """The same, with what a text holds outside of the brackets: a value that was not looked up itself is seen."""

    def gettext(self, text: str) -> str:
        said = text.rpartition(trans_real.CONTEXT_SEPARATOR)[2]
        return "".join(
            piece if n % 2 or not piece else f"⟦{piece}⟧" for n, piece in enumerate(_PLACE.split(said))
        )

    def to_language(self) -> str:
        return "ia"

    def language(self) -> str:
        return "ia"


_PLACE = re.compile(r"(%\(\w+\)[sd])")


@pytest.fixture
def bracketed(settings, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Who asks for `eo` gets every text in brackets; who asks for `ia`, every piece of it."""
    settings.LANGUAGES = [("en", "English"), ("eo", "Brackets"), ("ia", "Pieces")]
    monkeypatch.setitem(trans_real._translations, "eo", Brackets())
    monkeypatch.setitem(trans_real._translations, "ia", Pieces())
