"""The words of each answer to a hold: on its card, on its button, and told afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.rules.answers import Answer
from opsledger.rules.states import HoldReason

A = Answer


LABELS: Mapping[Answer, str] = {
    A.HAPPENED: noop("It happened"),
    A.HAPPENED_ACCEPTED: noop("Taken over; its effect is not known"),
    A.ABSENT_SEND_AGAIN: noop("It did not happen: send again"),
    A.ABSENT_END: noop("It did not happen: end as failed"),
    A.ABSENT_REVISE: noop("It did not happen: change the request"),
    A.STILL_UNKNOWN: noop("Still unknown"),
    A.CLOSE_UNKNOWN: noop("Close as never known"),
    A.OURS: noop("It is ours, with the difference"),
    A.NOT_OURS: noop("It is not ours"),
    A.KEEP_ONE: noop("Keep one of them"),
    A.SAME_AGAIN: noop("Send the same request again"),
    A.REVISE: noop("Change the request"),
    A.END_FAILED: noop("End as failed"),
    A.MORE_TRIES: noop("Grant more tries"),
    A.DELIVERED: noop("It took effect"),
    A.NOT_DELIVERED: noop("It did not take effect"),
    A.LEAVE_ACCEPTED: noop("Leave as accepted"),
    A.REPLACED: noop("A new operation replaces it"),
    A.END: noop("End it here"),
}
# What became of it, as the timeline and the journal tell it.
GIVEN: Mapping[Answer, str] = {
    A.HAPPENED: noop("it happened"),
    A.HAPPENED_ACCEPTED: noop("it was taken over; its effect is not known"),
    A.ABSENT_SEND_AGAIN: noop("it did not happen; send again"),
    A.ABSENT_END: noop("it did not happen; end as failed"),
    A.ABSENT_REVISE: noop("it did not happen; the request is changed"),
    A.STILL_UNKNOWN: noop("still unknown"),
    A.CLOSE_UNKNOWN: noop("closed as never known"),
    A.OURS: noop("the record is ours, with the difference"),
    A.NOT_OURS: noop("the record is not ours"),
    A.KEEP_ONE: noop("one of the records is kept"),
    A.SAME_AGAIN: noop("send the same request again"),
    A.REVISE: noop("the request is changed"),
    A.END_FAILED: noop("end as failed"),
    A.MORE_TRIES: noop("more tries"),
    A.DELIVERED: noop("it took effect"),
    A.NOT_DELIVERED: noop("it did not take effect"),
    A.LEAVE_ACCEPTED: noop("left as accepted"),
    A.REPLACED: noop("replaced by a new operation"),
    A.END: noop("ended"),
}
BUTTONS: Mapping[Answer, str] = {
    A.HAPPENED: noop("Record that it happened"),
    A.HAPPENED_ACCEPTED: noop("Record that it was taken over"),
    A.ABSENT_SEND_AGAIN: noop("Record that it did not happen"),
    A.ABSENT_END: noop("Record that it did not happen"),
    A.ABSENT_REVISE: noop("Record that it did not happen"),
    A.STILL_UNKNOWN: noop("Keep as unknown"),
    A.CLOSE_UNKNOWN: noop("Close as never known"),
    A.OURS: noop("Accept it with the difference"),
    A.NOT_OURS: noop("Record that it is not ours"),
    A.KEEP_ONE: noop("Keep the chosen record"),
    A.SAME_AGAIN: noop("Send the same request again"),
    A.REVISE: noop("Propose the changed request"),
    A.END_FAILED: noop("End as failed"),
    A.MORE_TRIES: noop("Grant the tries"),
    A.DELIVERED: noop("Record that it took effect"),
    A.NOT_DELIVERED: noop("Record that it did not take effect"),
    A.LEAVE_ACCEPTED: noop("Leave as accepted"),
    A.REPLACED: noop("Record what replaces it"),
    A.END: noop("End it here"),
}


_CARD_TITLES: Mapping[str, str] = {"happened": noop("It happened"), "absent": noop("It did not happen")}
_KEEP_WORDS: Mapping[str, str] = {
    "close": noop("Later steps that go on all the same; those without a tick are cancelled"),
    "leave_accepted": noop("Later steps that go on all the same; those without a tick are cancelled"),
    "happened": noop("Steps that were cancelled by the earlier answer and come back"),
    "absent": noop("Steps that were cancelled by the earlier answer and come back"),
    "ours": noop("Steps that were cancelled by the earlier answer and come back"),
    "keep_one": noop("Steps that were cancelled by the earlier answer and come back"),
}


def card_title(card: str) -> str:
    """The title of a card that holds several answers."""
    return _(_CARD_TITLES[card])


def keep_words(card: str) -> str:
    """What a tick at a later step means; "" where there are none."""
    return _(_KEEP_WORDS[card]) if card in _KEEP_WORDS else ""


# What is asked there is not how often.
_IN_PLACE: Mapping[tuple[HoldReason, Answer], str] = {
    (HoldReason.TOO_LATE, A.MORE_TRIES): noop("Send it all the same"),
}


def label(answer: Answer, reason: HoldReason | None = None) -> str:
    """`reason`: of the hold that is answered, which may call for other words."""
    return _((_IN_PLACE.get((reason, answer)) if reason else None) or LABELS[answer])


_ANSWER_VALUES = frozenset(answer.value for answer in Answer)


def given(answer: str) -> str:
    """An answer as part of a sentence; one that is not known here is shown as it is written."""
    return _(GIVEN[Answer(answer)]) if answer in _ANSWER_VALUES else answer.replace("_", " ")


def button(answer: Answer, reason: HoldReason | None = None) -> str:
    return _((_IN_PLACE.get((reason, answer)) if reason else None) or BUTTONS[answer])


def proposing(answer: Answer) -> str:
    """The same verb for somebody who may not give the answer."""
    return _("Propose: %(answer)s") % {"answer": given(answer.value)}
