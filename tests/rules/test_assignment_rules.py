"""Which rule gives a hold to whom: the first that fits and whose person is there."""

from __future__ import annotations

import pytest

from opsledger.rules.assignment import Question, Rule, given_by

QUESTION = Question("follow_up", "crm", "outcome_unknown")
AT_DESTINATION = Question("", "crm", "paused")
AT_EVENT = Question("", "", "event_conflict")
THERE = {"maria": "maria", "jon": "jon", "ann": "jon", "tom": None}  # Ann is away, Jon stands in; Tom left


def rule(position: int, person: str = "maria", **more: object) -> Rule:
    return Rule(f"r{position}", position, person, **more)  # type: ignore[arg-type]


FITS = {
    "nothing named fits all": (rule(1), QUESTION, True),
    "nothing named fits a destination's": (rule(1), AT_DESTINATION, True),
    "nothing named fits an event's": (rule(1), AT_EVENT, True),
    "its workflow": (rule(1, workflow="follow_up"), QUESTION, True),
    "another workflow": (rule(1, workflow="letter"), QUESTION, False),
    "a workflow is not a beginning of one": (rule(1, workflow="follow"), QUESTION, False),
    "byte for byte": (rule(1, workflow="Follow_up"), QUESTION, False),
    "a workflow and no workflow": (rule(1, workflow="follow_up"), AT_DESTINATION, False),
    "its destination": (rule(1, destination="crm"), AT_DESTINATION, True),
    "another destination": (rule(1, destination="mail"), QUESTION, False),
    "its reason": (rule(1, reason="outcome_unknown"), QUESTION, True),
    "another reason": (rule(1, reason="disputed"), QUESTION, False),
    "all three": (rule(1, workflow="follow_up", destination="crm", reason="outcome_unknown"), QUESTION, True),
    "two of three": (rule(1, workflow="follow_up", destination="crm", reason="disputed"), QUESTION, False),
}


@pytest.mark.parametrize(("one", "question", "fits"), FITS.values(), ids=FITS.keys())
def test_a_rule_fits_what_it_names_and_any_of_what_it_leaves_open(
    one: Rule, question: Question, fits: bool
) -> None:
    assert one.fits(question) is fits
    given = given_by([one], question, THERE)
    assert (given is not None) is fits


CHOSEN = {
    "none": ([], None),
    "the first": ([rule(1), rule(2, "jon")], ("r1", "maria")),
    "by its place, not by the order given": ([rule(2, "jon"), rule(1)], ("r1", "maria")),
    "the first that fits": ([rule(1, reason="disputed"), rule(2, "jon")], ("r2", "jon")),
    "one that is off is passed over": ([rule(1, active=False), rule(2, "jon")], ("r2", "jon")),
    "somebody who left is passed over": ([rule(1, "tom"), rule(2, "jon")], ("r2", "jon")),
    "somebody unknown is passed over": ([rule(1, "eve"), rule(2, "jon")], ("r2", "jon")),
    "only people who left": ([rule(1, "tom")], None),
    "a deputy stands in": ([rule(1, "ann"), rule(2, "maria")], ("r1", "jon")),
}


UNABLE = {
    "who may not answer is passed over": ([rule(1), rule(2, "jon")], {"maria"}, "jon"),
    "also the deputy who stands in": ([rule(1, "ann"), rule(2)], {"jon"}, "maria"),
    "but not whom a deputy who may stands in for": ([rule(1, "ann")], {"ann"}, "jon"),
    "nobody is left": ([rule(1), rule(2, "jon")], {"maria", "jon"}, None),
    "another rule for the same person, too": ([rule(1), rule(2), rule(3, "jon")], {"maria"}, "jon"),
}


@pytest.mark.parametrize(("rules", "unable", "owner"), UNABLE.values(), ids=UNABLE.keys())
def test_a_rule_whose_taker_may_not_answer_is_passed_over(
    rules: list[Rule], unable: set[str], owner: str | None
) -> None:
    given = given_by(rules, QUESTION, THERE, unable)
    assert (given.owner if given else None) == owner


@pytest.mark.parametrize(("rules", "wanted"), CHOSEN.values(), ids=CHOSEN.keys())
def test_the_first_match_whose_person_is_there_decides(
    rules: list[Rule], wanted: tuple[str, str] | None
) -> None:
    given = given_by(rules, QUESTION, THERE)
    assert (given and (given.rule.id, given.owner)) == wanted
