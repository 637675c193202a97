"""Every question has words, and every answer says what follows before it is given."""

from __future__ import annotations

import pytest

from opsledger.console.wording import answers, approvers
from opsledger.console.wording.consequences import Follows, consequence
from opsledger.console.wording.knowledge import Known, what_we_know
from opsledger.console.wording.phrases import lasted, listed
from opsledger.console.wording.protection import protection, sending_again
from opsledger.console.wording.questions import next_decision, question
from opsledger.ledger.approvals import Bar
from opsledger.rules.answers import ANSWERS, Answer
from opsledger.rules.profile import ProtectionKind, Settles
from opsledger.rules.protection import Protected
from opsledger.rules.states import DESTINATION_REASONS, HoldReason, OperationState, StepState

EVERY_ANSWER = [(reason, answer) for reason, answers in ANSWERS.items() for answer in answers]
A, R = Answer, HoldReason


def known(reason: HoldReason, **facts: object) -> Known:
    return Known(reason=reason, destination="crm", step="Create the task", attempts=1, **facts)  # type: ignore[arg-type]


def follows(**facts: object) -> Follows:
    values: dict[str, object] = {"step": 1, "state": StepState.CONFIRMED, "operation": OperationState.RUNNING}
    return Follows(destination="crm", **values | facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", HoldReason, ids=str)
def test_every_reason_asks_one_question_knows_something_and_says_what_is_next(reason: HoldReason) -> None:
    words = known(reason)
    assert question(words).endswith("?")
    assert what_we_know(words).endswith(".")
    assert next_decision(words)
    for text in (question(words), what_we_know(words), next_decision(words)):
        assert "%(" not in text
        assert "None" not in text


def test_after_a_restored_backup_nobody_is_said_to_have_contradicted() -> None:
    words = known(R.DISPUTED, restored=True, statements=("it did not happen (a reply)",))
    assert question(words) == "A backup was restored. Did “Create the task” happen at crm since then?"
    assert "backup" in what_we_know(words)
    assert "backup" in next_decision(words)
    heard = known(R.DISPUTED, restored=True, statements=("it did not happen", "it happened as T-1"))
    assert "T-1" in what_we_know(heard)


@pytest.mark.parametrize(
    "reason", sorted(set(HoldReason) - DESTINATION_REASONS - {R.EVENT_CONFLICT}), ids=str
)
def test_every_reason_that_a_step_can_have_has_answers(reason: HoldReason) -> None:
    assert ANSWERS[reason]


@pytest.mark.parametrize(("reason", "answer"), EVERY_ANSWER, ids=[f"{r}-{a}" for r, a in EVERY_ANSWER])
def test_every_answer_of_every_reason_states_its_consequence(reason: HoldReason, answer: Answer) -> None:
    said = consequence(reason, answer, follows())
    assert said.endswith(".")
    assert "%(" not in said
    assert answers.label(answer)
    assert answers.button(answer)
    assert answers.given(answer.value)


@pytest.mark.parametrize(
    ("bar", "words"),
    [*((bar, bar.value) for bar in Bar), (approvers.RECORDED_ALL, "recorded all that waits for it")],
)
def test_why_somebody_may_not_approve_is_a_whole_sentence(bar: str, words: str) -> None:
    assert approvers.why_not_you(bar) == f"You {words}"
    assert approvers.somebody_else_has_to(bar) == f"You {words}, so somebody else has to approve it."
    if bar in list(Bar):
        assert approvers.left_out_when_you_approve(bar) == f"You {words}: left out when you approve."
        assert approvers.whether_they_may(bar) == f"May not: {words}"
    assert approvers.whether_they_may("") == "May approve"
    assert approvers.why_not_you("") == approvers.left_out_when_you_approve("") == ""


def test_what_is_past_its_latest_moment_is_sent_all_the_same_and_not_tried_more_often() -> None:
    assert (
        answers.label(A.MORE_TRIES, R.TOO_LATE)
        == answers.button(A.MORE_TRIES, R.TOO_LATE)
        == "Send it all the same"
    )
    assert answers.label(A.MORE_TRIES, R.ATTEMPTS_EXHAUSTED) == "Grant more tries"


@pytest.mark.parametrize(
    ("answer", "after", "said"),
    [
        (
            A.HAPPENED,
            {"released": (2,)},
            "Step 1 is confirmed with your reference. Step 2 is released to be sent.",
        ),
        (A.ABSENT_END, {"cancelled": (2, 3)}, "Steps 2 and 3 are cancelled."),
        (A.NOT_OURS, {"asks_again": R.OUTCOME_UNKNOWN}, "The question comes back as “Outcome unknown”."),
        (A.NOT_OURS, {"looks_at": "16:27"}, "crm is asked again at 16:27."),
        (A.HAPPENED, {"operation": OperationState.COMPLETED}, "The operation is then completed."),
        (A.END_FAILED, {"operation": OperationState.FAILED}, "The operation ends as failed."),
        (
            A.END_FAILED,
            {"state": StepState.CANCELLED, "operation": OperationState.CANCELLED},
            "Step 1 is cancelled; nothing more is sent for it. The operation ends as cancelled.",
        ),
        (A.STILL_UNKNOWN, {"asks_again": R.OUTCOME_UNKNOWN}, "is due at the time that you choose."),
    ],
    ids=["released", "cancelled", "back", "asked", "completed", "failed", "waited", "stays"],
)
def test_what_the_rules_foresee_is_said_beside_the_answer(
    answer: Answer, after: dict[str, object], said: str
) -> None:
    assert consequence(R.OUTCOME_UNKNOWN, answer, follows(**after)).endswith(said)


@pytest.mark.parametrize(
    ("facts", "said", "then"),
    [
        ({}, "Sent once, without a clear answer. crm can’t be asked.", "Ask crm, then answer"),
        (
            {"looks_found_nothing": 2, "settles": Settles.POSITIVE_ONLY, "next_look": "16:27"},
            "2 lookups, no record. Empty answers prove nothing here.",
            "Wait for 16:27, or ask crm",
        ),
        ({"looks_failed": 7}, "7 lookups failed; none answered.", "Ask crm, then answer"),
        (
            {"looks_failed": 7, "settles": Settles.POSITIVE_ONLY},
            "7 lookups failed; none answered.",
            "Ask crm, then answer",
        ),
        (
            {"looks_failed": 1},
            "One lookup failed: nothing is known from it.",
            "Ask crm, then answer",
        ),
        (
            {"looks_found_nothing": 1, "looks_failed": 2, "settles": Settles.POSITIVE_ONLY},
            "One lookup, no record. 2 more failed. Empty answers prove nothing here.",
            "Ask crm, then answer",
        ),
        (
            {"looks_found_nothing": 3, "looks_failed": 1, "settles": Settles.BOTH},
            "3 lookups, no record. One more failed.",
            "Ask crm, then answer",
        ),
        (
            {"references": ("T-1",), "differing": ("Due date",)},
            "A lookup found one possible record; the due date is not as approved.",
            "Decide whether T-1 is this action’s record",
        ),
        (
            {"looked": "confirmed", "references": ("T-1",)},
            "A lookup found this action’s own record, T-1, as approved.",
            "Confirm that T-1 is it",
        ),
        (
            {"looked": "absent"},
            "Repeated lookups prove that it is not there.",
            "Confirm that it did not happen",
        ),
        (
            {"taken": ("T-1", "spring:7")},
            "The answer names record T-1, which operation spring:7 holds already.",
            "Ask crm, then answer",
        ),
    ],
    ids=[
        "nothing",
        "looked in vain",
        "all failed",
        "all failed where empty is nothing",
        "one failed",
        "some failed",
        "one of four failed",
        "alike",
        "found",
        "absent",
        "taken",
    ],
)
def test_an_unknown_outcome_says_what_lookups_brought(facts: dict[str, object], said: str, then: str) -> None:
    words = known(R.OUTCOME_UNKNOWN, **facts)
    assert what_we_know(words) == said
    assert next_decision(words) == then


@pytest.mark.parametrize(
    ("protected", "more", "state", "text"),
    [
        (Protected(ProtectionKind.NONE, False, "none_documented", ""), {}, "unprotected", "None: a resend may duplicate"),
        (
            Protected(ProtectionKind.IDEMPOTENCY_KEY, True, "within_window", ""),
            {"left": "3 h"},
            "protected",
            "Idempotency key, 3 h left",
        ),
        (
            Protected(ProtectionKind.IDEMPOTENCY_KEY, True, "within_window", "", own_window=True),
            {"left": "3 h"},
            "protected",
            "Idempotency key, your own window, 3 h left",
        ),
        (
            Protected(ProtectionKind.IDEMPOTENCY_KEY, False, "expired", ""),
            {"since": "2 h"},
            "expired",
            "Expired 2 h ago",
        ),
        (
            Protected(ProtectionKind.UPSERT, False, "record_changed", ""),
            {},
            "unprotected",
            "None: somebody has changed the record",
        ),
        (Protected(ProtectionKind.NONE, False, "none_documented", ""), {"attempts": 0}, "protected", "Nothing was sent"),
        (
            Protected(ProtectionKind.NONE, False, "none_documented", ""),
            {"may_have_had_effect": False},
            "protected",
            "No attempt took effect",
        ),
    ],
    ids=["none", "window", "own window", "expired", "changed", "unsent", "without effect"],
)  # fmt: skip
def test_protection_is_said_with_what_is_left_of_it(
    protected: Protected, more: dict[str, object], state: str, text: str
) -> None:
    facts: dict[str, object] = {"attempts": 1, "may_have_had_effect": True}
    said = protection(protected, **facts | more)  # type: ignore[arg-type]
    assert (said.state, said.text) == (state, text)


def test_long_lists_are_counted_and_short_ones_are_read_out() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([str(n) for n in range(9)]) == "0, 1, 2, 3, 4 and 4 more"


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("Due date",), "the due date is not as approved."),
        (("E-mail address",), "the e-mail address is not as approved."),
        (("SKU",), "the SKU is not as approved."),
        (("Due date", "Queue"), "the due date and the queue are not as approved."),
    ],
    ids=["one", "hyphen", "capitals", "two"],
)
def test_a_field_s_label_reads_well_inside_a_sentence(labels: tuple[str, ...], said: str) -> None:
    assert what_we_know(known(R.RECORD_DIFFERS, references=("T-1",), differing=labels)).endswith(said)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "less than 0.1 s"),
        (0.049, "less than 0.1 s"),
        (0.05, "0.1 s"),
        (1.26, "1.3 s"),
        (30.0, "30.0 s"),
    ],
)
def test_how_long_a_send_took_is_never_nothing(seconds: float, said: str) -> None:
    assert lasted(seconds) == said


@pytest.mark.parametrize(
    ("protected", "more", "said"),
    [
        (
            Protected(ProtectionKind.NONE, False, "none_documented", "Nothing documented."),
            {"may_have_had_effect": False},
            "What was sent so far changed nothing, so it can’t happen twice.",
        ),
        (
            Protected(ProtectionKind.NONE, False, "none_documented", "Nothing documented."),
            {},
            "Nothing documented.",
        ),
        (
            Protected(ProtectionKind.IDEMPOTENCY_KEY, True, "within_window", ""),
            {"until": "18:00"},
            "The destination recognises the same request, if it is sent before 18:00.",
        ),
        (
            Protected(ProtectionKind.IDEMPOTENCY_KEY, False, "expired", ""),
            {"ended": "12:00"},
            "The destination recognised it until 12:00 only: sent again, it may happen twice.",
        ),
    ],
    ids=["no effect so far", "none", "protected", "expired"],
)
def test_what_sending_again_risks_is_said_in_the_viewer_s_time(
    protected: Protected, more: dict[str, object], said: str
) -> None:
    facts = {"may_have_had_effect": True, "until": "", "ended": ""} | more
    assert sending_again(protected, **facts) == said  # type: ignore[arg-type]
