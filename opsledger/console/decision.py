"""The decision panel: which answers this person may give to a hold, what each needs, and what would follow.

What follows is not guessed: each answer is applied to a copy of the record by the same rules that will apply it for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from opsledger.console.fields import FormField, form_field
from opsledger.console.wording import answers
from opsledger.console.wording.consequences import Follows, consequence
from opsledger.ledger.queries.approvals import usable_numbers
from opsledger.ledger.queries.comparison import Findings
from opsledger.ledger.queries.page import HoldView, OperationView
from opsledger.ledger.rendering import params_of
from opsledger.rules.answers import (
    REVISES,
    SENDS_AGAIN,
    Answer,
    Given,
    answered,
    answers_for,
    ends_without_tick,
    may_come_back,
)
from opsledger.rules.definition_types import ParamDefinition
from opsledger.rules.next_step import next_look_at
from opsledger.rules.record import Act, Operation, Step
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import StepState

Clock = Callable[[datetime | None, datetime], str]
FORESEEN_REFERENCE = "reference"  # stands for what will be typed


@dataclass(frozen=True, slots=True)
class Option:
    """One answer inside a card."""

    value: str
    answer: Answer
    label: str
    consequence: str
    sends: bool


@dataclass(frozen=True, slots=True)
class LaterStep:
    number: int
    title: str


@dataclass(frozen=True, slots=True)
class Card:
    """One choice of the panel; where it holds several options, they are chosen inside it."""

    value: str
    state: str  # shape and hue
    title: str
    consequence: str
    button: str
    danger: bool
    options: tuple[Option, ...]
    choice: str = ""  # name of the inner choice
    keep_later: tuple[LaterStep, ...] = ()
    keep_words: str = ""
    reference: str = ""  # of the one record in question
    references: tuple[str, ...] = ()  # to choose from
    proposes: bool = False  # this person may propose it, and another one decides

    @property
    def answers(self) -> tuple[Answer, ...]:
        return tuple(option.answer for option in self.options)


# value, shape, its answers (with their values inside the card), name of the inner choice
_CARDS: tuple[tuple[str, str, tuple[tuple[str, Answer], ...], str], ...] = (
    (
        "happened",
        "confirmed",
        (("confirmed", Answer.HAPPENED), ("accepted", Answer.HAPPENED_ACCEPTED)),
        "happened_as",
    ),
    (
        "absent",
        "failed",
        (
            ("end", Answer.ABSENT_END),
            ("again", Answer.ABSENT_SEND_AGAIN),
            ("revise", Answer.ABSENT_REVISE),
        ),
        "then",
    ),
    ("ours", "confirmed", (("", Answer.OURS),), ""),
    ("not_ours", "failed", (("", Answer.NOT_OURS),), ""),
    ("keep_one", "duplicate", (("", Answer.KEEP_ONE),), ""),
    ("same_again", "ready", (("", Answer.SAME_AGAIN),), ""),
    ("revise", "approval", (("", Answer.REVISE),), ""),
    ("more_tries", "ready", (("", Answer.MORE_TRIES),), ""),
    ("delivered", "confirmed", (("", Answer.DELIVERED),), ""),
    ("not_delivered", "delivery-failed", (("", Answer.NOT_DELIVERED),), ""),
    ("leave_accepted", "accepted", (("", Answer.LEAVE_ACCEPTED),), ""),
    ("replaced", "arrow", (("", Answer.REPLACED),), ""),
    ("end_failed", "failed", (("", Answer.END_FAILED),), ""),
    ("end", "failed", (("", Answer.END),), ""),
    ("unknown", "unknown", (("", Answer.STILL_UNKNOWN),), ""),
    ("close", "closed-unknown", (("", Answer.CLOSE_UNKNOWN),), ""),
)
# by answer: its card, and the name and the value of the choice inside it
CARD_OF: Mapping[Answer, tuple[str, str, str]] = {
    answer: (value, choice, name) for value, _shape, inside, choice in _CARDS for name, answer in inside
}
_DANGER = frozenset({"absent", "close", "end_failed", "not_delivered", "not_ours"})


def cards_of(
    view: OperationView,
    hold: HoldView,
    found: Findings,
    may: frozenset[Answer],
    clock: Clock,
    *,
    may_propose: bool = False,
) -> list[Card]:
    """The cards for this hold, with only the answers that are valid now and that this person may give, or propose."""
    valid = answers_for(view.rules, hold.hold)
    offered = [answer for answer in valid if answer in may or may_propose]
    cards = [_card(spec, view, hold, found, offered, clock) for spec in _CARDS]
    return [
        card
        if may.issuperset(card.answers)
        else replace(card, proposes=True, button=answers.proposing(card.answers[0]))
        for card in cards
        if card is not None
    ]


def default_card(cards: list[Card]) -> str:
    """The answer that is chosen at first: one that sends nothing and ends nothing, else none."""
    for value in ("unknown", "leave_accepted"):
        if any(card.value == value for card in cards):
            return value
    return ""


def _card(
    spec: tuple[str, str, tuple[tuple[str, Answer], ...], str],
    view: OperationView,
    hold: HoldView,
    found: Findings,
    offered: list[Answer],
    clock: Clock,
) -> Card | None:
    value, state, inside, choice = spec
    reason = hold.hold.reason
    options = tuple(
        Option(
            name,
            answer,
            answers.label(answer, reason),
            foreseen(view, hold, answer, clock),
            answer in SENDS_AGAIN,
        )
        for name, answer in inside
        if answer in offered
    )
    if not options:
        return None
    several = len(options) > 1
    step = view.rules.step(hold.hold.step)
    return Card(
        value=value,
        state=state,
        title=answers.card_title(value) if several else options[0].label,
        consequence=options[0].consequence,
        button=answers.button(options[0].answer, reason),
        danger=value in _DANGER,
        options=options,
        choice=choice if several else "",
        keep_later=_keep_later(value, view, step),
        keep_words=answers.keep_words(value),
        reference=found.reference,
        references=found.duplicates,
    )


def _keep_later(value: str, view: OperationView, step: Step) -> tuple[LaterStep, ...]:
    """Steps that a tick keeps going, or brings back."""
    record = view.rules
    if record.replaced:
        return ()  # another operation does what they would do
    if value in {"close", "leave_accepted"}:
        answer = Answer.CLOSE_UNKNOWN if value == "close" else Answer.LEAVE_ACCEPTED
        later = ends_without_tick(record, step, answer, view.record.loaded.policies)
    elif value in {"happened", "absent", "ours", "keep_one"}:
        later = may_come_back(record, step)
    else:
        later = []
    return tuple(LaterStep(s.number, view.step(s.number).title) for s in later)


def foreseen(view: OperationView, hold: HoldView, answer: Answer, clock: Clock) -> str:
    """What an answer brings about, in words; the rules say what, and nothing is written."""
    record, number = view.rules, hold.hold.step
    moment = Moment(view.now, view.record.loaded.policies, lambda: "foreseen")
    given = Given(answer=answer, reference=_expected_reference(record.step(number)), next_check_at=view.now)
    try:
        after = answered(record, hold.hold.id, given, moment)
    except NotNow:
        after = record
    view.record.loaded.renderings.clear()  # made with a stand-in for the reference
    return consequence(hold.hold.reason, answer, _follows(view, hold, after, number, clock))


def _expected_reference(step: Step) -> str:
    """What will be typed, as far as that is foreseen: the one that the attempts have, else a stand-in."""
    known = {attempt.reference for attempt in step.attempts if attempt.reference}
    return known.pop() if len(known) == 1 else FORESEEN_REFERENCE


def _follows(view: OperationView, hold: HoldView, after: Operation, number: int, clock: Clock) -> Follows:
    before, step = view.rules, after.step(number)
    again = after.hold_on(number)
    look_at = (
        next_look_at(step, view.record.loaded.policies[number], view.now) if step.act is Act.LOOK else None
    )
    return Follows(
        step=number,
        state=step.state,
        operation=after.state,
        released=_moved(before, after, number, StepState.READY),
        cancelled=_moved(before, after, number, StepState.CANCELLED),
        asks_again=again.reason if again and again.id != hold.hold.id else None,
        looks_at=clock(look_at, view.now) if look_at else "",
        destination=step.destination,
    )


# What a changed request may differ in


@dataclass(frozen=True, slots=True)
class Revisable:
    """The parameters of a step’s present request, and the content versions that another one may show."""

    params: tuple[ParamDefinition, ...]
    values: Mapping[str, Any]
    content_number: int | None  # the version that it shows now; None: none
    versions: tuple[tuple[int, str], ...]  # number and state, newest first

    def fields(self, typed: Mapping[str, str]) -> list[FormField]:
        return [
            form_field(one, self.values.get(one.name), prefix=REVISED, typed=typed) for one in self.params
        ]


REVISED = "params"  # before the names of the form’s fields, as refusals name them


def revisable(view: OperationView, number: int, cards: list[Card]) -> Revisable | None:
    """None where no answer changes the request."""
    if not any(answer in REVISES for card in cards for answer in card.answers):
        return None
    loaded, shown = view.record.loaded, view.rules.step(number).content_number
    versions = usable_numbers(loaded.content_id) if loaded.content_id and shown is not None else []
    return Revisable(view.workflow.params, params_of(loaded, number), shown, tuple(versions))


def _moved(before: Operation, after: Operation, number: int, state: StepState) -> tuple[int, ...]:
    """Later steps that an answer moves to this state."""
    return tuple(
        step.number
        for step in after.steps
        if step.number > number and step.state is state and before.step(step.number).state is not state
    )
