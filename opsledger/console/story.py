"""The timeline: entries of the journal as items that people read, newest first, and what is planned above them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.utils.translation import ngettext

from opsledger.console import wording
from opsledger.console.duplicates import extra_records
from opsledger.console.templatetags.ops import words_of_span
from opsledger.ledger.queries.page import OperationView, StepView
from opsledger.ledger.queries.timeline import EvidenceLine, Told
from opsledger.lib import ids
from opsledger.rules.record import Act
from opsledger.rules.states import HoldReason

SHOWN = {
    "everything": noop("Everything"),
    "decisions": noop("Decisions"),
    "lookups": noop("Lookups"),
    "attempts": noop("Attempts"),
}


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the strip. `state` gives its hue; `about` are categories of the filter."""

    at: datetime
    icon: str
    title: str
    about: str = ""
    state: str = ""
    badge: tuple[str, str] | None = None  # state and kind
    text: str = ""
    quotes: tuple[tuple[str, str], ...] = ()  # label, text
    facts: tuple[tuple[str, str], ...] = ()  # label, identifier or value
    evidence_id: str = ""
    key: str = ""
    more: tuple[Item, ...] = ()  # earlier ones in a row that say the very same


@dataclass(frozen=True, slots=True)
class Planned:
    """What the machine does next, above *Now*."""

    at: datetime | None
    title: str
    text: str
    step: int
    checks: bool


FOLDED_FROM = 3  # lookups in a row that say the same


def folded(items: Iterable[Item]) -> list[Item]:
    """The items with lookups that say the same folded into the newest of each row; nothing is left out."""
    shown: list[Item] = []
    for _same, row in groupby(items, key=lambda item: (item.icon, item.title, item.text, item.badge)):
        several = list(row)
        if several[0].icon == "search" and len(several) >= FOLDED_FROM:
            shown.append(replace(several[0], more=tuple(several[1:])))
        else:
            shown += several
    return shown


@dataclass(slots=True)
class Teller:
    """Tells entries of one operation. `names` are those of actors, by actor."""

    view: OperationView
    evidence: Mapping[str, EvidenceLine]
    names: Mapping[str, str]
    _ended: dict[str, Told] = field(default_factory=dict)

    def items(self, told: Iterable[Told]) -> list[Item]:
        """Newest first. An attempt’s opening and its end are one item when nothing happened between them."""
        entries = list(told)
        items: list[Item] = []
        for index, entry in enumerate(entries):
            older = entries[index + 1] if index + 1 < len(entries) else None
            if entry.kind in {"attempt_ended", "lease_ended"} and _opens(older, entry):
                items += self._around(entry)
                self._ended[str(entry.body.get("attempt"))] = entry
                continue
            items += self._around(entry)
            items.append(self._tell(entry))
        return items

    def _around(self, entry: Told) -> list[Item]:
        """What an entry brought with it: the operation’s end, holds that it opened."""
        around = []
        state = entry.body.get("state")
        if entry.kind != "operation_recorded" and state in _ENDS:
            around.append(
                Item(
                    entry.at,
                    _END_SHAPES[state],
                    _(_ENDS[state]),
                    state=_END_SHAPES[state],
                    key=f"{entry.seq}-end",
                )
            )
        for hold_id, hold in (entry.body.get("holds") or {}).items():
            if hold is not None:
                reason = HoldReason(hold["reason"])
                title = _("Hold opened: %(reason)s") % {"reason": wording.reason_word(reason)}
                step = _("Step %(number)s") % {"number": hold["step"]}
                if given := (entry.body.get("given") or {}).get(hold_id):
                    step = f"{step}. {self._by_rule(given)}"
                around.append(
                    Item(entry.at, "held", title, state="held", text=step, key=f"{entry.seq}-h{hold['step']}")
                )
        return around

    def _by_rule(self, given: Mapping[str, Any]) -> str:
        """Whom a rule gave a hold to when it opened."""
        return _("Given to %(name)s by assignment rule %(number)s.") % {
            "name": self.names.get(f"person:{given['owner']}", _("somebody")),
            "number": given["position"],
        }

    def _tell(self, entry: Told) -> Item:
        teller = _TELLERS.get(entry.kind)
        item = teller(self, entry) if teller else self._other(entry)
        if not entry.body.get("bulk"):
            return item
        run = (_("Bulk run"), ids.public("run", UUID(str(entry.body["bulk"]))))
        return replace(item, facts=(*item.facts, run))

    def name(self, actor: str) -> str:
        """Who: a person’s or a token’s name, a destination’s or source’s slug, or the machine."""
        if actor in self.names:
            return self.names[actor]
        kind, _sep, rest = actor.partition(":")
        if kind in {"worker", "engine"}:
            return _("The machine")
        return rest or actor

    def _recorded(self, entry: Told) -> Item:
        title = _("Intended action recorded")
        who = _("By %(name)s, before anything was sent.") % {"name": self.name(entry.actor)}
        return Item(entry.at, "flag", title, text=who, key=str(entry.seq))

    def _attempt_opened(self, entry: Told) -> Item:
        attempt_id, facts = next(iter(entry.body["attempts"].items()))
        step, attempt = self._attempt(attempt_id)
        title = _("Attempt %(number)s of step %(step)s") % {"number": facts["number"], "step": facts["step"]}
        ended = self._ended.get(attempt_id)
        outcome = outcome_in(ended.body, attempt_id) if ended else None
        text = self._said(ended) if ended else _("Opened and recorded; then the request was sent.")
        shown = [(_("Attempt id"), ids.public("att", UUID(attempt_id)))]
        if step is not None and step.record.idempotency_key:
            shown.append((_("Idempotency key"), step.record.idempotency_key))
        if attempt is not None and attempt.elapsed_seconds is not None:
            shown.append((_("Lasted"), wording.lasted(attempt.elapsed_seconds)))
        return Item(
            entry.at,
            "attempt",
            title,
            about="attempts",
            state=outcome or "in-flight",
            badge=(outcome, "outcome") if outcome else ("in_flight", "step"),
            text=text,
            facts=tuple(shown),
            evidence_id=self._evidence_id(ended) if ended else "",
            key=str(entry.seq),
        )

    def _attempt(self, attempt_id: str) -> tuple[StepView | None, Any]:
        for step, attempt in self.view.attempts:
            if str(attempt.id) == attempt_id:
                return step, attempt
        return None, None

    def _attempt_ended(self, entry: Told) -> Item:
        """The end of an attempt, told apart from its opening; late when it had ended before."""
        attempt_id = str(entry.body.get("attempt"))
        outcome = outcome_in(entry.body, attempt_id)
        _step, attempt = self._attempt(attempt_id)
        number = attempt.number if attempt is not None else "?"
        title = _("Attempt %(number)s of step %(step)s ended") % {
            "number": number,
            "step": entry.body.get("step"),
        }
        if outcome is None:
            title = _("A late word on attempt %(number)s of step %(step)s") % {
                "number": number,
                "step": entry.body.get("step"),
            }
        return Item(
            entry.at,
            "attempt",
            title,
            about="attempts",
            state=outcome or "disputed",
            badge=(outcome, "outcome") if outcome else None,
            text=self._said(entry),
            evidence_id=self._evidence_id(entry),
            key=str(entry.seq),
        )

    def _said(self, entry: Told) -> str:
        evidence = self.evidence.get(str(entry.body.get("evidence")))
        if evidence is not None:
            return evidence.sentence
        if entry.kind == "lease_ended":
            return _("Nothing was heard before the lease ended. It may or may not have happened.")
        return ""

    def _evidence_id(self, entry: Told) -> str:
        evidence = self.evidence.get(str(entry.body.get("evidence")))
        return ids.public("ev", evidence.id) if evidence else ""

    def _lookup(self, entry: Told) -> Item:
        says = str(entry.body.get("says"))
        title, state, badge = _LOOKED.get(says, (noop("Lookup ended"), "", None))
        return Item(
            entry.at,
            "search",
            _(title),
            about="lookups",
            state=state,
            badge=badge,
            text=self._said(entry),
            evidence_id=self._evidence_id(entry),
            key=str(entry.seq),
        )

    def _approved(self, entry: Told) -> Item:
        number, name = entry.body.get("content_number"), self.name(entry.actor)
        title = _("%(name)s approved what is to be sent") % {"name": name}
        if number:
            title = _("%(name)s approved content version %(number)s for it") % {
                "name": name,
                "number": number,
            }
        text = _("Exactly what was shown may be sent, and nothing else.")
        return self._decision(entry, "approval", title, text, "confirmed")

    def _content_moved(self, entry: Told) -> Item:
        title = _("It shows content version %(number)s now") % {"number": entry.body.get("content_number")}
        text = _("%(name)s proposed it. Any approval of what it showed before is void.")
        return self._decision(entry, "arrow", title, text % {"name": self.name(entry.actor)}, "")

    def _content_rejected(self, entry: Told) -> Item:
        title = _("%(name)s rejected content version %(number)s") % {
            "name": self.name(entry.actor),
            "number": entry.body.get("content_number"),
        }
        back = entry.body.get("returned_to")
        text = (
            _("It is back at version %(number)s.") % {"number": back}
            if back
            else _("The operation is cancelled.")
        )
        return self._decision(entry, "rejected", title, text, "rejected")

    def _request_rejected(self, entry: Told) -> Item:
        title = _("%(name)s rejected revision %(number)s of the request") % {
            "name": self.name(entry.actor),
            "number": entry.body.get("revision"),
        }
        back = entry.body.get("returned_to")
        words = _("It is back at the request of revision %(number)s, under a new key.")
        text = words % {"number": back} if back else _("The step is ended.")
        return self._decision(entry, "rejected", title, text, "rejected")

    def _decision(self, entry: Told, icon: str, title: str, text: str, state: str) -> Item:
        return Item(
            entry.at, icon, title, about="decisions", state=state, text=text, quotes=_quotes(entry), key=str(entry.seq)
        )  # fmt: skip

    def _answered(self, entry: Told) -> Item:
        answer = str(entry.body.get("answer", ""))
        title = _("%(name)s answered: %(answer)s") % {
            "name": self.name(entry.actor),
            "answer": wording.given(answer),
        }
        facts = []
        if entry.body.get("proposed_by"):
            facts.append((_("Proposed by"), self.name(str(entry.body["proposed_by"]))))
        if entry.body.get("reference"):
            facts.append((_("Reference"), str(entry.body["reference"])))
            compared = _("Field by field") if entry.body.get("compared") else _("Nothing was compared")
            facts.append((_("Compared"), compared))
        if entry.body.get("list"):
            facts.append((_("List"), ids.public("lst", UUID(str(entry.body["list"])))))
            facts.append((_("Line"), str(entry.body.get("line", ""))))
        if entry.body.get("revision"):
            facts.append((_("Revision"), str(entry.body["revision"])))
        if entry.body.get("changed"):
            facts.append((_("Changed"), ", ".join(str(one) for one in entry.body["changed"])))
        if entry.body.get("content_number"):
            facts.append((_("Content version"), str(entry.body["content_number"])))
        if entry.body.get("tries"):
            facts.append((_("Tries"), str(entry.body["tries"])))
        return Item(
            entry.at,
            "user",
            title,
            about="decisions",
            state="held",
            quotes=self._answer_quotes(entry),
            facts=tuple(facts),
            key=str(entry.seq),
        )

    def _answer_quotes(self, entry: Told) -> tuple[tuple[str, str], ...]:
        """The texts of an answer; those about records that were not kept name the record."""
        plain = replace(entry, texts={n: t for n, t in entry.texts.items() if not n.startswith("other_")})
        others = []
        for number, (reference, digest) in enumerate(extra_records(self.view, entry)):
            text = entry.texts.get(f"other_{number}")
            label = _("Record %(record)s, not kept") % {"record": reference or f"{digest[:12]}…"}
            others.append((label, text if text is not None else _("(erased)")))
        return (*_quotes(plain), *others)

    def _proposed(self, entry: Told) -> Item:
        title = _("%(name)s proposed: %(answer)s") % {
            "name": self.name(entry.actor),
            "answer": wording.given(str(entry.body.get("answer", ""))),
        }
        reference = entry.body.get("reference")
        shown = ((_("Reference"), str(reference)),) if reference else ()
        model = entry.body.get("proposal_author") == "model"
        text = _("A model’s proposal, which is no evidence.") if model else ""
        return Item(
            entry.at, "user", title, about="decisions", text=text, quotes=_quotes(entry), facts=shown, key=str(entry.seq)
        )  # fmt: skip

    def _proposal_ended(self, entry: Told) -> Item:
        template = (
            _("%(name)s took the proposal back: %(answer)s")
            if entry.kind == "proposal_withdrawn"
            else _("%(name)s dismissed the proposal: %(answer)s")
        )
        answer = wording.given(str(entry.body.get("answer", "")))
        title = template % {"name": self.name(entry.actor), "answer": answer}
        return Item(entry.at, "user", title, about="decisions", quotes=_quotes(entry), key=str(entry.seq))

    def _assigned(self, entry: Told) -> Item:
        owner, name = entry.body.get("owner"), self.name(entry.actor)
        if owner is None:
            title = _("%(name)s gave the hold back") % {"name": name}
        elif entry.actor == f"person:{owner}":
            title = _("%(name)s took the hold") % {"name": name}
        else:
            title = _("%(name)s gave the hold to %(owner)s") % {
                "name": name,
                "owner": self.names.get(f"person:{owner}", _("somebody")),
            }
        number = entry.body.get("position")
        by_rule = _("By assignment rule %(number)s.") % {"number": number} if number else ""
        return Item(entry.at, "user", title, about="decisions", text=by_rule, key=str(entry.seq))

    def _reminded(self, entry: Told) -> Item:
        to = entry.body.get("to")
        name = self.names.get(f"person:{to}", _("somebody")) if to else _("every owner of the team")
        title = _("Past its due time: %(name)s was reminded") % {"name": name}
        return Item(entry.at, "too-late", title, key=str(entry.seq))

    def _escalated(self, entry: Told) -> Item:
        """Nobody acted, or the owner was gone."""
        before, to = entry.body.get("from"), entry.body.get("to")
        name = self.names.get(f"person:{to}", _("somebody"))
        if before == to:
            title = _("Nobody acted: %(name)s was told again and keeps the hold") % {"name": name}
        elif entry.body.get("cause") == "owner_gone":
            title = _("The owner is gone: the hold went to %(name)s") % {"name": name}
        else:
            title = _("Nobody acted: the hold went to %(name)s") % {"name": name}
        gave = self.names.get(f"person:{before}", "") if before and before != to else ""
        text = _("Before, it was %(name)s’s.") % {"name": gave} if gave else ""
        return Item(entry.at, "user", title, text=text, key=str(entry.seq))

    def _by_person(self, entry: Told) -> Item:
        title = _(_PERSON[entry.kind]) % {"name": self.name(entry.actor)}
        about = "lookups" if entry.kind == "check_requested" else "decisions"
        return Item(entry.at, "user", title, about=about, quotes=_quotes(entry), key=str(entry.seq))

    def _replayed(self, entry: Told) -> Item:
        """A replay has begun steps of this operation; what became of them stands in their own entries."""
        numbers = [str(number) for number in entry.body.get("steps_begun", [])]
        title = _("%(name)s’s replay began step %(steps)s") % {
            "name": self.name(entry.actor),
            "steps": wording.listed(numbers),
        }
        rebound = [
            _("step %(step)s with definition version %(version)s") % {"step": step, "version": version}
            for step, version in sorted((entry.body.get("rebound") or {}).items())
        ]
        text = _("By choice: %(what)s.") % {"what": wording.listed(rebound)} if rebound else ""
        if entry.body.get("started_by"):  # somebody else resumed it since
            said = _("%(name)s started the replay.") % {"name": self.name(str(entry.body["started_by"]))}
            text = f"{said} {text}".strip()
        shown = [(_("Replay"), ids.public("rpl", UUID(str(entry.body["replay"]))))]
        if entry.body.get("statement"):
            shown.append((_("Provider’s statement"), ids.public("stm", UUID(str(entry.body["statement"])))))
        return Item(
            entry.at, "n-replays", title, about="decisions", text=text, quotes=_quotes(entry), facts=tuple(shown),
            key=str(entry.seq),
        )  # fmt: skip

    def _noted(self, entry: Told) -> Item:
        title = _("%(name)s wrote a note") % {"name": self.name(entry.actor)}
        return Item(entry.at, "pen", title, quotes=_quotes(entry), key=str(entry.seq))

    def _other(self, entry: Told) -> Item:
        title = (
            _(_MACHINE[entry.kind]) if entry.kind in _MACHINE else entry.kind.replace("_", " ").capitalize()
        )
        return Item(
            entry.at, "clock", title, text=self._said(entry), quotes=_quotes(entry),
            evidence_id=self._evidence_id(entry), key=str(entry.seq),
        )  # fmt: skip


_PERSON = {
    "cancel_requested": noop("%(name)s cancelled the operation"),
    "withdrawn": noop("%(name)s took the answer back"),
    "check_requested": noop("%(name)s asked for a check"),
    "revealed": noop("%(name)s looked at masked values"),
}
_MACHINE = {
    "deadline_came": noop("A deadline came"),
    "event_added": noop("Another event of the same action was added"),
    "backup_restored": noop("A backup was restored; what was sent since is not known"),
    "lease_extended": noop("The automation asked for more time"),
    "evidence_added": noop("Evidence was added"),
}
_ENDS = {
    "completed": noop("The operation is completed"),
    "failed": noop("The operation has failed"),
    "cancelled": noop("The operation is cancelled"),
    "closed_unknown": noop("The operation is closed as never known"),
}
_END_SHAPES = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "closed_unknown": "closed-unknown",
}
_NO_RECORD = (noop("Lookup found no record"), "", None)
_LOOKED: Mapping[str, tuple[str, str, tuple[str, str] | None]] = {
    "found": (noop("Lookup found this action’s record"), "confirmed", ("confirmed", "outcome")),
    "field_differs": (noop("Lookup found a record that differs"), "differs", ("record_differs", "hold")),
    "several_records": (noop("Lookup found several records"), "duplicate", ("duplicate_found", "hold")),
    "only_alike": (noop("Lookup found records that are only alike"), "differs", None),
    "reference_taken": (noop("Lookup found a record that another operation holds"), "differs", None),
    "proven_absent": (noop("Lookups prove that it is not there"), "absent", ("absent", "no_change")),
    "failed": (noop("The destination says that it failed"), "failed", None),
    "positive_only": _NO_RECORD,
    "quiet_period": _NO_RECORD,
    "too_few_looks": _NO_RECORD,
    "not_all_pages": _NO_RECORD,
    "lookup_failed": (noop("Lookup failed"), "", None),
    "no_answer": (noop("Lookup gave no answer"), "", None),
    "access_refused": (noop("The destination did not let us look"), "access-refused", None),
    "running": (noop("The destination is still at work on it"), "in-flight", None),
    "not_final_yet": (noop("Its final effect is not known yet"), "accepted", None),
    "delivered": (noop("Delivered, says the destination"), "confirmed", ("confirmed", "outcome")),
    "bounced": (noop("Not delivered, says the destination"), "delivery-failed", ("delivery_failed", "hold")),
}
_TELLERS = {
    "operation_recorded": Teller._recorded,
    "attempt_opened": Teller._attempt_opened,
    "attempt_ended": Teller._attempt_ended,
    "lease_ended": Teller._attempt_ended,
    "lookup_ended": Teller._lookup,
    "answered": Teller._answered,
    "answer_proposed": Teller._proposed,
    "proposal_dismissed": Teller._proposal_ended,
    "proposal_withdrawn": Teller._proposal_ended,
    "approved": Teller._approved,
    "content_moved": Teller._content_moved,
    "content_rejected": Teller._content_rejected,
    "request_rejected": Teller._request_rejected,
    "assigned": Teller._assigned,
    "reminded": Teller._reminded,
    "escalated": Teller._escalated,
    "noted": Teller._noted,
    "cancel_requested": Teller._by_person,
    "withdrawn": Teller._by_person,
    "check_requested": Teller._by_person,
    "revealed": Teller._by_person,
    "replayed": Teller._replayed,
}
_TEXT_LABELS = {
    "reason": "",
    "note": "",
    "checked_how": noop("How it was checked"),
    "no_reference_why": noop("Why there is no reference"),
    "ticket": noop("Asked"),
    "replaced_by": noop("Replaced by"),
    "origin": noop("Origin"),
    "proposal_reason": noop("As it was proposed"),
}


def _opens(older: Told | None, entry: Told) -> bool:
    """Whether the entry before this one opened the very attempt that this one ends."""
    return (
        older is not None
        and older.kind == "attempt_opened"
        and str(entry.body.get("attempt")) in older.body.get("attempts", {})
    )


def looked_word(says: str) -> str:
    """What a lookup brought, in a few words: “Lookup found no record”."""
    return _(_LOOKED[says][0]) if says in _LOOKED else _("Lookup ended")


def outcome_in(body: Mapping[str, Any], attempt_id: str) -> str | None:
    """The outcome that an entry’s facts give to an attempt; None when they give none."""
    changed = (body.get("attempts") or {}).get(attempt_id) or {}
    outcome = changed.get("outcome")
    return str(outcome) if outcome else None


def _quotes(entry: Told) -> tuple[tuple[str, str], ...]:
    """The free texts of an entry, each with its label; an erased one is said to be so."""
    return tuple(
        (_(_TEXT_LABELS[name]) if _TEXT_LABELS.get(name) else "", text if text is not None else _("(erased)"))
        for name, text in sorted(
            entry.texts.items(), key=lambda one: (one[0] not in {"reason", "note"}, one[0])
        )
    )


_CONTENT: Mapping[str, tuple[str, str]] = {
    "content_proposed": ("pen", noop("%(name)s asked for version %(number)s")),
    "content_approved": ("confirmed", noop("%(name)s approved version %(number)s")),
    "content_rejected": ("rejected", noop("%(name)s rejected version %(number)s")),
    "content_waiting_rejected": ("rejected", noop("%(name)s rejected what waited for version %(number)s")),
    "revealed": ("masked", noop("%(name)s looked at masked values")),
}


def content_items(told: Iterable[Told], names: Mapping[str, str]) -> list[Item]:
    """The chain of one content, newest first."""
    items = []
    for entry in told:
        icon, title = _CONTENT.get(entry.kind, ("info", entry.kind.replace("_", " ").capitalize()))
        words = {"name": names.get(entry.actor, entry.actor), "number": entry.body.get("number", "")}
        items.append(
            Item(
                entry.at, icon, _(title) % words, text=_content_facts(entry), quotes=_quotes(entry), key=str(entry.seq)
            )
        )  # fmt: skip
    return items


def _content_facts(entry: Told) -> str:
    count = entry.body.get("covered_count")
    if entry.kind == "content_approved":
        return ngettext(
            "one request that waited for it", "%(count)s requests that waited for it", count or 0
        ) % {"count": count or 0}
    if entry.kind == "content_rejected":
        cancelled = entry.body.get("cancelled_count", 0)
        parts = [
            ngettext("one operation cancelled", "%(count)s operations cancelled", cancelled)
            % {"count": cancelled}
        ]
        if entry.body.get("returned_to"):
            parts.append(_("the others back at version %(number)s") % {"number": entry.body["returned_to"]})
        return ", ".join(parts)
    return revealed_words(str(entry.body.get("what", "")))


def revealed_words(what: str) -> str:
    """What somebody looked at, by the word that the journal keeps for it."""
    kind, _sep, rest = what.partition(":")
    words = {"params": _("parameters"), "deliveries": _("deliveries"), "evidence": _("evidence")}
    if kind == "request":
        return _("request of step %(number)s") % {"number": rest}
    return words.get(kind, what)


def event_items(view: OperationView) -> list[Item]:
    """The events that told of this action; deliveries are counted, not repeated."""
    return [
        Item(
            event.received_at,
            "event",
            _("Event received from %(source)s") % {"source": event.source},
            text=_deliveries(event.delivery_count),
            facts=((_("Event id"), event.event_id),),
            key=f"event-{event.id}",
        )
        for event in view.record.events
    ]


def _deliveries(count: int) -> str:
    if count <= 1:
        return _("Delivered once.")
    return _(
        "Delivered %(count)s times under one event id; the repeats were counted and started nothing."
    ) % {"count": count}


def planned_of(view: OperationView) -> list[Planned]:
    """What happens next without a person, soonest first."""
    found = []
    for step in view.steps:
        words = _PLANNED.get(step.step.act)
        if words is None:
            continue
        title, text = words
        shown = {
            "step": step.step.number,
            "title": step.title,
            "destination": step.step.destination,
            "number": step.step.looks + 1,
        }
        checks = step.step.act in {Act.LOOK, Act.AWAIT}
        found.append(Planned(step.step.act_at, _(title) % shown, _(text) % shown, step.step.number, checks))
    return sorted(found, key=lambda one: (one.at is None, one.at or view.now))


_PLANNED: Mapping[Act, tuple[str, str]] = {
    Act.SEND: (noop("Next: send “%(title)s” to %(destination)s"), noop("Its attempt is recorded first.")),
    Act.OFFER: (
        noop("Offered to automations until then: “%(title)s”"),
        noop("Unclaimed by then, it becomes a hold."),
    ),
    Act.LEASE: (
        noop("An answer from %(destination)s is waited for until then"),
        noop("Silence until then means unknown, never failed."),
    ),
    Act.LOOK: (
        noop("Next: lookup %(number)s at %(destination)s"),
        noop("Reads only; nothing is sent."),
    ),
    Act.AWAIT: (
        noop("A proof of the final effect of “%(title)s” is waited for until then"),
        noop("Without one by then, it becomes a hold. It is never sent again."),
    ),
}


def open_for(since: datetime, now: datetime) -> str:
    return words_of_span((now - since).total_seconds())
