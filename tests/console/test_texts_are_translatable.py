"""Whatever a person reads in a template goes through gettext, in English and in a language that is only brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from brackets import Brackets
from django.conf import settings
from django.template import Context, Template, TemplateSyntaxError
from django.template.base import Lexer, Token, TokenType
from django.utils import translation
from people import client_of
from scenes import Scenes, path_of

TEMPLATES = Path(settings.BASE_DIR) / "templates"
FILES = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html"))
READ_ATTRIBUTES = {"alt", "aria-description", "aria-label", "data-label", "placeholder", "title"}
CODE = {"code", "kbd", "pre", "script", "style", "svg"}
# Texts that are the same in every language.
NAMES = {"OpsLedger", "· OpsLedger", "OpsLedger · OpsLedger", "openapi.json"}
LITERAL = re.compile(r"""(_\()?(["'])((?:(?!\2).)*)\2""")
FORMATS = re.compile(r"\b(date|time|slice|add|stringformat|join):(?:\"[^\"]*\"|'[^']*')")


@dataclass
class Found:
    line: int
    text: str


class PlainTexts(HTMLParser):
    """The words that stand in the HTML itself. Comes after the template's own tags were blanked out."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Found] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in CODE
        for name, value in attrs:
            if name in READ_ATTRIBUTES:
                self._look(f'{name}="{value}"', value or "")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in CODE

    def handle_data(self, data: str) -> None:
        if not self._code:
            self._look(data, data, data)

    def _look(self, shown: str, text: str, before: str = "") -> None:
        words = " ".join(text.split())
        if re.search(r"[^\W\d_]", words) and words not in NAMES:
            lines_before = len(before) - len(before.lstrip())
            self.found.append(
                Found(self.getpos()[0] + before[:lines_before].count("\n"), " ".join(shown.split()))
            )


def plain_texts(source: str) -> list[Found]:
    """What a person would read in one language only: texts, attributes, and literals that are handed to a tag."""
    html, found, inside = "", [], False
    for token in Lexer(source).tokenize():
        name = token.split_contents()[0] if token.token_type is TokenType.BLOCK else ""
        inside = name == "blocktranslate" or (inside and name != "endblocktranslate")
        if token.token_type is TokenType.TEXT and not inside:
            html += token.contents
        else:
            html += " " + "\n" * token.contents.count("\n")
        if token.token_type in (TokenType.BLOCK, TokenType.VAR) and not inside:
            found += [Found(token.lineno, text) for text in _words_given(token, name)]
    reader = PlainTexts()
    reader.feed(html)
    reader.close()
    return found + reader.found


def _words_given(token: Token, name: str) -> Iterator[str]:
    """Literals of a tag or a filter that are words: they begin with a capital, or hold a blank."""
    if name in {"translate", "extends", "load"}:
        return
    for marked, _quote, text in LITERAL.findall(FORMATS.sub("", token.contents)):
        is_words = re.match(r"[A-Z].*[a-z]", text) or re.search(r"[a-z]{2} +[a-z]", text)
        if is_words and not marked:
            yield text


@pytest.mark.parametrize("name", FILES)
def test_no_text_of_a_template_is_outside_of_gettext(name: str) -> None:
    found = plain_texts((TEMPLATES / name).read_text())
    assert not found, "\n".join(f"templates/{name}:{one.line}: {one.text}" for one in found)


CASES = [
    ("<p>Hello</p>", ["Hello"]),
    ("<p>\n{% if a %}Hello{% endif %}</p>", ["Hello"]),
    ('<p title="A hold">{{ a }}</p>', ['title="A hold"']),
    ('<td data-label="due">{{ a }}</td>', ['data-label="due"']),
    ('{{ a|default:"not known" }}', ["not known"]),
    ('{% include "x.html" with title="Yours" id="own" %}', ["Yours"]),
    ('<p>{% translate "Hello" %} <kbd>Enter</kbd> · {{ a|date:"D j M Y, T" }}</p>', []),
    ('<p title="{% translate \'A hold\' %}">{% blocktranslate trimmed %}Hello {{ a }}{% endblocktranslate %}</p>', []),
    ('{{ a|default:_("not known") }}{% include "x.html" with title=_("Yours") id="own" %}', []),
]  # fmt: skip


@pytest.mark.parametrize(("source", "texts"), CASES, ids=[source for source, _texts in CASES])
def test_what_is_outside_of_gettext_is_found_and_nothing_else(source: str, texts: list[str]) -> None:
    assert [one.text for one in plain_texts(source)] == texts


def test_what_is_found_is_told_with_its_line() -> None:
    assert plain_texts("{# one #}\n<p>\n  {{ a }}\n  <b>Hello</b></p>") == [Found(4, "Hello")]


# A language that is only brackets

# test_pages_in_brackets reads all of them; here it is seen that English stays as it was.
PAGES = ["/", "/destinations/", "the operation"]
# What a template says by itself, whatever is on file.
OWN_TEXT = re.compile(
    r'<th scope="col"[^>]*>([^<]+)</th>|class="skip"[^>]*>([^<]+)<|<section aria-label="([^"]+)" data-keys'
    r'|<label for="(?:f-[a-z]+|display_name)">([^<]+)<'
)


@pytest.mark.usefixtures("bracketed")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_shown_in_the_language_that_is_asked_for(scenes: Scenes, path: str) -> None:
    opened = scenes.unknown()
    client, path = client_of(scenes.owner), path_of(opened) if path == "the operation" else path
    before = client.get(path).content.decode()
    shown = client.get(path, headers={"Accept-Language": "eo"}).content.decode()
    own = ["".join(found) for found in OWN_TEXT.findall(shown)]
    assert '<html lang="eo"' in shown
    assert len(own) >= 3
    assert [text for text in own if not text.startswith("⟦")] == []
    assert [re.sub("[⟦⟧]", "", text) for text in own] == [
        "".join(found) for found in OWN_TEXT.findall(before)
    ]
    after = client.get(path).content.decode()
    assert '<html lang="en"' in after
    assert "⟦" not in before + after


# The tags are Django's own, with less to do for each page


def said(source: str, language: str = "en", **values: object) -> str:
    with translation.override(language):
        return Template(source).render(Context(values))


@pytest.mark.usefixtures("bracketed")
def test_a_fixed_text_is_kept_for_each_language() -> None:
    page = Template('{% translate "50% <b>done</b>" %}')
    for language, text in (("en", "50% <b>done</b>"), ("eo", "⟦50% <b>done</b>⟧"), ("en", "50% <b>done</b>")):
        with translation.override(language):
            assert page.render(Context()) == text


@pytest.mark.usefixtures("bracketed")
def test_a_text_that_is_a_variable_is_looked_up_each_time() -> None:
    page = Template("{% translate word %}")
    with translation.override("eo"):
        assert [page.render(Context({"word": word})) for word in ("<a>", "b")] == ["⟦&lt;a&gt;⟧", "⟦b⟧"]


COUNTED = (
    "{% blocktranslate trimmed count n=a.b with c=d|upper %}{{ n }} hold of {{ c }}, 5%"
    "{% plural %}{{ n }} holds of {{ c }}, 5%{% endblocktranslate %}"
)


@pytest.mark.usefixtures("bracketed")
@pytest.mark.parametrize(("count", "text"), [(1, "1 hold of &lt;X&gt;, 5%"), (2, "2 holds of &lt;X&gt;, 5%")])
def test_a_sentence_is_counted_and_its_values_are_escaped(count: int, text: str) -> None:
    assert said(COUNTED, a={"b": count}, d="<x>") == text
    assert said(COUNTED, "eo", a={"b": count}, d="<x>") == f"⟦{text}⟧"


def test_a_sentence_may_be_kept_for_later_and_leaves_no_name_behind() -> None:
    kept = "{% blocktranslate trimmed asvar kept with n=1 %}  {{ n }} of\n {{ gone }}{% endblocktranslate %}"
    assert said(kept + "[{{ kept }}{{ n }}]") == "[1 of ]"


def test_what_is_counted_is_a_number() -> None:
    with pytest.raises(TemplateSyntaxError, match="must be a number"):
        said(COUNTED, a={"b": "1"}, d="x")


def test_a_translation_that_does_not_fit_its_values_falls_back(
    bracketed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Brackets, "gettext", lambda self, text: "%(other)s")
    assert said("{% blocktranslate %}Hello {{ a }}{% endblocktranslate %}", "eo", a="Ann") == "Hello Ann"
