"""What colleagues did before the newcomer came: an answer that late truth contradicts, and answers that are proposed.

Like the rest of the demo it goes through the product's own doors, each person with a token of their own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opsledger.demo.play import Doors, Played, effects_of
from opsledger.demo.scenario import CHANGED, DUPLICATED, ENDED, Part

HOLD_SECONDS_MAX = 20
READER = {"kind": "model", "name": "record-reader-1"}


@dataclass(frozen=True, slots=True)
class Hands:
    """Tokens: of the automation, of an operator, of an owner."""

    automation: str
    operator: str
    owner: str


def work(doors: Doors, played: list[Played], hands: Hands) -> None:
    """A hold that does not come is passed over: what the sandbox and the engine make of a request is theirs.

    1. An owner ends a message that bounced; then the mail service reports its delivery, and the step is *disputed*.
    2. A model proposes which of two records to keep.
    3. An operator proposes to take a record as it is.
    """
    if ended := _first(played, ENDED):
        _end_and_report(doors, ended, hands)
    if twice := _first(played, DUPLICATED):
        _propose_the_first(doors, twice, hands.automation)
    if changed := _first(played, CHANGED):
        _propose_the_difference(doors, changed, hands.operator)


def _first(played: list[Played], part: Part) -> Played | None:
    return next((one for one in played if one.part is part), None)


def _end_and_report(doors: Doors, one: Played, hands: Hands) -> None:
    hold = _hold(doors, one, "delivery_failed")
    if hold is None:
        return
    answer = {"answer": "end", "reason": "It came back; the customer was called instead."}
    _say(doors, hold, "settle", answer, hands.owner)
    report = {
        "says": "delivered",
        "how": "The mail service's evening report: taken by the second server of the customer.",
        "reference": str(effects_of(doors, one.identities[1])[0]["reference"]),
    }
    doors.call(f"/operations/{one.public_id}/steps/send_message/evidence", report, token=hands.automation)


def _propose_the_first(doors: Doors, one: Played, token: str) -> None:
    hold = _hold(doors, one, "duplicate_found")
    if hold is None:
        return
    kept, *others = [str(effect["reference"]) for effect in effects_of(doors, one.identities[0])]
    answer = {
        "answer": "keep_one",
        "reference": kept,
        "others": dict.fromkeys(others, "To be merged into the kept one by the CRM desk."),
        "reason": "This one was made by our own request; the other has the same fields and came after it.",
        "author": READER,
    }
    _say(doors, hold, "propose", answer, token)


def _propose_the_difference(doors: Doors, one: Played, token: str) -> None:
    hold = _hold(doors, one, "record_differs")
    if hold is None:
        return
    answer = {
        "answer": "ours",
        "reference": str(effects_of(doors, one.identities[0])[0]["reference"]),
        "reason": "The branch moved the due date by hand; everything else is as we sent it.",
    }
    _say(doors, hold, "propose", answer, token)


def _say(doors: Doors, hold: Mapping[str, Any], verb: str, document: dict[str, Any], token: str) -> None:
    """On the version that was read."""
    headers = {"If-Match": f'"{hold["version"]}"'}
    doors.call(f"/holds/{hold['id']}/{verb}", document, token=token, **headers)


def _hold(doors: Doors, one: Played, reason: str) -> dict[str, Any] | None:
    """The open hold of an operation, as soon as there is one."""
    until = time.monotonic() + HOLD_SECONDS_MAX
    while time.monotonic() < until:
        for hold in doors.call(f"/holds?reason={reason}&limit=200")["items"]:
            if hold["operation"] == one.public_id:
                return dict(hold)
        time.sleep(0.25)
    return None
