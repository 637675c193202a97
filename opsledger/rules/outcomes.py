"""From what was observed to the outcome of an attempt (rules.md, tables 1 and 2).

`classify` reads one send: first whether a complete reply came at all, then what the reply says. The table of
statuses is the default; a profile's `reply.meanings` stand above it where they name their source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from opsledger.rules import retry_after
from opsledger.rules.facts import SendFact, SmtpFact
from opsledger.rules.profile import ActionProfile, Meaning, ProtectionKind, ReplayMeaning, Reply
from opsledger.rules.reading import Absent, Unreadable, Value, at, read_json, reference_at, text_at
from opsledger.rules.states import NoChange, Outcome
from opsledger.rules.unanswered import left_without_reply, never_left
from opsledger.rules.words import lasted


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one attempt did, as far as this fact proves it."""

    outcome: Outcome
    why: str  # one machine word
    sentence: str  # the same for people
    no_change: NoChange | None = None  # set exactly when the outcome is `no_change`
    reference: str | None = None
    access_refused: bool = False  # stop sending to this destination
    integrity_alarm: bool = False  # this key was used with another request
    still_running: bool = False  # an earlier attempt is at work there; this one had no effect
    exists_reference: str | None = None  # the record that the reply names: to be fetched and matched
    replayed: bool = False  # the destination marks this as its stored answer
    settles_earlier: bool = False  # also an answer to the earlier attempts under the same key
    retry_after_seconds: float | None = None
    final_effect_pending: bool = False  # accepted, and the profile says how the final effect will be known
    items: tuple[Verdict, ...] = ()  # per item of the request, in its order


@dataclass(frozen=True, slots=True)
class _Answer:
    """A complete reply, or one item of it, as far as it could be read."""

    status: int
    who: str
    document: Value
    unreadable: str = ""  # why the body can't be read; "" when it can
    empty: bool = False
    html: bool = False
    stated: bool = False  # its meaning is the profile's, not the table's


_SUCCESSES = frozenset({Meaning.CONFIRMED, Meaning.ACCEPTED})
# Meanings that prove nothing, and so can't lead to a second effect.
_CAUTIOUS = frozenset({Meaning.UNKNOWN, Meaning.EXISTS_NAMED, Meaning.EXISTS_UNNAMED, Meaning.KEY_MISMATCH})
_REJECTED_STATUSES = frozenset(
    {307, 308, 400, 404, 405, 406, 410, 411, 413, 414, 415, 417, 422, 428, 431, 501, 505}
)
_BODYLESS_STATUSES = frozenset({204, 205})


def classify(
    fact: SendFact, profile: ActionProfile, *, now: datetime | None = None, item_count: int = 1
) -> Verdict:
    """The outcome of one attempt. Never raises, whatever the destination sent.

    1. Nothing left: `no_change`. Something left and no complete reply came: `unknown`.
    2. A complete reply is read by the profile's meanings, else by the default table.
    3. A reply that the destination replays settles nothing that was unknown.

    `now` (aware) dates a Retry-After that is an HTTP date; without it the reply's own Date does. `item_count`
    is the number of items in the request.
    """
    if not fact.complete or not fact.left or fact.status is None:
        return _unanswered(fact)
    answer = _read(fact, profile)
    if not _is_whole(answer, fact, profile):
        return _unknown(
            "reply_cut", f"{answer.who} answered {fact.status} and closed; the reply is not proven whole."
        )
    verdict = _replayed(_judge(answer, profile, item_count), answer, fact, profile)
    return replace(
        verdict,
        settles_earlier=_settles_earlier(verdict, profile),
        retry_after_seconds=_wait_seconds(fact, profile, now),
        final_effect_pending=verdict.outcome is Outcome.ACCEPTED and profile.final_effect is not None,
    )


def not_proven(lease_seconds: float) -> Verdict:
    """The lease ended and nothing was recorded: the request may or may not have been sent."""
    return _unknown("lease_ended", f"Nothing was heard before the lease of {lasted(lease_seconds)} ended.")


def classify_smtp(fact: SmtpFact) -> Verdict:
    """The outcome of handing over one message. The final dot is where the server takes it over."""
    said = f"The mail server answered {fact.code}" if fact.code else "The mail server gave no answer"
    lost = f"; then {fact.error}" if fact.error else ""
    when = "after" if fact.final_dot else "before"
    sentence = f"{said} {when} the message was complete{lost} ({lasted(fact.elapsed_seconds)})."
    refused = {4: NoChange.DEFERRED, 5: NoChange.REJECTED}.get((fact.code or 0) // 100)
    if refused:
        return Verdict(Outcome.NO_CHANGE, refused.value, sentence, no_change=refused)
    if not fact.final_dot:
        return Verdict(Outcome.NO_CHANGE, "not_sent", sentence, no_change=NoChange.NOT_SENT)
    if fact.code == 250:
        return Verdict(Outcome.ACCEPTED, "accepted", sentence)
    return _unknown("unclear_status" if fact.code else "no_reply", sentence)


# Table 1


def _unanswered(fact: SendFact) -> Verdict:
    proof = never_left(fact)
    if proof:
        return Verdict(Outcome.NO_CHANGE, proof.why, proof.sentence, no_change=NoChange.NOT_SENT)
    doubt = left_without_reply(fact)
    return _unknown(doubt.why, doubt.sentence)


def _is_whole(answer: _Answer, fact: SendFact, profile: ActionProfile) -> bool:
    """Whether a reply that ended with its connection is proven to be all of it."""
    required = profile.reply.required
    if fact.length_known:
        return True
    if required:
        return not answer.unreadable and not isinstance(at(answer.document, required), Absent | None)
    if 200 <= answer.status < 300 or _asks_body(answer.status, profile.reply):
        return not answer.unreadable  # JSON that parses has its own end
    return True


def _asks_body(status: int, reply: Reply) -> bool:
    return any(when.startswith(f"{status}:") for when, _ in reply.meanings)


# Reading a complete reply


def _read(fact: SendFact, profile: ActionProfile) -> _Answer:
    who = "The proxy" if fact.hop == "proxy" else "The destination"
    document: Value = None
    unreadable = ""
    try:
        document = read_json(fact.body)
    except Unreadable as why:
        unreadable = str(why)
    kind = (fact.header("content-type") or "").partition(";")[0].strip().lower()
    return _Answer(
        status=fact.status or 0,
        who=who,
        document=document,
        unreadable=unreadable,
        empty=not fact.body.strip(),
        html=kind in {"text/html", "application/xhtml+xml"} and fact.status not in _BODYLESS_STATUSES,
    )


def _judge(answer: _Answer, profile: ActionProfile, item_count: int) -> Verdict:
    reply = profile.reply
    if answer.unreadable and not answer.empty and _asks_body(answer.status, reply):
        return _unexpected(answer, answer.unreadable)  # what it means is said in there
    if _stated_meaning(answer, reply) is None and answer.status in {200, 207}:
        listed = at(answer.document, reply.items) if reply.items else None
        if isinstance(listed, list) and not answer.html:
            return _judge_items(listed, answer, reply, item_count)
        if answer.status == 207:
            return _unexpected(answer, "its results per item are not where they are expected")
    return _by_meaning(answer, reply)


def _by_meaning(answer: _Answer, reply: Reply) -> Verdict:
    stated = _stated_meaning(answer, reply)
    meaning = stated or _table_meaning(answer.status, reply)
    return _READINGS[meaning](meaning, replace(answer, stated=stated is not None), reply)


def _table_meaning(status: int, reply: Reply) -> Meaning:
    """Table 2, before any profile's word."""
    if 200 <= status < 300:
        return Meaning.ACCEPTED if reply.accepts_only or status == 202 else Meaning.CONFIRMED
    if status in {401, 403}:
        return Meaning.ACCESS_REFUSED
    if status in {425, 429}:
        return Meaning.DEFERRED
    if status == 412:
        return Meaning.PRECONDITION_FAILED
    return Meaning.REJECTED if status in _REJECTED_STATUSES else Meaning.UNKNOWN


def _stated_meaning(answer: _Answer, reply: Reply) -> Meaning | None:
    """The profile's word for this reply: first those that look into the body, then those for the status."""
    by_care = sorted(reply.meanings, key=lambda stated: ":" not in stated[0])
    fits = (meaning for when, meaning in by_care if _fits(when, answer))
    return next((meaning for meaning in fits if _may_say(meaning, answer, reply)), None)


def _fits(when: str, answer: _Answer) -> bool:
    status, colon, condition = when.partition(":")
    if status != str(answer.status):
        return False
    path, _, wanted = condition.partition("=")
    return not colon or (not answer.unreadable and text_at(answer.document, path) == wanted)


def _may_say(meaning: Meaning, answer: _Answer, reply: Reply) -> bool:
    """A redirect is never a success, and only a documented meaning may prove anything."""
    if meaning in _SUCCESSES and answer.status // 100 in {1, 3}:
        return False
    return meaning in _CAUTIOUS or (reply.source is not None and reply.source.confirmed)


# What a meaning makes of an answer


def _success(meaning: Meaning, answer: _Answer, reply: Reply) -> Verdict:
    """`confirmed` or `accepted`, if the body is what the profile expects of a success."""
    needs_body = not (meaning is Meaning.ACCEPTED and answer.status == 202)
    if answer.html:
        return _unexpected(answer, "a page for people")
    if answer.empty and needs_body and not reply.empty_ok:
        sentence = f"{answer.who} answered {answer.status} with an empty body, which proves nothing."
        return _unknown("empty_reply", sentence)
    if answer.empty:
        return _succeeded(meaning, answer, None)
    found = reference_at(answer.document, reply.reference)
    if found is None and needs_body and reply.reference:
        return _unexpected(answer, answer.unreadable or f"it lacks “{reply.reference}”")
    if answer.unreadable and needs_body and not answer.stated:
        return _unexpected(answer, answer.unreadable)
    return _succeeded(meaning, answer, found)


def _succeeded(meaning: Meaning, answer: _Answer, reference: str | None) -> Verdict:
    named = f" and named the record {reference}" if reference else ""
    said = f"{answer.who} answered {answer.status}{named}"
    if meaning is Meaning.ACCEPTED:
        return Verdict(
            Outcome.ACCEPTED, "accepted", f"{said}: taken over, not yet proven done.", reference=reference
        )
    return Verdict(Outcome.CONFIRMED, "confirmed", f"{said}.", reference=reference)


_NO_CHANGES = {
    Meaning.NOT_SENT: (NoChange.NOT_SENT, "it did not take the request up"),
    Meaning.DEFERRED: (NoChange.DEFERRED, "not now"),
    Meaning.REJECTED: (NoChange.REJECTED, "it refused the request"),
    Meaning.PRECONDITION_FAILED: (
        NoChange.REJECTED,
        "the record is not in the state that the request expects",
    ),
    Meaning.ACCESS_REFUSED: (NoChange.DEFERRED, "it does not let us in"),
    Meaning.STILL_RUNNING: (NoChange.DEFERRED, "an earlier request with this key is still at work"),
}


def _no_change(meaning: Meaning, answer: _Answer, reply: Reply) -> Verdict:
    kind, says = _NO_CHANGES[meaning]
    why = meaning.value
    if answer.status in {307, 308}:
        why, says = "redirected", "it has moved, so its address in the definition is wrong"
    return Verdict(
        Outcome.NO_CHANGE,
        why,
        f"{answer.who} answered {answer.status}: {says}. This request changed nothing.",
        no_change=kind,
        access_refused=meaning is Meaning.ACCESS_REFUSED,
        still_running=meaning is Meaning.STILL_RUNNING,
    )


_UNCLEAR = {3: "redirected", 4: "unclear_status", 5: "server_error"}


def _unclear(meaning: Meaning, answer: _Answer, reply: Reply) -> Verdict:
    why = "conflict" if answer.status == 409 else _UNCLEAR.get(answer.status // 100, "unexpected_answer")
    said = f"{answer.who} answered {answer.status}, which does not say whether the request took effect."
    return _unknown(why, said)


def _exists(meaning: Meaning, answer: _Answer, reply: Reply) -> Verdict:
    named = reference_at(answer.document, reply.exists_reference or reply.reference)
    said = f"{answer.who} answered {answer.status}"
    if meaning is Meaning.EXISTS_NAMED and named:
        unread = _unknown(
            "exists_named", f"{said}: the record {named} exists. Whether it is ours is to be read."
        )
        return replace(unread, exists_reference=named)
    return _unknown("exists_unnamed", f"{said}: it was used before, and the reply does not say for what.")


def _mismatch(meaning: Meaning, answer: _Answer, reply: Reply) -> Verdict:
    said = f"{answer.who} answered {answer.status}: this key was used with another request."
    return replace(
        _unknown("key_mismatch", f"{said} Something was done under it, and it was not this."),
        integrity_alarm=True,
    )


_READINGS: Mapping[Meaning, Callable[[Meaning, _Answer, Reply], Verdict]] = {
    Meaning.CONFIRMED: _success,
    Meaning.ACCEPTED: _success,
    Meaning.NOT_SENT: _no_change,
    Meaning.DEFERRED: _no_change,
    Meaning.REJECTED: _no_change,
    Meaning.ACCESS_REFUSED: _no_change,
    Meaning.STILL_RUNNING: _no_change,
    Meaning.PRECONDITION_FAILED: _no_change,
    Meaning.UNKNOWN: _unclear,
    Meaning.EXISTS_NAMED: _exists,
    Meaning.EXISTS_UNNAMED: _exists,
    Meaning.KEY_MISMATCH: _mismatch,
}


# Replies with several results


def _judge_items(listed: list[Value], answer: _Answer, reply: Reply, item_count: int) -> Verdict:
    """Each item by its own status; the step follows them only where all agree."""
    placed = _placed(listed, reply, item_count)
    items = tuple(_judge_item(placed.get(place), answer, reply) for place in range(item_count))
    if not items:
        return _unexpected(answer, "the request had no items")
    if len({(item.outcome, item.no_change) for item in items}) > 1:
        sentence = f"{answer.who} answered {answer.status}, and its {item_count} items did not end alike."
        return replace(_unknown("items_differ", sentence), items=items)
    references = {item.reference for item in items}
    return replace(
        items[0],
        reference=references.pop() if len(references) == 1 else None,
        access_refused=any(item.access_refused for item in items),
        integrity_alarm=any(item.integrity_alarm for item in items),
        still_running=all(item.still_running for item in items),
        items=items,
    )


def _placed(listed: list[Value], reply: Reply, item_count: int) -> dict[int, Value]:
    """Results by their place in the request: as they say, or in order when every item has one.

    A place that two results claim, or that the request does not have, makes all of them doubtful.
    """
    places = [text_at(item, reply.item_place) for item in listed]
    if not any(places):
        return dict(enumerate(listed)) if len(listed) == item_count else {}
    known = {str(place): place for place in range(item_count)}
    if len(set(places)) < len(places) or not all(place in known for place in places):
        return {}
    return {known[place]: item for place, item in zip(places, listed, strict=True) if place}


def _judge_item(item: Value, answer: _Answer, reply: Reply) -> Verdict:
    status = text_at(item, reply.item_status) or ""
    if not (len(status) == 3 and status.isascii() and status.isdigit()):
        return _unknown(
            "item_missing", f"{answer.who} answered {answer.status} and said nothing about this item."
        )
    return _by_meaning(_Answer(status=int(status), who=answer.who, document=item), reply)


# What goes for every reply


def _replayed(verdict: Verdict, answer: _Answer, fact: SendFact, profile: ActionProfile) -> Verdict:
    """A stored server error says nothing new, whatever a fresh one would mean."""
    if not _has_marker(fact, profile.protection.replay_marker):
        return verdict
    if answer.status >= 500:
        sentence = f"{answer.who} replayed its stored answer {answer.status}, which says nothing new."
        verdict = _unknown("replayed_error", sentence)
    return replace(verdict, replayed=True)


def _has_marker(fact: SendFact, marker: str) -> bool:
    """`Name` for a header that is there and not false, `Name=value` for one that says this."""
    name, says, wanted = marker.partition("=")
    value = fact.header(name.strip()) if name.strip() else None
    if value is None:
        return False
    found = value.strip().lower()
    return found == wanted.strip().lower() if says else found not in {"", "false", "0", "no"}


def _settles_earlier(verdict: Verdict, profile: ActionProfile) -> bool:
    """A success under the same key, or a stored refusal that is documented as the first attempt's answer."""
    protection = profile.protection
    if protection.kind is ProtectionKind.NONE:
        return False
    if verdict.outcome in {Outcome.CONFIRMED, Outcome.ACCEPTED}:
        return True
    stored = verdict.replayed and protection.replay is ReplayMeaning.FIRST_ANSWER
    return stored and verdict.no_change is NoChange.REJECTED


def _wait_seconds(fact: SendFact, profile: ActionProfile, now: datetime | None) -> float | None:
    at_reply = now or retry_after.http_date(fact.header("date") or "", None)
    return retry_after.parse(fact.header("retry-after"), at_reply, profile.retries.delay_max_seconds)


def _unknown(why: str, sentence: str) -> Verdict:
    return Verdict(Outcome.UNKNOWN, why, sentence)


def _unexpected(answer: _Answer, why: str) -> Verdict:
    said = f"{answer.who} answered {answer.status}, but not with its usual answer: {why}."
    return _unknown("unexpected_answer", said)
