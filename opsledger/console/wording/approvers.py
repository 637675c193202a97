"""Why somebody may not approve a request, in whole sentences: a language may need each of them in another order."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.ledger.approvals import Bar

# Every operation that waits for a version was recorded by the reader.
RECORDED_ALL = "recorded_all"

_YOU: Mapping[str, str] = {
    Bar.RECORDED: noop("You recorded it"),
    Bar.CHANGED: noop("You changed its request"),
    Bar.ASKED: noop("You asked for it"),
    Bar.WROTE: noop("You wrote it"),
    RECORDED_ALL: noop("You recorded all that waits for it"),
}
_SOMEBODY_ELSE: Mapping[str, str] = {
    Bar.RECORDED: noop("You recorded it, so somebody else has to approve it."),
    Bar.CHANGED: noop("You changed its request, so somebody else has to approve it."),
    Bar.ASKED: noop("You asked for it, so somebody else has to approve it."),
    Bar.WROTE: noop("You wrote it, so somebody else has to approve it."),
    RECORDED_ALL: noop("You recorded all that waits for it, so somebody else has to approve it."),
}
_LEFT_OUT: Mapping[str, str] = {
    Bar.RECORDED: noop("You recorded it: left out when you approve."),
    Bar.CHANGED: noop("You changed its request: left out when you approve."),
    Bar.ASKED: noop("You asked for it: left out when you approve."),
    Bar.WROTE: noop("You wrote it: left out when you approve."),
}
_THEY_MAY_NOT: Mapping[str, str] = {
    Bar.RECORDED: noop("May not: recorded it"),
    Bar.CHANGED: noop("May not: changed its request"),
    Bar.ASKED: noop("May not: asked for it"),
    Bar.WROTE: noop("May not: wrote it"),
}


def why_not_you(part: str) -> str:
    """“You wrote it”; "" where nothing stands in the way."""
    return _(_YOU[part]) if part else ""


def somebody_else_has_to(part: str) -> str:
    return _(_SOMEBODY_ELSE[part]) if part else ""


def left_out_when_you_approve(part: str) -> str:
    return _(_LEFT_OUT[part]) if part else ""


def whether_they_may(part: str) -> str:
    return _(_THEY_MAY_NOT[part]) if part else _("May approve")
