"""How the peer treats keys, searches and mail in general. One immutable value, replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from .behaviours import YEAR_SECONDS
from .options import Option, choice, flag, number, perhaps, read_options, text, whole


class KeyMode(StrEnum):
    """What the same key means, once a request with it was seen."""

    HONOUR = "honour"
    IGNORE = "ignore"
    REPLAY_FIRST = "replay_first"
    SUCCESS_ONLY = "success_only"
    CURRENT_STATE = "current_state"
    ERROR_WITH_REFERENCE = "error_with_reference"
    ERROR_WITHOUT_REFERENCE = "error_without_reference"
    ANSWER_EVEN_IF_DIFFERENT = "answer_even_if_different"


KEY_MODES: dict[KeyMode, str] = {
    KeyMode.HONOUR: "One effect per key. What acted is answered as done, though the first reply was an error;"
    " what did not act is done now.",
    KeyMode.IGNORE: "The key is ignored: every request acts.",
    KeyMode.REPLAY_FIRST: "The first answer is stored and replayed, a stored 500 included.",
    KeyMode.SUCCESS_ONLY: "Only a 2xx is stored and replayed; after an error the same key acts again,"
    " even if the error came after the effect.",
    KeyMode.CURRENT_STATE: "One effect per key; a repeat is answered 200 with the record as it is now.",
    KeyMode.ERROR_WITH_REFERENCE: "A repeat is refused with 409 and the id of the first record.",
    KeyMode.ERROR_WITHOUT_REFERENCE: "A repeat is refused: the key was used. It does not say for what.",
    KeyMode.ANSWER_EVEN_IF_DIFFERENT: "The first answer is replayed, even when the parameters differ.",
}

# A profile's word for what a replay means (rules/profile.py), and the mode that plays it.
MODE_FOR_REPLAY: dict[str, KeyMode] = {
    "first_answer": KeyMode.REPLAY_FIRST,
    "first_success_only": KeyMode.SUCCESS_ONLY,
    "reruns_failed": KeyMode.HONOUR,
    "current_state": KeyMode.CURRENT_STATE,
    "error_with_reference": KeyMode.ERROR_WITH_REFERENCE,
    "error_without_reference": KeyMode.ERROR_WITHOUT_REFERENCE,
    "answer_even_if_different": KeyMode.ANSWER_EVEN_IF_DIFFERENT,
}


@dataclass(frozen=True, slots=True)
class Mode:
    keys: KeyMode = KeyMode.HONOUR
    key_window_seconds: float | None = 86_400.0
    key_length_max: int = 255
    mismatch_status: int = 422
    duplicate_status: int = 409
    reuse_after_window: str = "acts_again"
    replay_marker: bool = True
    external_id_unique: str = "no"
    search_lag_seconds: float = 0.0
    mail_search_lag_seconds: float = 0.0
    page_size: int = 5
    mail_delivery_seconds: float = 1.0
    mail_outcome: str = "delivered"
    report_url: str | None = None
    report_secret: str = field(default="sandbox-report-secret", repr=False)
    report_copies: int = 1

    def document(self) -> dict[str, Any]:
        """As shown by the control; the secret is left out."""
        shown = asdict(self)
        del shown["report_secret"]
        return shown


def _key_mode(value: Any) -> KeyMode:
    try:
        return KeyMode(value)
    except ValueError:
        raise ValueError("must be one of " + ", ".join(KeyMode)) from None


def _report_url(value: Any) -> str:
    url = text(2_000)(value)
    if not url.startswith(("http://", "https://")) or any(char <= " " for char in url):
        raise ValueError("must be an http:// or https:// address")
    return str(url)


_SPAN = number(0, YEAR_SECONDS)
_SENTENCES: dict[str, tuple[Any, str]] = {
    "keys": (_key_mode, "what the same Idempotency-Key means; see the table of key modes"),
    "key_window_seconds": (
        perhaps(_SPAN),
        "how long a key is remembered, from its first arrival; null: for ever",
    ),
    "key_length_max": (whole(1, 10_000), "a longer key is refused with 400"),
    "mismatch_status": (choice(400, 409, 422), "answer to a known key with other parameters"),
    "duplicate_status": (choice(400, 409, 422), "answer to a used key under error_without_reference"),
    "reuse_after_window": (
        choice("acts_again", "refused"),
        "a key sent again after its window: a new action, or refused as used",
    ),
    "replay_marker": (flag, "mark replayed answers with Idempotent-Replayed: true"),
    "external_id_unique": (
        choice("no", "named", "unnamed"),
        "a create with an external_id that exists: makes another, or 409 with or without its id",
    ),
    "search_lag_seconds": (_SPAN, "how long searches miss a new task"),
    "mail_search_lag_seconds": (_SPAN, "how long searches miss a new message"),
    "page_size": (whole(1, 1_000), "records per page of a search"),
    "mail_delivery_seconds": (_SPAN, "from queued to the final state"),
    "mail_outcome": (
        choice("delivered", "bounced", "never"),
        "how messages end; an address that begins with bounce always bounces",
    ),
    "report_url": (perhaps(_report_url), "where delivery reports are posted; null: nowhere"),
    "report_secret": (text(500), "signs the delivery reports"),
    "report_copies": (whole(1, 5), "how many times each report is posted"),
}
OPTIONS: tuple[Option, ...] = tuple(
    Option(one.name, _SENTENCES[one.name][0], getattr(Mode(), one.name), _SENTENCES[one.name][1])
    for one in fields(Mode)
)


def changed(mode: Mode, changes: Mapping[str, Any]) -> Mode:
    """The mode with these changes. Raises Refused (422) that names unknown and wrong ones."""
    values = read_options(OPTIONS, {**asdict(mode), **changes})
    return Mode(**values)
