"""Django's own `translate` and `blocktranslate`, with what never changes worked out once.

A page holds a hundred texts or more. Looking up a fixed one anew each time costs more than the rest of its line.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.template.base import FilterExpression, Node, Parser, Token, render_value_in_context
from django.template.context import Context
from django.templatetags.i18n import BlockTranslateNode, TranslateNode, do_block_translate, do_translate
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, ngettext

register = template.Library()


class FixedText(Node):
    """A text without values: looked up once for each language and process."""

    child_nodelists = ()

    def __init__(self, plain: TranslateNode) -> None:
        self._plain = plain
        self._said: dict[str | None, str] = {}

    def render(self, context: Context) -> str:
        language = get_language()
        said = self._said.get(language)
        if said is None:
            said = self._said[language] = self._plain.render(context)
        return said


class Sentence(BlockTranslateNode):
    """A text with values: taken apart into text and names when the template is read."""

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._one, names = self.render_token_list(self.singular)
        self._many, more_names = self.render_token_list(self.plural or [])
        self._names = dict.fromkeys([*names, *more_names])

    def render(self, context: Context, nested: bool = False) -> str:
        """As Django's, which is left to do what is rare, and to tell what does not fit."""
        if self.message_context:
            return super().render(context, nested)
        values = {name: value.resolve(context) for name, value in self.extra_context.items()}
        if self.counter is None or self.countervar is None:
            text = gettext(self._one)
        else:
            count = values[self.countervar] = self.counter.resolve(context)
            if not isinstance(count, int):
                return super().render(context, nested)
            text = ngettext(self._one, self._many, count)
        shown = {
            name: render_value_in_context(values[name] if name in values else context.get(name, ""), context)
            for name in self._names
        }
        try:
            said = text % shown
        except (KeyError, ValueError):
            return super().render(context, nested)
        if not self.asvar:
            return said
        context[self.asvar] = SafeString(said)  # its values are escaped, as Django does it
        return ""


@register.tag
def translate(parser: Parser, token: Token) -> Node:
    """As Django's. What depends on the context (a variable, a message context, `as`) is left to it."""
    plain = do_translate(parser, token)
    return FixedText(plain) if _is_fixed(plain) else plain


def _is_fixed(plain: TranslateNode) -> bool:
    text: FilterExpression = plain.filter_expression
    literal = isinstance(getattr(text.var, "literal", None), str)
    return literal and not text.filters and not plain.asvar and not plain.message_context


@register.tag
def blocktranslate(parser: Parser, token: Token) -> Node:
    """As Django's."""
    plain = do_block_translate(parser, token)
    return Sentence(
        plain.extra_context,
        plain.singular,
        plain.plural,
        plain.countervar,
        plain.counter,
        plain.message_context,
        trimmed=plain.trimmed,
        asvar=plain.asvar,
        tag_name="blocktranslate",
    )
