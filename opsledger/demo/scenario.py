"""What the demo plays: some sixty operations and a dozen letters, sent for real to a sandbox that really loses replies.

Nothing here writes a state. Operations come in through the HTTP API and signed webhooks, the sandbox is told how to behave
towards each, and the engine makes of it what it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opsledger.destinations.sandbox.client import SandboxControl

FOLLOW_UP, BRANCH, CLASSIC = "campaign_follow_up", "branch_follow_up", "classic_follow_up"
LOOKS_PLANNED = 7  # lookups that crm_classic’s profile makes before a person is asked
Prepare = Callable[[SandboxControl, Sequence[str]], None]  # sandbox, identities of the steps in their order


@dataclass(frozen=True, slots=True)
class Part:
    """`count` operations of one kind, and how the sandbox treats them."""

    name: str
    count: int
    workflow: str = FOLLOW_UP
    prepare: Prepare | None = None
    params: dict[str, Any] = field(default_factory=dict)
    by_webhook: int = 0  # deliveries of the same event; 0 = through the API
    body_changes: bool = False  # the last of these deliveries has another body


def _first(behaviour: str, count: int | None = 1, **options: Any) -> Prepare:
    """How the first step's request is treated."""

    def prepare(sandbox: SandboxControl, identities: Sequence[str]) -> None:
        sandbox.script(behaviour, count, method="POST", identity=identities[0], **options)

    return prepare


def _message(behaviour: str, count: int | None = 1, **options: Any) -> Prepare:
    """How the second step's request, the message, is treated."""

    def prepare(sandbox: SandboxControl, identities: Sequence[str]) -> None:
        sandbox.script(behaviour, count, method="POST", identity=identities[1], **options)

    return prepare


def _lost_and_hidden() -> Prepare:
    """The reply is lost after acting, and every planned search fails. A person who looks afterwards finds the record."""

    def prepare(sandbox: SandboxControl, identities: Sequence[str]) -> None:
        sandbox.script("lose_reply_after_acting", 1, method="POST", identity=identities[0])
        sandbox.script("error_before_acting", LOOKS_PLANNED, method="GET", identity=identities[0], status=503)

    return prepare


PARTS: tuple[Part, ...] = (
    Part("everything goes well", 14),
    Part("the same event is delivered three times", 6, by_webhook=3),
    Part("the same event comes again with another body", 1, by_webhook=2, body_changes=True),
    Part("the reply is lost, and a lookup finds the record", 6, prepare=_first("lose_reply_after_acting")),
    Part(
        "the request is lost, absence is proven, and it is sent again",
        3,
        prepare=_first("lose_reply_before_acting"),
    ),
    Part("a gateway gives up after the work was done", 3, prepare=_first("error_after_acting", status=504)),
    Part("busy for a moment", 3, prepare=_first("rate_limited", 1, retry_after="2")),
    Part("the connection is reset after acting", 2, prepare=_first("reset_after_acting")),
    Part("the reply is lost, and every search fails", 4, workflow=BRANCH, prepare=_lost_and_hidden()),
    Part(
        "the request is lost, and absence can't be proven",
        4,
        workflow=CLASSIC,
        prepare=_first("lose_reply_before_acting"),
    ),
    Part("somebody else's page answers", 2, workflow=CLASSIC, prepare=_first("not_json")),
    Part("the request is refused", 2, prepare=_first("invalid", 1, field="queue", message="does not exist")),
    Part("busy for too long", 2, workflow=CLASSIC, prepare=_first("rate_limited", 9, retry_after="1")),
    Part("the message's reply is lost", 2, prepare=_message("lose_reply_before_acting")),
    Part("the message bounces", 2, params={"email": "bounce.{number}@customers.example"}),
    Part("the key was used for something else", 1, prepare=_first("key_mismatch")),
)
DUPLICATED = Part("a proxy sent it twice", 2, workflow=CLASSIC, prepare=_first("lose_reply_after_acting"))
CHANGED = Part(
    "the record has another due date", 2, workflow=CLASSIC, prepare=_first("lose_reply_after_acting")
)
ENDED = Part(
    "the message bounces, an owner ends it, and then it is delivered",
    1,
    params={"email": "bounce.{number}@customers.example"},
)

COMPANIES = (
    "Alder Works", "Birch & Sons", "Cedar Lane", "Dune Optics", "Elm Street Press", "Fjord Foods", "Gable Roofing",
    "Heath Cycles", "Iris Labs", "Juniper Tools", "Kelp Kitchens", "Linden Freight",
)  # fmt: skip


def params_of(number: int, workflow: str, extra: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the demo's operation `number`."""
    company = COMPANIES[number % len(COMPANIES)]
    params: dict[str, Any] = {
        "campaign": "spring launch",
        "company": company,
        "account": f"ACC-{70_000_000 + number * 7919}",
        "subject": f"Call {company} about the spring launch",
        "queue": "launch-care",
        "due_date": f"2026-12-{1 + number % 27:02d}",
    }
    if workflow != CLASSIC:
        params |= {
            "email": f"contact.{number}@customers.example",
            "message_subject": "Thank you for your interest in our spring launch",
            "message_text": "Thank you for your answer. We will call you within two working days.",
        }
    return params | {name: value.format(number=number) for name, value in extra.items()}
