"""What the peer can do with a request: every behaviour with its sentence, what it fits, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .options import (
    Option,
    anything,
    choice,
    flag,
    header_text,
    list_of,
    number,
    perhaps,
    read_options,
    text,
    whole,
)
from .refusal import invalid

DAY_SECONDS = 86_400
YEAR_SECONDS = 366 * DAY_SECONDS


class Behaviour(StrEnum):
    ANSWER = "answer"
    LOSE_REPLY_AFTER_ACTING = "lose_reply_after_acting"
    LOSE_REPLY_BEFORE_ACTING = "lose_reply_before_acting"
    RESET_AFTER_ACTING = "reset_after_acting"
    SILENCE_AFTER_ACTING = "silence_after_acting"
    ACT_LATE = "act_late"
    ERROR_AFTER_ACTING = "error_after_acting"
    ERROR_BEFORE_ACTING = "error_before_acting"
    CUT_REPLY = "cut_reply"
    CUT_HEADERS = "cut_headers"
    MISSING_LAST_CHUNK = "missing_last_chunk"
    CLOSE_DELIMITED = "close_delimited"
    DRIP = "drip"
    EMPTY_SUCCESS = "empty_success"
    NOT_JSON = "not_json"
    WRONG_SHAPE = "wrong_shape"
    CONFLICT_RUNNING = "conflict_running"
    CONFLICT_EXISTS_NAMED = "conflict_exists_named"
    CONFLICT_EXISTS_UNNAMED = "conflict_exists_unnamed"
    KEY_MISMATCH = "key_mismatch"
    RATE_LIMITED = "rate_limited"
    UNAUTHORISED = "unauthorised"
    FORBIDDEN = "forbidden"
    INVALID = "invalid"
    REDIRECT = "redirect"
    TOO_LARGE = "too_large"
    MULTI = "multi"
    ACT_TWICE = "act_twice"
    ACT_WITH_DIFFERENCE = "act_with_difference"
    EARLY_ANSWER = "early_answer"
    FIND_LATE = "find_late"


class Fits(StrEnum):
    """Which requests a behaviour can be used on; on others a rule does not match."""

    ANY = "any"
    WRITES = "writes"  # POST, PUT, PATCH
    CREATES = "creates"  # POST


class Acts(StrEnum):
    """Whether the request takes effect."""

    YES = "yes"
    NO = "no"
    LATER = "later"
    OPTION = "by option"


@dataclass(frozen=True, slots=True)
class Description:
    sentence: str
    acts: Acts
    fits: Fits = Fits.ANY
    options: tuple[Option, ...] = ()


def _status(default: int, *allowed: int) -> Option:
    return Option("status", choice(*allowed), default, "the status sent")


def _act(default: bool) -> Option:
    return Option("act", flag, default, "whether the request takes effect first")


_SPAN = number(0, YEAR_SECONDS)
_ERRORS = _status(500, 500, 501, 502, 503, 504, 599)
_RETRY_AFTER = Option("retry_after", perhaps(header_text), None, "sent as Retry-After, byte for byte")

DESCRIPTIONS: dict[Behaviour, Description] = {
    Behaviour.ANSWER: Description(
        "Acts and answers, as a well-behaved peer does.",
        Acts.YES,
        options=(
            Option("seconds", _SPAN, 0.0, "how long it works before it acts; its key is in use meanwhile"),
        ),
    ),
    Behaviour.LOSE_REPLY_AFTER_ACTING: Description(
        "Reads the whole request, acts, and closes without a reply.", Acts.YES
    ),
    Behaviour.LOSE_REPLY_BEFORE_ACTING: Description(
        "Reads the whole request and closes without acting or answering.", Acts.NO
    ),
    Behaviour.RESET_AFTER_ACTING: Description("Acts, then resets the connection (RST).", Acts.YES),
    Behaviour.SILENCE_AFTER_ACTING: Description(
        "Acts and says nothing: the connection stays open until the client leaves.",
        Acts.YES,
        options=(
            Option("seconds", perhaps(_SPAN), None, "give up the silence after this many seconds"),
            Option("answer", flag, False, "answer when the silence ends, instead of closing"),
        ),
    ),
    Behaviour.ACT_LATE: Description(
        "Answers nothing and acts later; its key is in use until then.",
        Acts.LATER,
        Fits.WRITES,
        (
            Option("seconds", _SPAN, 5.0, "when it acts, counted on the peer's clock"),
            Option(
                "status", perhaps(choice(500, 502, 503, 504)), None, "answer this at once, as a gateway would"
            ),
            Option("hold", flag, False, "keep the connection open in silence until it acts"),
        ),
    ),
    Behaviour.ERROR_AFTER_ACTING: Description(
        "Acts, then answers a server error.",
        Acts.YES,
        options=(
            _ERRORS,
            _RETRY_AFTER,
            Option(
                "stored", perhaps(flag), None, "keep the error as the key's answer; null: only a 500 is kept"
            ),
        ),
    ),
    Behaviour.ERROR_BEFORE_ACTING: Description(
        "Answers a server error and does nothing.",
        Acts.NO,
        options=(
            _status(503, 408, 425, 500, 501, 502, 503, 504, 599),
            _RETRY_AFTER,
            Option("stored", flag, False, "keep the error as the key's answer"),
        ),
    ),
    Behaviour.CUT_REPLY: Description(
        "Acts, announces a body and closes before all of it was sent.",
        Acts.YES,
        options=(
            Option(
                "sent", perhaps(whole(0, 1 << 26)), None, "bytes of the body that are sent; null: half of it"
            ),
        ),
    ),
    Behaviour.CUT_HEADERS: Description("Acts and closes in the middle of the reply's headers.", Acts.YES),
    Behaviour.MISSING_LAST_CHUNK: Description(
        "Acts, answers in chunks and closes without the last one.", Acts.YES
    ),
    Behaviour.CLOSE_DELIMITED: Description(
        "Acts and answers without a length: the end of the connection ends the body.",
        Acts.YES,
        options=(
            Option(
                "sent", perhaps(whole(0, 1 << 26)), None, "bytes of the body that are sent; null: all of it"
            ),
        ),
    ),
    Behaviour.DRIP: Description(
        "Acts and answers one byte at a time.",
        Acts.YES,
        options=(Option("interval", number(0, 3600), 0.5, "real seconds between two bytes"),),
    ),
    Behaviour.EMPTY_SUCCESS: Description(
        "Acts and answers a success without a body.",
        Acts.YES,
        options=(
            _status(204, 200, 201, 204),
            Option("location", flag, False, "name the record in a Location header"),
            Option("whitespace", flag, False, "send a body of white space (200 and 201)"),
        ),
    ),
    Behaviour.NOT_JSON: Description(
        "Answers 200 with somebody's sign-in page.",
        Acts.OPTION,
        options=(
            _act(False),
            Option("content_type", header_text, "text/html; charset=utf-8", "what the page claims to be"),
        ),
    ),
    Behaviour.WRONG_SHAPE: Description(
        "Answers a success in JSON that lacks the id.", Acts.OPTION, options=(_act(True),)
    ),
    Behaviour.CONFLICT_RUNNING: Description(
        "Answers 409: an earlier request with this key is still running.",
        Acts.NO,
        options=(_RETRY_AFTER,),
    ),
    Behaviour.CONFLICT_EXISTS_NAMED: Description(
        "Answers 409 and names the record that has this identity; makes one first if there is none.",
        Acts.OPTION,
        Fits.WRITES,
        (
            Option("id", perhaps(text(200)), None, "name this record instead, and do nothing"),
            Option("act", flag, True, "make the record if none has this identity"),
        ),
    ),
    Behaviour.CONFLICT_EXISTS_UNNAMED: Description(
        "Answers 409: it exists already, without saying which record.",
        Acts.OPTION,
        Fits.WRITES,
        (_act(False),),
    ),
    Behaviour.KEY_MISMATCH: Description(
        "Answers that the key was used with other parameters (status by mode, 422 at first).", Acts.NO
    ),
    Behaviour.RATE_LIMITED: Description(
        "Answers 429.",
        Acts.NO,
        options=(
            Option(
                "retry_after", perhaps(header_text), "1", "sent as Retry-After, byte for byte; null: none"
            ),
        ),
    ),
    Behaviour.UNAUTHORISED: Description("Answers 401.", Acts.NO),
    Behaviour.FORBIDDEN: Description("Answers 403.", Acts.NO),
    Behaviour.INVALID: Description(
        "Answers that the request is wrong, with field errors.",
        Acts.NO,
        options=(
            Option("status", whole(400, 499), 422, "the status sent"),
            Option("field", text(200), "subject", "the field that is named"),
            Option("message", text(), "is not accepted", "what is said about it"),
        ),
    ),
    Behaviour.REDIRECT: Description(
        "Answers with a redirect.",
        Acts.OPTION,
        options=(
            _status(302, 300, 301, 302, 303, 307, 308),
            Option("location", header_text, "/elsewhere", "where it points"),
            _act(False),
        ),
    ),
    Behaviour.TOO_LARGE: Description(
        "Acts and answers with a huge body; the id comes first.",
        Acts.YES,
        options=(Option("bytes", whole(1, 1 << 30), 1 << 20, "size of the padding"),),
    ),
    Behaviour.MULTI: Description(
        "Answers with one result per item; the first is this request, and it acts if that one says 2xx.",
        Acts.OPTION,
        Fits.CREATES,
        (
            _status(207, 200, 207),
            Option(
                "statuses",
                list_of(perhaps(whole(200, 599)), 100),
                (201,),
                "status per item; null: that item is missing from the reply",
            ),
        ),
    ),
    Behaviour.ACT_TWICE: Description(
        "Acts twice: two records carry this identity afterwards. Answers with the first.",
        Acts.YES,
        Fits.CREATES,
    ),
    Behaviour.ACT_WITH_DIFFERENCE: Description(
        "Acts, but writes another value into one field.",
        Acts.YES,
        Fits.WRITES,
        (
            Option("field", text(200), "due_date", "the field that differs"),
            Option("value", anything, "1970-01-01", "what is written there"),
        ),
    ),
    Behaviour.EARLY_ANSWER: Description(
        "Answers before the body was read, and closes. Does nothing.",
        Acts.NO,
        Fits.WRITES,
        (
            Option(
                "status", perhaps(whole(200, 599)), 413, "the status sent; null: closes without an answer"
            ),
            Option("reset", flag, False, "close at once with the body unread, which resets the connection"),
        ),
    ),
    Behaviour.FIND_LATE: Description(
        "Acts and answers; searches find the record only later.",
        Acts.YES,
        Fits.CREATES,
        (
            Option("seconds", _SPAN, 30.0, "how long searches miss it, on the peer's clock"),
            Option("reads", flag, False, "hide it from reads by id too"),
        ),
    ),
}


def read_behaviour(name: Any, options: Mapping[str, Any], at: str = "") -> tuple[Behaviour, dict[str, Any]]:
    """A behaviour by its name and its options, defaults filled in. Raises Refused (422)."""
    try:
        behaviour = Behaviour(name)
    except ValueError:
        names = ", ".join(Behaviour)
        raise invalid([(f"{at}behaviour", f"{name!r} is not one of {names}")]) from None
    return behaviour, read_options(DESCRIPTIONS[behaviour].options, options, f"{at}options.")


def fits(behaviour: Behaviour, method: str) -> bool:
    wanted = DESCRIPTIONS[behaviour].fits
    if wanted is Fits.ANY:
        return True
    return method == "POST" or (wanted is Fits.WRITES and method in ("PUT", "PATCH"))


def default_options(behaviour: Behaviour) -> dict[str, Any]:
    return {option.name: option.default for option in DESCRIPTIONS[behaviour].options}
