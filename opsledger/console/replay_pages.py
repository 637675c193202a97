"""A plan and a replay as pages need them: rows, counts and words, made before a template sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console import desk
from opsledger.console.addresses import address
from opsledger.console.vocabulary import rows_of, shown
from opsledger.console.wording.protection import ProtectionWords
from opsledger.ledger.queries.replays import DestinationPace, ItemLine, ReplayLine
from opsledger.ledger.replay_plan import Difference, Plan, PlanItem
from opsledger.lib import ids
from opsledger.lib.csv_lines import Cell
from opsledger.rules.replay_words import OPEN_REPLAYS, ReplayState
from opsledger.rules.replays import Reason, Verdict, VerdictKind
from opsledger.rules.states import HoldReason

SHOWN_MAX = 100  # rows of each list; the file has all of them


# A plan


def plan_context(plan: Plan, frozen: str, query: str, now: datetime) -> dict[str, Any]:
    """The three lists, what the plan touches and what it runs with."""
    running, kept, refused = plan.running, plan.kept, plan.refused
    return {
        "plan": plan,
        "public": ids.public("rpl", plan.id),
        "frozen": frozen,
        "digest": plan.digest(),
        "query": query,
        "running": [_running(item, now) for item in running[:SHOWN_MAX]],
        "kept": [_kept(item) for item in kept[:SHOWN_MAX]],
        "refused": [_refused(item) for item in refused[:SHOWN_MAX]],
        "running_count": len(running),
        "kept_count": len(kept),
        "refused_count": len(refused),
        "operation_count": len({item.operation_id for item in plan.items}),
        "shown_max": SHOWN_MAX,
        "why_running": _counted(running),
        "why_refused": _counted(refused),
        "by_itself_count": sum(1 for item in running if _goes_by_itself(item.verdict)),
        "newer": [
            {"line": one, "url": f"{reverse('plan_replay')}?{_with_newest(query, one.slug)}"}
            for one in plan.destinations
            if one.open_older_count and not one.takes_newest
        ],
        "now": now,
    }


def _with_newest(query: str, slug: str) -> str:
    return f"{query}{'&' if query else ''}{urlencode({'newest': slug})}"


def _goes_by_itself(verdict: Verdict) -> bool:
    return verdict.kind is VerdictKind.SEND and verdict.answer is None


def _counted(items: Iterable[PlanItem]) -> list[tuple[str, int]]:
    """How often each reason is given, most frequent first. Details are kept where they tell reasons apart."""
    counts = Counter(_reason_words(item.verdict) for item in items)
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _reason_words(verdict: Verdict) -> str:
    if verdict.reason is Reason.HELD:
        return _("A person is asked: %(reason)s") % {"reason": shown(HoldReason(verdict.detail)).word}
    return _(REASONS[verdict.reason])


# Short words of each reason; the sentence with its details stands in the row.
REASONS: Mapping[Reason, str] = {
    Reason.CONFIRMED: noop("Confirmed"),
    Reason.ACCEPTED: noop("Accepted"),
    Reason.SKIPPED: noop("Skipped"),
    Reason.NEVER_SENT: noop("Never sent; the engine sends it by itself"),
    Reason.NO_CHANGE: noop("No change so far; the engine tries again by itself"),
    Reason.REJECTED: noop("Rejected by the destination"),
    Reason.TRIES_USED_UP: noop("Tries used up; one more is granted"),
    Reason.NOBODY_CLAIMED: noop("Nobody claimed it; offered again"),
    Reason.TOO_LATE: noop("Past its latest moment; sent late"),
    Reason.STATED_ABSENT: noop("Did not happen, says the provider; sent again"),
    Reason.PROTECTED: noop("Unknown; again under protection"),
    Reason.CAN_BE_ASKED: noop("Unknown; the destination is asked first"),
    Reason.AFTER_A_STEP_THAT_RUNS: noop("Follows an earlier step that runs"),
    Reason.AFTER_A_STEP_THAT_STANDS: noop("Waits behind an earlier step that does not run"),
    Reason.IN_FLIGHT: noop("In flight"),
    Reason.HELD: noop("A person is asked"),
    Reason.OTHER_REPLAY: noop("Part of another open replay"),
    Reason.ENDED_BY_PERSON: noop("Ended as failed by a person"),
    Reason.NOT_DELIVERED: noop("Not delivered; a new operation replaces it"),
    Reason.NEVER_KNOWN: noop("Closed as never known"),
    Reason.CANCELLED: noop("Cancelled"),
    Reason.OPERATION_CANCELLED: noop("Its operation was cancelled"),
    Reason.REPLACED: noop("Another operation replaces it"),
    Reason.DATA_MISSING: noop("Its request lacks data"),
    Reason.NEEDS_DECISION: noop("Unknown; neither protected nor to be asked"),
    Reason.FOUND: noop("Found or named, against the statement"),
}


def _row(item: PlanItem) -> dict[str, Any]:
    return {
        "title": item.step_title,
        "number": item.number,
        "destination": item.destination,
        "text_id": item.operation_text_id,
        "url": operation_url(item.operation_id, item.hold_id),
        "sentence": item.verdict.sentence,
        "reference": item.verdict.reference,
    }


def _running(item: PlanItem, now: datetime) -> dict[str, Any]:
    return _row(item) | {"protection": protection_of(item, now), "by_itself": _goes_by_itself(item.verdict)}


def protection_of(item: PlanItem, now: datetime) -> ProtectionWords:
    """What a second effect is kept off by, and until when."""
    if item.verdict.kind is VerdictKind.LOOK_FIRST:
        return ProtectionWords("protected", _("Sent only after its absence is proven"))
    words = desk.protection_words(
        item.protected,
        state=None,
        attempts=item.attempt_count,
        may_have_had_effect=item.verdict.kind is VerdictKind.SEND_PROTECTED
        or item.verdict.reason is Reason.STATED_ABSENT,
        accepted=False,
        now=now,
    )
    return words or ProtectionWords("protected", _("Nothing was sent"))


def _kept(item: PlanItem) -> dict[str, Any]:
    state = {Reason.CONFIRMED: "confirmed", Reason.ACCEPTED: "accepted"}.get(item.verdict.reason, "skipped")
    return _row(item) | {"state": state}


_SHAPES = {
    Reason.IN_FLIGHT: noop("in-flight"),
    Reason.CANCELLED: noop("cancelled"),
    Reason.OPERATION_CANCELLED: noop("cancelled"),
    Reason.ENDED_BY_PERSON: noop("failed"),
    Reason.NOT_DELIVERED: noop("delivery-failed"),
    Reason.NEVER_KNOWN: noop("closed-unknown"),
    Reason.AFTER_A_STEP_THAT_STANDS: noop("waiting"),
    Reason.DATA_MISSING: noop("data-missing"),
    Reason.NEEDS_DECISION: noop("unknown"),
    Reason.FOUND: noop("disputed"),
}


def _refused(item: PlanItem) -> dict[str, Any]:
    verdict = item.verdict
    shape = _SHAPES.get(verdict.reason, "held")
    if verdict.reason is Reason.HELD:
        shape = shown(HoldReason(verdict.detail)).shape
    return _row(item) | {"shape": shape, "has_hold": item.hold_id is not None}


def difference_rows(moved: list[Difference]) -> list[dict[str, Any]]:
    return [
        _row(one.item) | {"was": one.was.sentence, "now": one.item.verdict.sentence}
        for one in moved[:SHOWN_MAX]
    ]


def operation_url(operation_id: Any, hold_id: Any = None) -> str:
    operation = address("operation", ids.public("op", operation_id))
    return f"{operation}?hold={ids.public('hold', hold_id)}#decide" if hold_id else operation


PLAN_HEADER = (
    "operation_id", "operation", "title", "step", "step_title", "destination", "verdict", "reason", "says",
    "protected_until", "reference",
)  # fmt: skip


def plan_cells(plan: Plan) -> Iterator[list[Cell]]:
    for item in plan.items:
        verdict = item.verdict
        yield [
            item.operation_text_id, ids.public("op", item.operation_id), item.title, item.number, item.step_title,
            item.destination, verdict.kind.value, verdict.reason.value, verdict.sentence, verdict.until,
            verdict.reference,
        ]  # fmt: skip


# A replay


_BESIDE = (
    ("accepted", noop("accepted")),
    ("held", noop("held")),
    ("closed_unknown", noop("closed as never known")),
    ("failed", noop("failed")),
)


def replay_row(line: ReplayLine) -> dict[str, Any]:
    counts = line.counts
    return {
        "url": address("replay", ids.public("rpl", line.id)),
        "public": ids.public("rpl", line.id),
        "line": line,
        "recovered": counts["recovered"],
        "open": line.open_count,
        "others": [(_(words), counts[word]) for word, words in _BESIDE if counts[word]],
    }


def progress_context(line: ReplayLine, paces: list[DestinationPace]) -> dict[str, Any]:
    """What the polled part shows; it stops when the replay has ended."""
    counts = line.counts
    return {
        "line": line,
        "public": ids.public("rpl", line.id),
        "is_open": line.state in OPEN_REPLAYS,
        "counts": [(row.value, row.word, counts[row.value]) for row in rows_of("item") if counts[row.value]],
        "stopped": [one for one in paces if one.stopped and line.state in OPEN_REPLAYS],
    }


def replay_context(
    line: ReplayLine, paces: list[DestinationPace], found: list[ItemLine], *, word: str, size: int
) -> dict[str, Any]:
    rows = [item_row(one) for one in found[:size]]
    open_ = line.state in OPEN_REPLAYS
    return progress_context(line, paces) | {
        "paces": paces,
        "rows": rows,
        "word": word,
        "next_after": found[size - 1].position if len(found) > size else None,
        "can_pause": line.state is ReplayState.RUNNING,
        "can_resume": line.state is ReplayState.PAUSED,
        "can_abort": open_ and line.state is not ReplayState.ABORTING,
    }


def item_row(item: ItemLine) -> dict[str, Any]:
    return {
        "position": item.position,
        "title": item.step_title,
        "number": item.number,
        "destination": item.destination,
        "text_id": item.operation_text_id,
        "url": operation_url(item.operation_id, item.hold_id),
        "word": item.word,
        "what": said_words(item),
        "reference": item.reference,
        "rebound_to": item.rebound_to,
        "ended": item.ended_at,
        "started": item.started_at,
    }


def said_words(item: ItemLine) -> str:
    """What there is to say about an item beside its word: the question it waits at, what moved, why it could not run."""
    kind, _sep, detail = item.said.partition(":")
    if kind == "moved":
        known = {reason.value for reason in Reason}
        if detail == "could_not_be_begun":
            return _("Its record could not be read, so it was left alone. Tell whoever runs OpsLedger.")
        what = _(REASONS[Reason(detail)]) if detail in known else detail.replace("_", " ")
        return _("Changed since the plan. By then: %(what)s") % {"what": what}
    if item.said in {reason.value for reason in HoldReason}:
        return shown(HoldReason(item.said)).word
    return item.said.replace("_", " ") or item.verdict.sentence


REPORT_HEADER = (
    "position", "operation_id", "operation", "title", "step", "step_title", "destination", "planned", "why", "state",
    "result", "said", "reference", "definition_version_chosen", "started_at", "ended_at",
)  # fmt: skip


def report_cells(items: Iterable[ItemLine]) -> Iterator[list[Cell]]:
    for item in items:
        yield [
            item.position, item.operation_text_id, ids.public("op", item.operation_id), item.title, item.number,
            item.step_title, item.destination, item.verdict.kind.value, item.verdict.sentence, item.state.value,
            item.result.value if item.result else "", item.said, item.reference, item.rebound_to, item.started_at,
            item.ended_at,
        ]  # fmt: skip
