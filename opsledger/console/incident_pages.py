"""An incident as cards and pages need it: words, times and bars, made before a template sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from opsledger.console import desk
from opsledger.console.templatetags.ops import words_of_span
from opsledger.console.vocabulary import shown
from opsledger.console.wording import answers
from opsledger.ledger.models import Incident
from opsledger.ledger.queries.incidents import COUNT_MAX, IncidentLine, Note, Settled
from opsledger.ledger.queries.timeline import names_of
from opsledger.lib import ids
from opsledger.rules.answers import ANSWERS, Answer
from opsledger.rules.states import HoldReason

BAR_STEP, BAR_WIDTH, BARS_HEIGHT = 6, 4, 27  # of the drawing, in its own units
NOTE_SHOWN = 160  # characters of the newest note on a card
SOON_SECONDS = 1800


def card(line: IncidentLine, now: datetime, may: Mapping[str, Any]) -> dict[str, Any]:
    """One incident with what can be done about it as a group; the page shows the same and more."""
    public = ids.public("inc", line.id)
    approval = line.reason is HoldReason.APPROVAL_NEEDED
    return {
        "id": public,
        "line": line,
        "called": name_of(line, now),
        "span": span_words(line.started_at, line.last_at, now),
        "who": owner_words(line),
        "new": _new(line),
        "ended": ended_words(line),
        "next_look": desk.clock(line.next_look_at, now) if line.next_look_at else "",
        "due": due_words(line.first_due_at, now),
        "note": _shortened(line.note),
        "chart": chart(line, now),
        "newest": ids.public("hold", line.newest_hold) if line.newest_hold else "",
        "approve_url": _approve_url(line) if approval else "",
        "take": bool(line.unowned_count and may["may_assign"]),
        "check": bool(line.open_count and may["may_check"]) and _may_be_looked_up(line.reason),
        "act": bool(line.open_count) and not approval,
        "once_take": uuid4(),
        "once_check": uuid4(),
    }


def _may_be_looked_up(reason: HoldReason) -> bool:
    """Where waiting for an answer is one of the answers, asking for it makes sense."""
    return Answer.STILL_UNKNOWN in ANSWERS.get(reason, ())


def _approve_url(line: IncidentLine) -> str:
    """What waits for an approval is answered where the content is, not hold by hold."""
    if line.newest_hold is None:
        return reverse("approvals")
    return reverse("approval_of_hold", args=[ids.public("hold", line.newest_hold)])


def name_of(line: IncidentLine | Incident, now: datetime) -> str:
    """“crm · Outcome unknown · 14:02–14:20”."""
    destination = line.destination_slug if isinstance(line, Incident) else line.destination
    word = shown(line.reason, "hold").word
    return f"{destination} · {word} · {span_words(line.started_at, line.last_at, now)}"


def heading(incident: Incident, now: datetime) -> dict[str, str]:
    """An incident that a list is narrowed to: its name and where it is."""
    return {
        "called": name_of(incident, now),
        "url": reverse("incident", args=[ids.public("inc", incident.pk)]),
        "id": ids.public("inc", incident.pk),
    }


def span_words(started_at: datetime, last_at: datetime, now: datetime) -> str:
    first, last = desk.clock(started_at, now), desk.clock(last_at, now)
    if first == last:
        return first
    day, same_day, clock = last.rpartition(", ")
    return f"{first}–{clock if same_day and first.startswith(day + same_day) else last}"


def owner_words(line: IncidentLine) -> dict[str, str]:
    """Who has the most of it, and how many others have some; no name: nobody has taken any."""
    if not line.owners:
        return {"name": "", "note": "", "unowned": ""}
    others = line.owner_count - 1
    unowned = _("%(count)s unowned") % {"count": line.unowned_count} if line.unowned_count else ""
    return {"name": line.owners[0][0], "note": f"+{others}" if others else "", "unowned": unowned}


def _new(line: IncidentLine) -> str:
    """What opened since this person acted; "" for one who has not acted yet."""
    if line.acted_at is None:
        return ""
    return _("%(count)s new since you acted") % {"count": line.new_count} if line.new_count else ""


def ended_words(line: IncidentLine) -> str:
    ended = line.ended
    parts = []
    if ended.by_evidence:
        parts.append(_("%(count)s by evidence") % {"count": ended.by_evidence})
    if ended.by_people:
        parts.append(_("%(count)s by people") % {"count": ended.by_people})
    said = _("Settled: %(how)s.") % {"how": ", ".join(parts)} if parts else ""
    if ended.otherwise:
        turned = ngettext(
            "%(count)s became another question.", "%(count)s became other questions.", ended.otherwise
        ) % {"count": ended.otherwise}
        said = f"{said} {turned}".strip()
    if said and line.drawn_in_part:
        said += " " + _("Counted over the newest %(count)s.") % {"count": f"{COUNT_MAX:,}"}
    return said


def due_words(due_at: datetime | None, now: datetime) -> dict[str, str]:
    if due_at is None:
        return {}
    seconds = (due_at - now).total_seconds()
    span = words_of_span(abs(seconds))
    state = "late" if seconds < 0 else "soon" if seconds < SOON_SECONDS else ""
    text = _("%(span)s late") if seconds < 0 else _("in %(span)s")
    return {"clock": desk.clock(due_at, now), "state": state, "text": text % {"span": span}}


def _shortened(note: Note | None) -> dict[str, Any]:
    if note is None:
        return {}
    text = " ".join(note.text.split()) if note.text is not None else _("(The note was erased.)")
    if len(text) > NOTE_SHOWN:
        text = text[: NOTE_SHOWN - 1].rstrip() + "…"
    return {"text": text, "name": names_of([note.actor]).get(note.actor, note.actor), "at": note.written_at}


# The drawing


def chart(line: IncidentLine, now: datetime) -> dict[str, Any]:
    """A bar for each interval with openings. Geometry only: the hue comes from the reason's state."""
    most = max(line.bars, default=0)
    return {
        "path": bars_path(line.bars),
        "baseline": f"M0 {BARS_HEIGHT}.5h{BAR_STEP * 18}",
        "says": _says(line, most, now),
        "interval": interval_words(line.interval),
        "rows": [
            (line.started_at + timedelta(seconds=number * line.interval), count)
            for number, count in enumerate(line.bars)
            if count
        ],
    }


def bars_path(bars: Sequence[int]) -> str:
    most = max(bars, default=0)
    parts = []
    for number, count in enumerate(bars):
        if count:
            height = max(1, round((BARS_HEIGHT - 1) * count / most))
            parts.append(
                f"M{number * BAR_STEP + 1} {BARS_HEIGHT - height}h{BAR_WIDTH}v{height}h-{BAR_WIDTH}z"
            )
    return "".join(parts)


def _says(line: IncidentLine, most: int, now: datetime) -> str:
    at = (
        line.started_at + timedelta(seconds=line.bars.index(most) * line.interval)
        if most
        else line.started_at
    )
    said = _("Holds opened per %(interval)s, %(span)s: at most %(most)s, at %(at)s") % {
        "interval": interval_words(line.interval),
        "span": span_words(line.started_at, line.last_at, now),
        "most": most,
        "at": desk.clock(at, now),
    }
    if line.drawn_in_part:
        said += _("; only the newest %(count)s are drawn") % {"count": f"{line.drawn_count:,}"}
    return said


def interval_words(seconds: int) -> str:
    """“minute”, “5 minutes”, “2 hours”, “day”."""
    for size, one, several in (
        (86_400, _("day"), _("%(count)s days")),
        (3600, _("hour"), _("%(count)s hours")),
        (60, _("minute"), _("%(count)s minutes")),
    ):
        if seconds % size == 0:
            count = seconds // size
            return one if count == 1 else several % {"count": count}
    return _("%(count)s seconds") % {"count": seconds}


# The page


def settled_rows(rows: Iterable[Settled]) -> list[dict[str, Any]]:
    found = list(rows)
    names = names_of({row.closed_by for row in found})
    return [
        {
            "who": _settler(row.closed_by, names),
            "how": answers.given(row.answer) if row.answer else _how(row.closed_by),
            "count": row.count,
            "last_at": row.last_at,
        }
        for row in found
    ]


def _settler(closed_by: str, names: Mapping[str, str]) -> str:
    if closed_by in {"evidence", "superseded"}:
        return _("The ledger")
    return names.get(closed_by, _("Somebody"))


def _how(closed_by: str) -> str:
    if closed_by == "evidence":
        return _("settled by evidence")
    if closed_by == "superseded":
        return _("became another question")
    return _("ended with a decision about its operation")


def note_rows(notes: Iterable[Note]) -> list[dict[str, Any]]:
    found = list(notes)
    names = names_of({note.actor for note in found})
    return [
        {"name": names.get(note.actor, note.actor), "at": note.written_at, "text": note.text}
        for note in found
    ]
