"""The text of a message: counts, reasons, names of workflows and destinations, ids and links. Nothing of a customer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.ledger.queries.notices import NoticeLine
from opsledger.rules.notice_words import NoticeKind
from opsledger.rules.states import HoldReason

LINES_MAX = 40

_HEADINGS = {
    NoticeKind.ESCALATED: noop("Came to you because nobody acted"),
    NoticeKind.OWNER_GONE: noop("Came to you because their owner is gone"),
    NoticeKind.REMINDER: noop("Past the due time"),
    NoticeKind.ASSIGNED: noop("Assigned to you"),
    NoticeKind.APPROVAL: noop("Your approval is asked"),
    NoticeKind.DISPUTED: noop("Disputed"),
    NoticeKind.DESTINATION_STOPPED: noop("Sending to a destination stopped"),
    NoticeKind.REPLAY_STOPPED: noop("Replays that paused by themselves"),
    NoticeKind.REPLAY_ENDED: noop("Replays that ended"),
}
_FOR_A_TEAM = {
    NoticeKind.ESCALATED: noop("Escalated because nobody acted"),
    NoticeKind.OWNER_GONE: noop("Given to somebody else because their owner is gone"),
    NoticeKind.ASSIGNED: noop("Opened with an owner, or assigned"),
    NoticeKind.APPROVAL: noop("An approval is asked"),
}
# Reasons as words of a line, by what a notice keeps of them.
_REASONS: Mapping[str, str] = {
    HoldReason.OUTCOME_UNKNOWN: noop("outcome unknown"),
    HoldReason.PROTECTION_EXPIRED: noop("protection expired"),
    HoldReason.INTEGRITY_ALARM: noop("integrity alarm"),
    HoldReason.RECORD_DIFFERS: noop("record differs"),
    HoldReason.DUPLICATE_FOUND: noop("duplicate found"),
    HoldReason.DISPUTED: noop("disputed"),
    HoldReason.REJECTED: noop("rejected by destination"),
    HoldReason.ATTEMPTS_EXHAUSTED: noop("attempts exhausted"),
    HoldReason.NOBODY_CLAIMED: noop("nobody claimed"),
    HoldReason.TOO_LATE: noop("too late"),
    HoldReason.DELIVERY_NOT_PROVEN: noop("delivery not proven"),
    HoldReason.DELIVERY_FAILED: noop("delivery failed"),
    HoldReason.DATA_MISSING: noop("data missing"),
    HoldReason.APPROVAL_NEEDED: noop("approval needed"),
    HoldReason.ACCESS_REFUSED: noop("access refused"),
    HoldReason.PAUSED: noop("paused"),
    HoldReason.CIRCUIT_OPEN: noop("circuit open"),
    HoldReason.EVENT_CONFLICT: noop("event conflict"),
}


@dataclass(frozen=True, slots=True)
class Message:
    subject: str
    text: str


def compose(lines: Sequence[NoticeLine], team: str, *, to_person: bool, repeated: bool) -> Message:
    """One message for all of these, the most urgent kind first. `repeated`: an earlier try may have arrived."""
    count = sum(line.count for line in lines)
    first = next(kind for kind in _HEADINGS if any(line.kind is kind for line in lines))
    said = _("%(team)s: %(what)s (%(count)s)") if len(lines) > 1 or count > 1 else _("%(team)s: %(what)s")
    subject = said % {"team": team, "what": _heading(first, to_person), "count": count}
    parts = [_(_REPEATED)] if repeated else []
    for kind in _HEADINGS:
        of_kind = [line for line in lines if line.kind is kind]
        if of_kind:
            parts.append(_section(_heading(kind, to_person), of_kind))
    return Message(subject, "\n\n".join([*parts, _closing(to_person)]))


def test_message(channel: str, team: str) -> Message:
    facts = {"channel": channel, "team": team}
    text = _(
        "This is a test of the channel “%(channel)s” of %(team)s. Nothing happened, and nothing is to be done."
    )
    return Message(_("%(team)s: test of the channel “%(channel)s”") % facts, text % facts)


_REPEATED = noop("You may have had this message before: whether it arrived was not known.")


def _heading(kind: NoticeKind, to_person: bool) -> str:
    return _(_HEADINGS[kind] if to_person else _FOR_A_TEAM.get(kind, _HEADINGS[kind]))


def _section(heading: str, lines: Sequence[NoticeLine]) -> str:
    shown = [_told(line) for line in lines[:LINES_MAX]]
    more = sum(line.count for line in lines[LINES_MAX:])
    rest = _("- and %(count)s more: %(url)s") % {"count": more, "url": url("/")}
    title = _("%(what)s: %(count)s") % {"what": heading, "count": sum(line.count for line in lines)}
    return "\n".join([title, *shown, *([rest] if more else [])])


def _told(line: NoticeLine) -> str:
    """One line: reasons, destinations and workflows, each where there are any, and what it is about."""
    places = (bool(line.destinations), bool(line.workflows))
    said = _(_PLACED[places]) % {
        "what": _counted({_reason(name): count for name, count in line.reasons.items()}, line.count),
        "destinations": _counted(line.destinations, line.count),
        "workflows": _counted(line.workflows, line.count),
    }
    what = " ".join(filter(None, [said.strip(), line.about, _("(ended meanwhile)") if line.over else ""]))
    number = f"{line.count} × " if line.count > 1 else ""
    return f"- {number}{what}".rstrip() + f"\n  {url(line.path)}"


# By whether destinations and workflows are named. `what` may be empty.
_PLACED = {
    (True, True): noop("%(what)s at %(destinations)s in %(workflows)s"),
    (True, False): noop("%(what)s at %(destinations)s"),
    (False, True): noop("%(what)s in %(workflows)s"),
    (False, False): "%(what)s",
}


def _reason(value: str) -> str:
    return _(_REASONS[value]) if value in _REASONS else value.replace("_", " ")


def _counted(counts: Mapping[str, int], whole: int) -> str:
    return _listed(name if count == whole else f"{name} ({count})" for name, count in counts.items())


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _closing(to_person: bool) -> str:
    """Links lead to pages; none of them does anything by itself."""
    change = (
        _("To change what you are told, and how often: %(url)s")
        if to_person
        else _("To change what this channel is told: %(url)s")
    ) % {"url": url("/settings/notifications/")}
    return _("All notices: %(url)s") % {"url": url("/notices/")} + f"\n{change}"


def url(path: str) -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}{path}"
