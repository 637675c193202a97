"""The text of a message: counts, reasons, names of workflows and destinations, ids and links. Nothing of a customer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from opsledger.ledger.queries.notices import NoticeLine
from opsledger.rules.notice_words import NoticeKind

LINES_MAX = 40

_HEADINGS = {
    NoticeKind.ESCALATED: "Came to you because nobody acted",
    NoticeKind.OWNER_GONE: "Came to you because their owner is gone",
    NoticeKind.REMINDER: "Past the due time",
    NoticeKind.ASSIGNED: "Assigned to you",
    NoticeKind.APPROVAL: "Your approval is asked",
    NoticeKind.DISPUTED: "Disputed",
    NoticeKind.DESTINATION_STOPPED: "Sending to a destination stopped",
    NoticeKind.REPLAY_STOPPED: "Replays that paused by themselves",
    NoticeKind.REPLAY_ENDED: "Replays that ended",
}
_FOR_A_TEAM = {
    NoticeKind.ESCALATED: "Escalated because nobody acted",
    NoticeKind.OWNER_GONE: "Given to somebody else because their owner is gone",
    NoticeKind.ASSIGNED: "Opened with an owner, or assigned",
    NoticeKind.APPROVAL: "An approval is asked",
}


@dataclass(frozen=True, slots=True)
class Message:
    subject: str
    text: str


def compose(lines: Sequence[NoticeLine], team: str, *, to_person: bool, repeated: bool) -> Message:
    """One message for all of these, the most urgent kind first. `repeated`: an earlier try may have arrived."""
    count = sum(line.count for line in lines)
    first = next(kind for kind in _HEADINGS if any(line.kind is kind for line in lines))
    subject = f"{team}: {_heading(first, to_person)} ({count})" if len(lines) > 1 or count > 1 else (
        f"{team}: {_heading(first, to_person)}"
    )  # fmt: skip
    parts = [_REPEATED] if repeated else []
    for kind in _HEADINGS:
        of_kind = [line for line in lines if line.kind is kind]
        if of_kind:
            parts.append(_section(_heading(kind, to_person), of_kind))
    return Message(subject, "\n\n".join([*parts, _closing(to_person)]))


def test_message(channel: str, team: str) -> Message:
    text = (
        f"This is a test of the channel “{channel}” of {team}. Nothing happened, and nothing is to be done."
    )
    return Message(f"{team}: test of the channel “{channel}”", text)


_REPEATED = "You may have had this message before: whether it arrived was not known."


def _heading(kind: NoticeKind, to_person: bool) -> str:
    return _HEADINGS[kind] if to_person else _FOR_A_TEAM.get(kind, _HEADINGS[kind])


def _section(heading: str, lines: Sequence[NoticeLine]) -> str:
    shown = [_told(line) for line in lines[:LINES_MAX]]
    more = sum(line.count for line in lines[LINES_MAX:])
    rest = [f"- and {more} more: {url('/')}"] if more else []
    return "\n".join([f"{heading}: {sum(line.count for line in lines)}", *shown, *rest])


def _told(line: NoticeLine) -> str:
    said = [_counted(line.reasons, line.count, plain=True)]
    said.append(f"at {_counted(line.destinations, line.count)}" if line.destinations else "")
    said.append(f"in {_counted(line.workflows, line.count)}" if line.workflows else "")
    what = " ".join(filter(None, [*said, line.about, "(ended meanwhile)" if line.over else ""]))
    number = f"{line.count} × " if line.count > 1 else ""
    return f"- {number}{what}".rstrip() + f"\n  {url(line.path)}"


def _counted(counts: Mapping[str, int], whole: int, *, plain: bool = False) -> str:
    names = ((name.replace("_", " ") if plain else name, count) for name, count in counts.items())
    return _listed(name if count == whole else f"{name} ({count})" for name, count in names)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _closing(to_person: bool) -> str:
    """Links lead to pages; none of them does anything by itself."""
    where = "what you are told, and how often" if to_person else "what this channel is told"
    return f"All notices: {url('/notices/')}\nTo change {where}: {url('/settings/notifications/')}"


def url(path: str) -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}{path}"
