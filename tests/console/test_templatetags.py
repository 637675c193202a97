"""Word, shape and colour come from one table; times, spans and ids read the same everywhere."""

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.template import Context, Template
from django.utils import timezone as django_timezone
from django.utils.safestring import mark_safe

from opsledger.console.templatetags.ops import day_text, words_of_span
from opsledger.console.vocabulary import KINDS, TABLE, Shown, shown
from opsledger.rules.profile import ProtectionKind
from opsledger.rules.states import HoldReason, NoChange, OperationState, Outcome, StepState

STATIC = Path(settings.BASE_DIR) / "static"
NB = "\u00a0"
NOON = datetime(2026, 4, 14, 16, 12, 48, 204_000, tzinfo=UTC)


def render(source: str, **context: object) -> str:
    return Template(source).render(Context(context))


# States

MEMBERS = [
    *((state, "step") for state in StepState),
    *((state, "operation") for state in OperationState),
    *((reason, "hold") for reason in HoldReason),
    *((outcome, "outcome") for outcome in Outcome),
    *((how, "no_change") for how in NoChange),
    *((kind, "protection_kind") for kind in ProtectionKind),
]


@pytest.mark.parametrize(("member", "kind"), MEMBERS, ids=lambda value: str(value))
def test_every_state_and_reason_has_a_word_a_shape_and_a_paragraph(member: object, kind: str) -> None:
    row = shown(member)
    assert row.kind == kind
    assert row.word
    assert row.paragraph.endswith(".")


@pytest.mark.parametrize("row", TABLE.values(), ids=lambda row: f"{row.kind}-{row.value}")
def test_every_shape_is_drawn(row: Shown) -> None:
    assert f'<symbol id="{row.shape}" ' in (STATIC / "icons.svg").read_text()
    assert row.kind in KINDS


def test_every_shape_that_is_not_grey_has_a_hue() -> None:
    grey = {"waiting", "ready", "skipped", "cancelled", "not-sent", "deferred", "absent"}
    hued = set(re.findall(r"\[data-state=([a-z-]+)\]", (STATIC / "css" / "tokens.css").read_text()))
    assert {row.shape for row in TABLE.values()} - hued == grey


def test_hold_reasons_differ_in_shape_and_word() -> None:
    holds = [shown(reason) for reason in HoldReason]
    assert len({row.shape for row in holds}) == len({row.word for row in holds}) == len(HoldReason)


@pytest.mark.parametrize("tag", ["badge", "state_word"])
def test_word_shape_and_colour_are_always_together(tag: str) -> None:
    html = render("{% " + tag + " state %}", state=HoldReason.DISPUTED)
    assert 'data-state="disputed"' in html
    assert "icons.svg#disputed" in html
    assert "Disputed" in html
    assert 'aria-hidden="true"' in html


def test_the_same_text_means_different_things_by_kind() -> None:
    assert shown(StepState.FAILED).word == shown("failed", "step").word == "Failed (no change)"
    assert shown(OperationState.FAILED).word == shown("failed", "operation").word == "Failed"


def test_a_state_nobody_foresaw_is_shown_with_doubt_and_as_text() -> None:
    html = render("{% badge state %}", state="<b>new_state")
    assert 'data-state="unknown"' in html
    assert "&lt;b&gt;new state" in html


def test_protection_says_what_is_known_in_its_own_words() -> None:
    html = render('{% state_word "protected" "protection" text %}', text="Idempotency key, 3 h left")
    assert "icons.svg#protected" in html
    assert "Idempotency key, 3 h left" in html


# Spans and times


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.9, "0 s"),
        (41, "41 s"),
        (60, "1 m"),
        (62, "1 m 02 s"),
        (17 * 60 + 5, "17 m"),
        (3600, "1 h"),
        (7500, "2 h 05 m"),
        (86_399, "23 h 59 m"),
        (86_400, "1 d"),
        (108_000, "1 d 6 h"),
        (40 * 86_400 + 60, "40 d"),
        (-5, "0 s"),
    ],
)
def test_a_span_has_two_units_at_most_and_never_breaks(seconds: float, words: str) -> None:
    assert words_of_span(seconds) == words.replace(" ", NB)


def test_a_span_that_is_not_known_says_so() -> None:
    assert render("{% span_words span %}", span=None) == "not known"
    assert render("{% span_words span %}", span=timedelta(minutes=3)) == f"3{NB}m"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("short", "18:12"),
        ("time", "18:12"),
        ("seconds", "18:12:48"),
        ("precise", "18:12:48.204"),
        ("full", "Tue 14 Apr 2026, 18:12:48 CEST"),
    ],
)
def test_a_time_is_in_the_viewers_zone_and_its_attribute_in_utc(form: str, text: str) -> None:
    with django_timezone.override(ZoneInfo("Europe/Paris")):
        html = render("{% local_time moment form now %}", moment=NOON, form=form, now=NOON)
    assert f">{text}</time>" in html
    assert 'datetime="2026-04-14T16:12:48.204Z"' in html


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (timedelta(hours=3), "16:12"),
        (timedelta(days=1), "14 Apr, 16:12"),
        (timedelta(days=300), "14 Apr 2026, 16:12"),
    ],
)
def test_a_short_time_names_the_day_when_it_is_not_today(later: timedelta, text: str) -> None:
    html = render("{% local_time moment 'short' now %}", moment=NOON, now=NOON + later)
    assert f">{text}</time>".replace("14 Apr", f"14{NB}Apr").replace("Apr 2026", f"Apr{NB}2026") in html


@pytest.mark.parametrize(
    ("day", "text"), [("2026-04-02", f"2{NB}Apr{NB}2026"), ("early in April", "early in April"), ("", "")]
)
def test_a_day_is_written_as_people_write_it(day: str, text: str) -> None:
    assert day_text(day) == text


def test_the_hour_that_happens_twice_is_told_apart() -> None:
    with django_timezone.override(ZoneInfo("Europe/Paris")):
        first, second = (
            render("{% local_time moment 'full' %}", moment=datetime(2026, 10, 25, hour, 30, tzinfo=UTC))
            for hour in (0, 1)
        )
    assert "02:30:00 CEST" in first
    assert "02:30:00 CET" in second


@pytest.mark.parametrize(
    ("moment", "text"),
    [(NOON - timedelta(minutes=17), "17 m ago"), (NOON + timedelta(minutes=17), "in 17 m")],
)
def test_ago_looks_both_ways(moment: datetime, text: str) -> None:
    html = render("{% ago moment now %}", moment=moment, now=NOON)
    assert text.replace(" ", NB) in html


def test_no_time_is_words_and_never_a_dash() -> None:
    assert render("{% local_time moment %}", moment=None) == "not known"
    assert render("{% ago moment %}", moment=None) == "never"


def test_a_moment_in_another_zone_is_the_same_moment() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-7)))
    assert 'datetime="2026-04-14T16:12:48.204Z"' in render("{% local_time moment %}", moment=there)


# Ids and people


@pytest.mark.parametrize(
    ("raw", "html"),
    [
        ("spring-launch:req-8841", '<span class="id">spring-launch:req-8841</span>'),
        ("a b", '<span class="id">a b</span>'),
        ("<i>", '<span class="id">&lt;i&gt;</span>'),
    ],
)
def test_an_ordinary_id_is_shown_as_it_is(raw: str, html: str) -> None:
    assert render("{% id_text raw %}", raw=raw) == html


@pytest.mark.parametrize(
    ("raw", "mark"),
    [
        ("req-1 ", "<mark>U+0020</mark>"),
        ("req\u200b1", "<mark>U+200B</mark>"),
        ("req\u202e1", "<mark>U+202E</mark>"),
        ("re\u0301q", "<mark>U+0301</mark>"),
        ("r\u0435q", "<mark>\u0435</mark>"),
        ("req\u00a01", "<mark>U+00A0</mark>"),
        ("a\nb", "<mark>U+000A</mark>"),
    ],
    ids=[
        "space at the end",
        "zero width",
        "right to left",
        "combining",
        "cyrillic",
        "no-break",
        "line break",
    ],
)
def test_an_id_that_looks_like_another_is_marked(raw: str, mark: str) -> None:
    html = render("{% id_text raw %}", raw=raw)
    assert mark in html
    assert "Compare it by copying" in html


def test_an_id_is_text_whoever_calls_it_safe() -> None:
    assert render("{% id_text raw %}", raw=mark_safe("a<b")) == '<span class="id">a&lt;b</span>'


def test_a_word_that_was_shown_before_is_escaped_again() -> None:
    """What is kept between calls is the shape alone, whatever the word was marked as."""
    shown_safe = render('{% badge "held" "operation" text %}', text=mark_safe("<i>a</i>"))
    shown_plain = render('{% badge "held" "operation" text %}', text="<i>a</i>")
    assert shown_safe.endswith("<i>a</i></span>")
    assert shown_plain.endswith("&lt;i&gt;a&lt;/i&gt;</span>")


def test_copying_an_id_copies_the_exact_text() -> None:
    html = render("{% id_text raw copy=True %}", raw='a"b<c')
    assert 'data-copy="a&quot;b&lt;c"' in html


def test_nobody_is_unowned() -> None:
    assert "Unowned" in render("{% who person %}", person=None)
    assert "Launch owner (you)" in render("{% who person 'you' %}", person="Launch owner")
    assert ">LO<" in render("{% who person %}", person="Launch owner")
