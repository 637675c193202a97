"""What an answer brings about, said before the click."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.vocabulary import shown
from opsledger.console.wording.phrases import listed
from opsledger.rules.answers import Answer
from opsledger.rules.states import HoldReason, OperationState, StepState

A, R = Answer, HoldReason


@dataclass(frozen=True, slots=True)
class Follows:
    """What the rules make of an answer: how the step and the operation stand after it."""

    step: int
    state: StepState
    operation: OperationState
    released: tuple[int, ...] = ()  # later steps that may be sent
    cancelled: tuple[int, ...] = ()
    asks_again: HoldReason | None = None  # the question comes back, perhaps as another one
    looks_at: str = ""  # when the destination is asked next
    destination: str = ""


CONSEQUENCES: Mapping[Answer, str] = {
    A.HAPPENED: noop("Step %(step)s is confirmed with your reference."),
    A.HAPPENED_ACCEPTED: noop("Step %(step)s is accepted: counted as taken over, and never sent again."),
    A.ABSENT_SEND_AGAIN: noop(
        "The same request is sent again, with the same key, as soon as its turn comes."
    ),
    A.ABSENT_END: noop("Step %(step)s is failed (no change) and not sent again."),
    A.ABSENT_REVISE: noop(
        "The changed request gets a new key and waits for somebody else’s approval; the one before is never sent again."
    ),
    A.STILL_UNKNOWN: noop("Nothing is sent; the hold stays open, and is due at the time that you choose."),
    A.CLOSE_UNKNOWN: noop("Step %(step)s stays unknown, counted apart for good; late truth reopens it."),
    A.OURS: noop("Step %(step)s is confirmed with this record; the difference is written to the journal."),
    A.NOT_OURS: noop("This record is left aside from now on."),
    A.KEEP_ONE: noop(
        "Step %(step)s is confirmed with the record that you choose. Nothing is deleted from here."
    ),
    A.SAME_AGAIN: noop("The same request is sent once more, with the same key."),
    A.REVISE: noop(
        "The changed request gets a new key and waits for somebody else’s approval; the one before is never sent again."
    ),
    A.END_FAILED: noop("Step %(step)s is failed; nothing more is sent for it."),
    A.MORE_TRIES: noop("The same request is tried as often as you say, beginning now."),
    A.DELIVERED: noop("Step %(step)s is confirmed."),
    A.NOT_DELIVERED: noop("Step %(step)s is failed: not delivered. It is never sent again."),
    A.LEAVE_ACCEPTED: noop("Step %(step)s stays accepted, is counted so, and is not looked for any more."),
    A.REPLACED: noop("This step stays failed; the operation that you name is written beside it."),
    A.END: noop("This step stays failed, and the question ends."),
}
_IN_PLACE: Mapping[tuple[HoldReason, Answer], str] = {
    (R.NOBODY_CLAIMED, A.MORE_TRIES): noop("The step is offered to automations again, beginning now."),
    (R.TOO_LATE, A.MORE_TRIES): noop("The request is sent although its latest moment has passed."),
    (R.DISPUTED, A.HAPPENED): noop(
        "Step %(step)s is confirmed with your reference, and the other statement is overruled."
    ),
    (R.DISPUTED, A.ABSENT_END): noop(
        "Step %(step)s is failed (no change), and the other statement is overruled."
    ),
    (R.DELIVERY_NOT_PROVEN, A.STILL_UNKNOWN): noop(
        "Nothing is sent; the step stays accepted, and is due again at the time that you choose."
    ),
}


# what waits has nothing that failed
_ENDED_WAITING = noop("Step %(step)s is cancelled; nothing more is sent for it.")


def consequence(reason: HoldReason, answer: Answer, follows: Follows) -> str:
    """What an answer brings about, said before the click: the answer's own sentence, then what the rules foresee."""
    own = _IN_PLACE.get((reason, answer)) or CONSEQUENCES[answer]
    if answer is A.END_FAILED and follows.state is StepState.CANCELLED:
        own = _ENDED_WAITING
    sentences = [_(own) % {"step": follows.step, "destination": follows.destination}]
    sentences += _afterwards(answer, follows)
    return " ".join(sentences)


def _afterwards(answer: Answer, follows: Follows) -> list[str]:
    said = []
    if answer not in {A.STILL_UNKNOWN, A.REVISE, A.ABSENT_REVISE} and follows.asks_again:
        said.append(
            _("The question comes back as “%(reason)s”.") % {"reason": shown(follows.asks_again).word}
        )
    if follows.looks_at and answer in {A.NOT_OURS, A.HAPPENED_ACCEPTED}:
        said.append(
            _("%(destination)s is asked again at %(time)s.")
            % {"destination": follows.destination, "time": follows.looks_at}
        )
    for template, steps in (
        (noop("%(steps)s released to be sent."), follows.released),
        (noop("%(steps)s cancelled."), follows.cancelled),
    ):
        if steps:
            said.append(_(template) % {"steps": _steps_are(steps)})
    if answer in _ENDINGS or not (follows.released or follows.cancelled):
        ending = _ENDS_OPERATION.get(follows.operation)
        if ending and answer is not A.STILL_UNKNOWN:
            said.append(_(ending))
    return said


_ENDINGS = frozenset({A.ABSENT_END, A.END_FAILED, A.END, A.NOT_DELIVERED, A.REPLACED})
_ENDS_OPERATION: Mapping[OperationState, str] = {
    OperationState.COMPLETED: noop("The operation is then completed."),
    OperationState.FAILED: noop("The operation ends as failed."),
    OperationState.CANCELLED: noop("The operation ends as cancelled."),
}


def _steps_are(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return _("Step %(number)s is") % {"number": numbers[0]}
    return _("Steps %(numbers)s are") % {"numbers": listed([str(number) for number in numbers])}
