"""What the same Idempotency-Key means: by mode, within its window."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from .act import Act, record_document
from .modes import KeyMode, Mode
from .refusal import Refused
from .store import KnownKey
from .wire import Reply, Request, json_reply, refusal_reply

MARKER = ("Idempotent-Replayed", "true")


def key_in_use(request: Request, mode: Mode) -> str | None:
    """The key that counts for this request. Raises Refused (400) for one that can't be used."""
    given = request.values("idempotency-key")
    if not given or mode.keys is KeyMode.IGNORE:
        return None
    if len(given) > 1 or not given[0]:
        raise Refused(400, "bad_key", "Nothing was done. Send one Idempotency-Key that is not empty.")
    if len(given[0]) > mode.key_length_max:
        raise Refused(
            400, "key_too_long", f"Nothing was done. A key has at most {mode.key_length_max} characters."
        )
    return given[0]


def recall(act: Act, key: str) -> Reply | None:
    """The answer that a known key gets; None when the request is to act."""
    known = act.store.known_key(scope(act.request), key)
    if known is None or known.request == act.number:
        return None
    act.replay_of = known.request
    if _has_expired(known, act):
        if act.mode.reuse_after_window == "refused":
            return used_reply(act.mode)
        act.replay_of = None
        act.store.forget_key(scope(act.request), key)
        return None
    if known.digest != digest(act.request) and act.mode.keys is not KeyMode.ANSWER_EVEN_IF_DIFFERENT:
        return mismatch_reply(act.mode)
    if known.running:
        return running_reply()
    reply = _REPEATS[act.mode.keys](act, known)
    if reply is None:
        act.replay_of = None
    return reply


def reserve(act: Act, key: str) -> None:
    """The key is in use from now on, by a request that acts later."""
    known = KnownKey(digest(act.request), act.number, act.now, True, None, None, None)
    act.store.keep_key(scope(act.request), key, known)


def keep(act: Act, key: str, meant: Reply, said: Reply | None = None) -> None:
    """Store the answer under the key, if the request had an effect or `said` is to be stored anyway.

    The window counts from the key's first arrival, not from here.
    """
    known = act.store.known_key(scope(act.request), key)
    if act.reference is None and said is None:
        if known is not None and known.running:
            act.store.forget_key(scope(act.request), key)
        return
    first_at = known.first_at if known else act.now
    stored = KnownKey(digest(act.request), act.number, first_at, False, act.reference, said or meant, meant)
    act.store.keep_key(scope(act.request), key, stored)


def scope(request: Request) -> str:
    return f"{request.method} {request.path}"


def digest(request: Request) -> str:
    return hashlib.sha256(request.body).hexdigest()


def running_reply(*headers: tuple[str, str]) -> Reply:
    message = "An earlier request with this key is still running. Nothing was done for this one."
    return refusal_reply(Refused(409, "request_in_progress", message), *headers)


def mismatch_reply(mode: Mode) -> Reply:
    message = "This key was used with other parameters. Nothing was done."
    return refusal_reply(Refused(mode.mismatch_status, "key_reused_with_other_parameters", message))


def used_reply(mode: Mode) -> Reply:
    return refusal_reply(Refused(mode.duplicate_status, "key_used", "This key was used. Nothing was done."))


def exists_reply(reference: str | None) -> Reply:
    """409 that names the record, or names nothing."""
    error = {"code": "already_exists", "message": "It exists already. Nothing was done."}
    if reference is not None:
        error["id"] = reference
    return json_reply(409, {"error": error})


def _has_expired(known: KnownKey, act: Act) -> bool:
    window_seconds = act.mode.key_window_seconds
    return window_seconds is not None and act.now >= known.first_at + window_seconds


def _marked(act: Act, reply: Reply | None) -> Reply | None:
    if reply is None or not act.mode.replay_marker:
        return reply
    return Reply(reply.status, reply.body, (*reply.headers, MARKER))


def _first_answer(act: Act, known: KnownKey) -> Reply | None:
    return _marked(act, known.said)


def _first_success(act: Act, known: KnownKey) -> Reply | None:
    return _marked(act, known.said) if known.said and known.said.succeeds else None


def _what_was_done(act: Act, known: KnownKey) -> Reply | None:
    return _marked(act, known.meant) if known.reference else None


def _current_state(act: Act, known: KnownKey) -> Reply | None:
    found = act.store.records("reference = ?", (known.reference,))
    return _marked(act, json_reply(200, record_document(found[0], act.now))) if found else None


def _error_with_reference(_: Act, known: KnownKey) -> Reply | None:
    return exists_reply(known.reference) if known.reference else None


def _error_without_reference(act: Act, _: KnownKey) -> Reply | None:
    return used_reply(act.mode)


_REPEATS: dict[KeyMode, Callable[[Act, KnownKey], Reply | None]] = {
    KeyMode.HONOUR: _what_was_done,
    KeyMode.REPLAY_FIRST: _first_answer,
    KeyMode.SUCCESS_ONLY: _first_success,
    KeyMode.CURRENT_STATE: _current_state,
    KeyMode.ERROR_WITH_REFERENCE: _error_with_reference,
    KeyMode.ERROR_WITHOUT_REFERENCE: _error_without_reference,
    KeyMode.ANSWER_EVEN_IF_DIFFERENT: _first_answer,
}
