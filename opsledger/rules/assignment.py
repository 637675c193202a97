"""Assignment rules: who is given a hold when it opens. The first rule that fits, and whose person is there, decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

RULES_MAX = 100  # of one team


@dataclass(frozen=True, slots=True)
class Question:
    """What a hold is about. A hold at a destination has no workflow; one at an event has neither."""

    workflow: str
    destination: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Gives what it fits to a person. An empty workflow, destination or reason fits every one, also none."""

    id: str
    position: int
    person: str
    workflow: str = ""
    destination: str = ""
    reason: str = ""
    active: bool = True

    def fits(self, question: Question) -> bool:
        return (
            self.workflow in {"", question.workflow}
            and self.destination in {"", question.destination}
            and self.reason in {"", question.reason}
        )


@dataclass(frozen=True, slots=True)
class Given:
    """A hold's owner by a rule: its person, or who stands in for them."""

    rule: Rule
    owner: str


def given_by(
    rules: Iterable[Rule],
    question: Question,
    takers: Mapping[str, str | None],
    unable: Collection[str] = (),
) -> Given | None:
    """The first match in the order of positions; None when no rule takes the question.

    `takers` says who takes a person's holds now: themselves, a deputy, or None where nobody is there. A rule that is
    switched off, or whose person has no taker, is passed over: the next one is asked. So is one whose taker is among the
    `unable`, who may not answer this very question.
    """
    for rule in sorted(rules, key=lambda one: one.position):
        owner = takers.get(rule.person)
        if rule.active and owner is not None and owner not in unable and rule.fits(question):
            return Given(rule, owner)
    return None
