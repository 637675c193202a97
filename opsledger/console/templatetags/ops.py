"""Tags that every page may use without loading them: states, icons, people, times, spans, ids."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils import timezone
from django.utils.dates import MONTHS_3, WEEKDAYS_ABBR
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, pgettext
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.accounts.models import Person, initials_of
from opsledger.console.vocabulary import shown

register = template.Library()
NO_BREAK = "\u00a0"


@register.simple_tag
def icon(name: str, extra_class: str = "") -> SafeString:
    """A shape of static/icons.svg. It says nothing to a screen reader: the word stands beside it."""
    return _icon(name, extra_class)


@lru_cache(maxsize=256)
def _icon(name: str, extra_class: str) -> SafeString:
    return format_html(
        '<svg class="i{}" aria-hidden="true"><use href="{}#{}"/></svg>',
        f" {extra_class}" if extra_class else "",
        static("icons.svg"),
        name,
    )


@register.simple_tag
def badge(state: object, kind: str = "", text: str = "") -> SafeString:
    """Word, shape and colour of a state, tinted. `kind` is a key of KINDS; `text` replaces the word."""
    row = shown(state, kind)
    return _badge(row.shape, text) if text else _known_badge(row.shape, row.word)


def _badge(shape: str, text: str) -> SafeString:
    return format_html('<span class="badge" data-state="{}">{}{}</span>', shape, icon(shape), text)


@register.simple_tag
def state_word(state: object, kind: str = "", text: str = "") -> SafeString:
    """The same in running text. For protection, `text` says what is known: “Idempotency key, 3 h left”."""
    row = shown(state, kind)
    return _state_word(row.shape, text) if text else _known_state_word(row.shape, row.word)


def _state_word(shape: str, text: str) -> SafeString:
    return format_html('<span class="st" data-state="{}">{}<span>{}</span></span>', shape, icon(shape), text)


# Words of our own table are few and made once; other texts are not kept.
_known_badge = lru_cache(maxsize=256)(_badge)
_known_state_word = lru_cache(maxsize=256)(_state_word)


@register.simple_tag
def state_shape(state: object, kind: str = "") -> str:
    """The value of `data-state` for a step, a node or a note that carries the hue itself."""
    return shown(state, kind).shape


@register.simple_tag
def who(person: Person | str | None, note: str = "") -> SafeString:
    """A person with initials; a name alone works too. None is “Unowned”: nobody has taken it yet."""
    if not person:
        return _nobody(get_language())
    return _who(person if isinstance(person, str) else person.display_name, note)


@lru_cache(maxsize=16)
def _nobody(language: str | None) -> SafeString:
    return format_html(
        '<span class="who none"><span class="ava" aria-hidden="true"></span><span>{}</span></span>',
        _("Unowned"),
    )


@lru_cache(maxsize=1024, typed=True)  # a name that is marked safe is another one
def _who(name: str, note: str) -> SafeString:
    return format_html(
        '<span class="who"><span class="ava" aria-hidden="true">{}</span><span>{}{}</span></span>',
        initials_of(name),
        name,
        f" ({note})" if note else "",
    )


def words_of_span(seconds: float) -> str:
    """Two units at most, kept together: “1 d 6 h”, “2 h 05 m”, “41 s”. A negative span reads as 0 s."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, secs = divmod(rest, 60)
    d, h, m, s = _units(get_language())
    if days:
        parts = [f"{days}{d}", f"{hours}{h}" if hours else ""]
    elif hours:
        parts = [f"{hours}{h}", f"{minutes:02d}{m}" if minutes else ""]
    elif minutes:
        parts = [f"{minutes}{m}", f"{secs:02d}{s}" if secs and minutes < 10 else ""]
    else:
        parts = [f"{secs}{s}"]
    return NO_BREAK.join(part for part in parts if part)


@lru_cache(maxsize=16)
def _units(language: str | None) -> tuple[str, str, str, str]:
    """Days, hours, minutes and seconds as they stand behind a number, kept together with it."""
    return (
        NO_BREAK + pgettext("days, behind a number", "d"),
        NO_BREAK + pgettext("hours, behind a number", "h"),
        NO_BREAK + pgettext("minutes, behind a number", "m"),
        NO_BREAK + pgettext("seconds, behind a number", "s"),
    )


@register.simple_tag
def span_words(span: float | timedelta | None) -> str:
    """A span in seconds (or a timedelta) in words; “not known” for None."""
    if span is None:
        return _("not known")
    return words_of_span(span.total_seconds() if isinstance(span, timedelta) else span)


@register.simple_tag
def ago(moment: datetime | None, now: datetime | None = None) -> SafeString | str:
    """How long before `now`: “17 m ago”. A moment to come reads “in 17 m”. The exact time is in the title."""
    if moment is None:
        return _("never")
    seconds = ((now or timezone.now()) - moment).total_seconds()
    text = (_("%(span)s ago") if seconds >= 0 else _("in %(span)s")) % {"span": words_of_span(abs(seconds))}
    return _time(timezone.localtime(moment), text.replace(" ", NO_BREAK))


@register.simple_tag
def local_time(moment: datetime | None, form: str = "short", now: datetime | None = None) -> SafeString | str:
    """The moment in the viewer's zone; `datetime` holds UTC.

    `short`: the time, with the day when it is not today; `moment`: the same to the second. `time`: hours and minutes.
    `seconds`: with seconds.
    `full`: day, time to the second and zone. `precise`: with milliseconds.
    """
    if moment is None:
        return _("not known")
    here = timezone.localtime(moment)
    return _time(here, _written(here, form, now or timezone.now()))


def _written(here: datetime, form: str, now: datetime) -> str:
    """`here` is in the viewer's zone, `now` in any."""
    if form == "full":
        return _full(here)
    if form == "precise":
        return f"{here:%H:%M:%S}.{here.microsecond // 1000:03d}"
    if form == "seconds":
        return f"{here:%H:%M:%S}"
    clock = f"{here:%H:%M:%S}" if form == "moment" else f"{here.hour:02}:{here.minute:02}"
    today = now.astimezone(here.tzinfo)
    if form == "time" or here.date() == today.date():
        return clock
    return f"{day_of(here, with_year=here.year != today.year)}, {clock}"


def day_of(here: date, *, with_year: bool) -> str:
    """Day and month, kept together: “14 Apr”, “14 Apr 2026”."""
    day = f"{here.day}{NO_BREAK}{_month(get_language(), here.month)}"
    return f"{day}{NO_BREAK}{here.year}" if with_year else day


@lru_cache(maxsize=128)
def _month(language: str | None, number: int) -> str:
    return str(MONTHS_3[number]).title()


@lru_cache(maxsize=128)
def _weekday(language: str | None, number: int) -> str:
    return str(WEEKDAYS_ABBR[number])


def day_text(day: str) -> str:
    """An ISO date as people write it: “2 Apr 2026”; what is none stays as it is written."""
    try:
        read = date.fromisoformat(day)
    except ValueError:
        return day
    return day_of(read, with_year=True)


def full_text(moment: datetime) -> str:
    """Day, time to the second and the zone's own name: “Tue 14 Apr 2026, 18:12:48 CEST”."""
    return _full(timezone.localtime(moment))


def _full(here: datetime) -> str:
    language = get_language()
    day = f"{_weekday(language, here.weekday())} {here.day} {_month(language, here.month)}"
    return f"{day} {here:%Y, %H:%M:%S %Z}"


def _time(here: datetime, text: str) -> SafeString:
    utc = here.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return format_html('<time datetime="{}" title="{}">{}</time>', utc, _full(here), text)


@register.simple_tag
def id_text(text: object, copy: bool = False) -> SafeString:
    """An identifier, byte-exact: monospaced and unbroken, with look-alike characters made visible.

    Spaces at the ends, control characters, and characters outside ASCII are marked, because two ids that look
    the same may be different ones. With `copy`, a button copies the exact text.
    """
    raw = str(text)
    shown_id = _marked(raw) if _looks_alike(raw) else format_html('<span class="id">{}</span>', escape(raw))
    if not copy:
        return shown_id
    return format_html(
        '{} <button class="btn g s" type="button" data-copy="{}" data-needs-script>{}{}'
        '<span class="vh"> {}</span></button>',
        shown_id,
        raw,
        icon("copy"),
        _("Copy"),
        raw,
    )


def _marked(raw: str) -> SafeString:
    marked = format_html_join("", "{}", ((_visible(char, at, len(raw)),) for at, char in enumerate(raw)))
    return format_html('<span class="id" title="{}">{}</span>', _(_LOOKS_ALIKE), marked)


def _visible(char: str, at: int, length: int) -> SafeString:
    """The character itself, or its code point in a mark when it can't be told apart by eye."""
    at_an_end = char == " " and at in (0, length - 1)
    if char.isascii() and char.isprintable() and not at_an_end:
        return format_html("{}", char)
    if char.isprintable() and not char.isascii() and not unicodedata.combining(char):
        return format_html("<mark>{}</mark>", char)
    return format_html("<mark>U+{}</mark>", f"{ord(char):04X}")


def _looks_alike(raw: str) -> bool:
    """Whether any character of it has to be marked."""
    return not (raw.isascii() and raw.isprintable() and raw == raw.strip())


_LOOKS_ALIKE = noop("This id holds characters that look like others. Compare it by copying, not by eye.")


@register.simple_tag
def options(choices: Iterable[tuple[str, str]], chosen: str = "") -> SafeString:
    """The options of a select, from values and words."""
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        ((value, _SELECTED if value == chosen else "", word) for value, word in choices),
    )


_SELECTED = mark_safe(" selected")


@register.simple_tag
def fixed(template_name: str) -> SafeString:
    """A part of every page that depends on nothing but the language, rendered once for each process."""
    return _fixed(template_name, get_language())


@lru_cache(maxsize=64)
def _fixed(template_name: str, language: str | None) -> SafeString:
    return render_to_string(template_name)


@register.filter
def in_words(slug: object) -> str:
    """A slug as it is read: `create_task` is “create task”."""
    return str(slug or "").replace("_", " ")


@register.filter
def get(mapping: Any, key: object) -> Any:
    """`mapping.get(key)` for a key that is a variable."""
    return mapping.get(key) if hasattr(mapping, "get") else None
