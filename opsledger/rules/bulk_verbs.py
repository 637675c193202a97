"""Which verb fits a selection. A verb fits when it fits every hold in it; otherwise one sentence says why it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from opsledger.rules.answers import ANSWERS, Answer
from opsledger.rules.bulk import Verb
from opsledger.rules.states import HoldReason, StepState


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is alike in a selection: so many holds of this reason, with their step in this state; or so many steps."""

    reason: HoldReason | None  # None: steps that wait, without a hold of their own
    state: StepState | None  # None: about a destination or an event
    destination: str
    action: str
    count: int

    @property
    def words(self) -> str:
        """As in “3 of these holds, “rejected by destination” with a step that is ready,”."""
        if self.reason is None:
            return f"{self.count:,} of these steps"
        about = f" with a step that is {_plain(self.state)}" if self.state is not None else ""
        return f"{self.count:,} of these, “{_plain(self.reason)}”{about},"


@dataclass(frozen=True, slots=True)
class Fit:
    verb: Verb
    why: str = ""  # not; "" = it fits

    @property
    def fits(self) -> bool:
        return not self.why


def fits(chosen: Sequence[Chosen], refused: Mapping[Verb, str] | None = None) -> list[Fit]:
    """Every verb, in the order of `Verb`. `refused`: why this person may not use a verb at all, asked first."""
    said = refused or {}
    return [Fit(verb, said.get(verb) or why_not(verb, chosen)) for verb in Verb]


def why_not(verb: Verb, chosen: Sequence[Chosen]) -> str:
    """Why a verb does not fit all of these holds: names the first kind that it does not fit, and how many; "" = it fits."""
    if not chosen:
        return "Nothing is selected."
    if any((one.reason is None) is not (verb is Verb.CANCEL) for one in chosen):
        return _HOLDS_ONLY if verb is not Verb.CANCEL else _STEPS_ONLY
    rule = _RULES.get(verb)
    if rule is not None:
        for one in chosen:
            if not rule.fits(one):
                return f"{one.words} {rule.else_says}."
    return _scattered(chosen) if verb in ONE_ACTION else ""


@dataclass(frozen=True, slots=True)
class _Rule:
    fits: Callable[[Chosen], bool]
    else_says: str  # of the holds that do not fit


_LOOKED_UP = frozenset({StepState.UNKNOWN, StepState.ACCEPTED})
# Absence is stated for what nobody knows; what was found, refused or told twice is a question of its own.
_STATED_ABSENT = frozenset({HoldReason.OUTCOME_UNKNOWN, HoldReason.PROTECTION_EXPIRED})
_HOLDS_ONLY = "These are steps that wait, without a hold of their own; they are ended, or wait on."
_STEPS_ONLY = (
    "These are holds; a hold is answered. Only steps that wait at a stopped destination are ended so."
)
ONE_ACTION = frozenset(
    {Verb.HAPPENED, Verb.ABSENT}
)  # a list or a statement speaks of one action at one place


def _has(answer: Answer) -> Callable[[Chosen], bool]:
    return lambda one: one.reason is not None and answer in ANSWERS.get(one.reason, ())


_RULES: Mapping[Verb, _Rule] = {
    Verb.CHECK_NOW: _Rule(lambda one: one.state in _LOOKED_UP, "can’t be looked up"),
    Verb.NEXT_CHECK: _Rule(_has(Answer.STILL_UNKNOWN), "can’t stay open as still unknown"),
    Verb.END_FAILED: _Rule(_has(Answer.END_FAILED), "can’t be ended as failed"),
    Verb.PLAN_REPLAY: _Rule(lambda one: one.state is not None, "can’t be continued by a replay"),
    Verb.HAPPENED: _Rule(
        lambda one: _has(Answer.HAPPENED)(one) and one.state is not StepState.READY,
        "can’t be answered with “It happened”",
    ),
    Verb.ABSENT: _Rule(
        lambda one: one.reason in _STATED_ABSENT and one.state is StepState.UNKNOWN,
        "can’t be answered with “It did not happen”",
    ),
    Verb.CANCEL: _Rule(lambda one: one.state is StepState.READY, "do not wait any more"),
}


def _scattered(chosen: Sequence[Chosen]) -> str:
    places = sorted({(one.destination, one.action) for one in chosen})
    if len(places) == 1:
        return ""
    named = " and ".join(f"{destination} ({action})" for destination, action in places[:2])
    more = f" and {len(places) - 2} more" if len(places) > 2 else ""
    return f"These holds are about {named}{more}; this is done for one destination and one action at a time."


def _plain(word: HoldReason | StepState) -> str:
    return word.value.replace("_", " ")
