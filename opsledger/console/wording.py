"""Every sentence about holds: what is asked, what is known, what comes next, what each answer brings about.

Pure functions over facts; times come in as text. All texts go through gettext, whole sentences at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.utils.translation import ngettext

from opsledger.rules.answers import Answer
from opsledger.rules.profile import ActionProfile, ProtectionKind, Settles
from opsledger.rules.protection import Protected
from opsledger.rules.record import Step
from opsledger.rules.states import HoldReason, OperationState, StepState

A, R, S = Answer, HoldReason, StepState


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger knows about an open question, as far as a sentence needs it."""

    reason: HoldReason
    destination: str
    step: str = ""
    state: StepState | None = None
    attempts: int = 0
    looks: int = 0  # lookups made; those that are in neither of the next two found something
    looks_found_nothing: int = 0  # they answered, and had no record
    looks_failed: int = 0  # they gave no answer, which says nothing about the record
    last_look: str = ""  # when the last one was made, as text
    settles: Settles | None = None  # None: the destination can't be asked
    next_look: str = ""  # when it is asked again, as text; "" = it is not
    last_sentence: str = ""  # of the last attempt
    accepted_at: str = ""
    not_after: str = ""
    looked: str = ""  # the last lookup's answer, one of our words
    references: tuple[str, ...] = ()  # of records that a lookup found
    differing: tuple[str, ...] = ()  # labels of fields that differ from what was approved
    taken: tuple[str, str] | None = None  # a reference, and the operation that holds it already
    missing: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()  # of a dispute, oldest first
    restored: bool = False  # a restored backup has forgotten what became of it since
    waiting: int = 0  # steps that wait behind a stopped destination
    event: str = ""
    content_number: int | None = None  # the version that an approval is needed for
    revision: int = 1
    nobody_may_approve: bool = False


# What is asked, and what has to be decided next

QUESTIONS: Mapping[HoldReason, tuple[str, str]] = {
    R.OUTCOME_UNKNOWN: (
        noop("Did “%(step)s” happen at %(destination)s?"),
        noop("Ask %(destination)s, then answer"),
    ),
    R.PROTECTION_EXPIRED: (
        noop("Did “%(step)s” happen at %(destination)s?"),
        noop("Answer before anything is sent again"),
    ),
    R.INTEGRITY_ALARM: (
        noop("Did “%(step)s” happen at %(destination)s as it was approved?"),
        noop("Find out what was processed under this key"),
    ),
    R.RECORD_DIFFERS: (
        noop("Is the record at %(destination)s the one that “%(step)s” made?"),
        noop("Accept the difference, or say that it is not ours"),
    ),
    R.DUPLICATE_FOUND: (
        noop("Which record of “%(step)s” is kept at %(destination)s?"),
        noop("Choose the one to keep"),
    ),
    R.DISPUTED: (
        noop("Two statements contradict each other. Did “%(step)s” happen at %(destination)s?"),
        noop("Keep the answer, or reverse it"),
    ),
    R.REJECTED: (
        noop("%(destination)s refused “%(step)s”. Was the cause mended there?"),
        noop("Mend the cause and send the same again, change the request, or end it"),
    ),
    R.ATTEMPTS_EXHAUSTED: (
        noop("Is “%(step)s” to be tried again?"),
        noop("Grant more tries, change the request, or end it"),
    ),
    R.NOBODY_CLAIMED: (
        noop("No automation took “%(step)s”. Is it to be offered again?"),
        noop("Wake the automation and offer it again, or end it"),
    ),
    R.TOO_LATE: (
        noop("“%(step)s” is past its latest moment. Is it to be sent all the same?"),
        noop("Send it all the same, or end it"),
    ),
    R.DELIVERY_NOT_PROVEN: (
        noop("Did what %(destination)s took over for “%(step)s” take effect?"),
        noop("Find out whether it was delivered"),
    ),
    R.DELIVERY_FAILED: (
        noop("“%(step)s” was not delivered. What follows?"),
        noop("Replace it by a new operation, or end it"),
    ),
    R.DATA_MISSING: (
        noop("“%(step)s” lacks data. What is missing?"),
        noop("Supply what is missing, or end it"),
    ),
    R.APPROVAL_NEEDED: (
        noop("May “%(step)s” be sent to %(destination)s as it stands?"),
        noop("Read what would be sent, then decide"),
    ),
    R.ACCESS_REFUSED: (
        noop("Does %(destination)s accept our credentials again?"),
        noop("Mend the access, then let it go on"),
    ),
    R.PAUSED: (noop("May sending to %(destination)s go on?"), noop("Let it go on when it may")),
    R.CIRCUIT_OPEN: (
        noop("Is %(destination)s well again?"),
        noop("Wait for the next trial, or let it go on"),
    ),
    R.EVENT_CONFLICT: (
        noop("The same event came with two bodies. Which one is right?"),
        noop("Compare both deliveries with the source"),
    ),
}


_OF_EVENT = (
    noop("This event lacks data for an operation. Was one recorded apart?"),
    noop("Ask the source, or record the operation apart"),
)


def question(known: Known) -> str:
    """The heading of a decision: one question, ending in a question mark."""
    if known.event and known.reason is R.DATA_MISSING:
        return _(_OF_EVENT[0])
    template = QUESTIONS[known.reason][0]
    if known.reason is R.DISPUTED and known.restored:
        template = noop("A backup was restored. Did “%(step)s” happen at %(destination)s since then?")
    elif known.reason is R.DISPUTED and len(known.statements) < 2:
        template = noop("An answer was taken back. Did “%(step)s” happen at %(destination)s?")
    return _(template) % {"step": known.step, "destination": known.destination}


def next_decision(known: Known) -> str:
    """What a person has to do next, short enough for a row of the inbox."""
    if known.restored and known.reason is R.DISPUTED:
        return _("Find out whether it was sent since the backup")
    if known.reason in _UNKNOWNS:
        if known.looked in _PROPOSED:
            return _(_PROPOSED[known.looked][1]) % {"reference": "".join(known.references[:1])}
        if known.references:
            return _("Decide whether %(reference)s is this action’s record") % {
                "reference": known.references[0]
            }
        if known.next_look:
            return _("Wait for %(time)s, or ask %(destination)s") % {
                "time": known.next_look,
                "destination": known.destination,
            }
    if known.event and known.reason is R.DATA_MISSING:
        return _(_OF_EVENT[1])
    return _(QUESTIONS[known.reason][1]) % {"step": known.step, "destination": known.destination}


# Answers of lookups that are shown to the owner where recovery is not automatic: what is known, and what to do.
_PROPOSED: Mapping[str, tuple[str, str]] = {
    "confirmed": (
        noop("A lookup found this action’s own record, %(reference)s, as approved."),
        noop("Confirm that %(reference)s is it"),
    ),
    "accepted": (
        noop("A lookup found this action’s own record, %(reference)s; its final effect is not proven."),
        noop("Confirm that %(reference)s is it"),
    ),
    "absent": (
        noop("Repeated lookups prove that it is not there."),
        noop("Confirm that it did not happen"),
    ),
    "failed": (
        noop("The destination says that it failed, without effect."),
        noop("Confirm that it did not happen"),
    ),
    "running": (noop("The destination is still at work on it."), noop("Wait, and ask again")),
}
_UNKNOWNS = frozenset({R.OUTCOME_UNKNOWN, R.PROTECTION_EXPIRED, R.INTEGRITY_ALARM})


# What is known


def what_we_know(known: Known) -> str:
    """One or two sentences: what is established so far, and what it does not prove."""
    if known.reason in _UNKNOWNS:
        return _about_unknown(known)
    return _ABOUT[known.reason](known)


def with_proposals(known: str, names: list[str]) -> str:
    """The same, with whose proposals wait to be decided."""
    return f"{known} {_('Proposal by %(names)s.') % {'names': listed(names)}}" if names else known


def _about_unknown(known: Known) -> str:
    alarm = known.reason is R.INTEGRITY_ALARM
    if known.taken:
        return _("The answer names record %(reference)s, which operation %(operation)s holds already.") % {
            "reference": known.taken[0],
            "operation": known.taken[1],
        }
    if known.looked in _PROPOSED:
        return _(_PROPOSED[known.looked][0]) % {"reference": "".join(known.references[:1])}
    if alarm:
        return _("%(destination)s processed something under this key that is not what was approved.") % {
            "destination": known.destination
        }
    if known.references:
        return _found(known)
    if known.looks_found_nothing or known.looks_failed:
        return looked_in_vain(known)
    if known.next_look:
        return _("%(sent)s The first lookup is due at %(time)s.") % {
            "sent": sent(known.attempts),
            "time": known.next_look,
        }
    if known.settles is None:
        return _("%(sent)s %(destination)s can’t be asked.") % {
            "sent": sent(known.attempts),
            "destination": known.destination,
        }
    return sent(known.attempts)


def sent(attempts: int) -> str:
    """How often it was sent without a clear answer."""
    if attempts == 1:
        return _("Sent once, without a clear answer.")
    return ngettext(
        "Sent %(count)s time, without a clear answer.",
        "Sent %(count)s times, without a clear answer.",
        attempts,
    ) % {"count": attempts}


def _found(known: Known) -> str:
    count = len(known.references)
    if known.differing and count == 1:
        return _("A lookup found one possible record; %(fields)s not as approved.") % {
            "fields": _listed_are(known.differing)
        }
    return ngettext(
        "A lookup found one possible record.", "A lookup found %(count)s possible records.", count
    ) % {"count": count}


def looked_in_vain(known: Known) -> str:
    """Lookups that found no record, apart from those that gave no answer: an error is never “no record”."""
    empty, failed = known.looks_found_nothing, known.looks_failed
    if not empty:
        return ngettext(
            "One lookup failed: nothing is known from it.",
            "%(count)s lookups failed; none answered.",
            failed,
        ) % {"count": failed}
    said = [ngettext("One lookup, no record.", "%(count)s lookups, no record.", empty) % {"count": empty}]
    if failed:
        more = ngettext("One more failed.", "%(count)s more failed.", failed)
        said.append(more % {"count": failed})
    if known.settles is Settles.POSITIVE_ONLY:
        said.append(_("Empty answers prove nothing here."))
    return " ".join(said)


def _about_differing(known: Known) -> str:
    if known.differing and known.references:
        return _("Found %(reference)s; %(fields)s not as approved.") % {
            "reference": known.references[0],
            "fields": _listed_are(known.differing),
        }
    return _("A record with this action’s own identity differs from what was approved.")


def _about_duplicates(known: Known) -> str:
    if len(known.references) > 1:
        return _("%(count)s records exist: %(references)s.") % {
            "count": len(known.references),
            "references": listed(known.references),
        }
    return _("More than one record carries this action’s identity.")


def _about_dispute(known: Known) -> str:
    if known.restored and len(known.statements) < 2:
        return _("A person may have had it sent after the backup was made; the backup does not know of it.")
    if len(known.statements) > 1:
        return _("First: %(first)s. Later: %(later)s.") % {
            "first": known.statements[0],
            "later": known.statements[-1],
        }
    if known.statements:
        return _("An answer was taken back: %(statement)s.") % {"statement": known.statements[0]}
    return _("Later evidence contradicts what was answered.")


def _about_rejection(known: Known) -> str:
    return known.last_sentence or _("%(destination)s refused the request. Nothing changed there.") % {
        "destination": known.destination
    }


def _about_tries(known: Known) -> str:
    return ngettext(
        "One attempt, without change.", "%(count)s attempts, each without change.", known.attempts
    ) % {"count": known.attempts}


def _about_lateness(known: Known) -> str:
    if known.not_after:
        return _("Its latest moment, %(time)s, passed before anything was sent.") % {"time": known.not_after}
    return _("Its latest moment passed before anything was sent.")


def _about_delivery(known: Known) -> str:
    if known.accepted_at:
        return _("Accepted at %(time)s; nothing proved its effect by the deadline.") % {
            "time": known.accepted_at
        }
    return _("Accepted; nothing proved its effect by the deadline.")


def _about_missing(known: Known) -> str:
    if known.missing:
        return _("Missing: %(fields)s. Nothing was sent.") % {"fields": listed(known.missing)}
    if known.event:
        return _("Event %(event)s lacks what its operation needs. Nothing was sent.") % {"event": known.event}
    return _("The request can’t be made from what was given. Nothing was sent.")


def _about_stop(known: Known) -> str:
    waiting = (
        ngettext("One step waits.", "%(count)s steps wait.", known.waiting) % {"count": known.waiting}
        if known.waiting
        else _("No step waits.")
    )
    return _(_STOPPED[known.reason]) % {"destination": known.destination, "waiting": waiting}


def _about_approval(known: Known) -> str:
    facts = {"revision": known.revision, "number": known.content_number}
    if known.content_number is None:
        said = _("Revision %(revision)s of its request is not approved. Nothing of it was sent.") % facts
    elif known.revision > 1:
        said = _("Revision %(revision)s, content version %(number)s: not approved, not sent.") % facts
    else:
        said = _("Content version %(number)s: not approved for it, not sent.") % facts
    if known.nobody_may_approve:
        said += " " + _("Nobody of the team may approve it: it is with the team’s fallback owner.")
    return said


_STOPPED: Mapping[HoldReason, str] = {
    R.ACCESS_REFUSED: noop("%(destination)s does not accept our credentials. %(waiting)s Nothing is lost."),
    R.PAUSED: noop("A person stopped sending to %(destination)s. %(waiting)s Nothing is lost."),
    R.CIRCUIT_OPEN: noop("Too many sends to %(destination)s failed in a row. %(waiting)s Nothing is lost."),
}
_ABOUT: Mapping[HoldReason, Callable[[Known], str]] = {
    R.RECORD_DIFFERS: _about_differing,
    R.DUPLICATE_FOUND: _about_duplicates,
    R.DISPUTED: _about_dispute,
    R.REJECTED: _about_rejection,
    R.ATTEMPTS_EXHAUSTED: _about_tries,
    R.NOBODY_CLAIMED: lambda known: _("It was offered to automations, and none took it. Nothing was sent."),
    R.TOO_LATE: _about_lateness,
    R.DELIVERY_NOT_PROVEN: _about_delivery,
    R.DELIVERY_FAILED: lambda known: _("It was accepted, and then reported as not delivered."),
    R.DATA_MISSING: _about_missing,
    R.APPROVAL_NEEDED: _about_approval,
    R.ACCESS_REFUSED: _about_stop,
    R.PAUSED: _about_stop,
    R.CIRCUIT_OPEN: _about_stop,
    R.EVENT_CONFLICT: lambda known: (
        _("Event %(event)s came again with another body. No operation was made from it.")
        % {"event": known.event}
    ),
}


def statement(outcome: str, known_by: str, reference: str | None) -> str:
    """One side of a dispute: “it happened as T-1 (a person)”."""
    return _("%(said)s (%(origin)s)") % {"said": said(outcome, reference), "origin": origin(known_by)}


def said(outcome: str, reference: str | None) -> str:
    """What a statement says, without who says it: “it happened as T-1”. Nothing is what it did not happen as."""
    words = _(_OUTCOMES.get(outcome, noop("nothing certain")))
    if not reference or outcome == "no_change":
        return words
    return _("%(said)s as %(reference)s") % {"said": words, "reference": reference}


_OUTCOMES = {
    "confirmed": noop("it happened"),
    "accepted": noop("it was taken over"),
    "no_change": noop("it did not happen"),
    "unknown": noop("not known"),
    "never_known": noop("it can’t be known"),
}
_ORIGINS = {
    "transport": noop("our own transport"),
    "reply": noop("a reply"),
    "lease": noop("no word before the lease ended"),
    "lookup": noop("a lookup"),
    "report": noop("a delivery report"),
    "person": noop("a person"),
    "automation": noop("the automation that did the work"),
}


def origin(known_by: str) -> str:
    """Where an outcome is known from."""
    return _(_ORIGINS[known_by]) if known_by in _ORIGINS else known_by or _("not known")


# Answers


@dataclass(frozen=True, slots=True)
class Follows:
    """What the rules make of an answer: how the step and the operation stand after it."""

    step: int
    state: StepState
    operation: OperationState
    released: tuple[int, ...] = ()  # later steps that may be sent
    cancelled: tuple[int, ...] = ()
    asks_again: HoldReason | None = None  # the question comes back, perhaps as another one
    looks_at: str = ""  # when the destination is asked next
    destination: str = ""


LABELS: Mapping[Answer, str] = {
    A.HAPPENED: noop("It happened"),
    A.HAPPENED_ACCEPTED: noop("Taken over; its effect is not known"),
    A.ABSENT_SEND_AGAIN: noop("It did not happen: send again"),
    A.ABSENT_END: noop("It did not happen: end as failed"),
    A.ABSENT_REVISE: noop("It did not happen: change the request"),
    A.STILL_UNKNOWN: noop("Still unknown"),
    A.CLOSE_UNKNOWN: noop("Close as never known"),
    A.OURS: noop("It is ours, with the difference"),
    A.NOT_OURS: noop("It is not ours"),
    A.KEEP_ONE: noop("Keep one of them"),
    A.SAME_AGAIN: noop("Send the same request again"),
    A.REVISE: noop("Change the request"),
    A.END_FAILED: noop("End as failed"),
    A.MORE_TRIES: noop("Grant more tries"),
    A.DELIVERED: noop("It took effect"),
    A.NOT_DELIVERED: noop("It did not take effect"),
    A.LEAVE_ACCEPTED: noop("Leave as accepted"),
    A.REPLACED: noop("A new operation replaces it"),
    A.END: noop("End it here"),
}
# What became of it, as the timeline and the journal tell it.
GIVEN: Mapping[Answer, str] = {
    A.HAPPENED: noop("it happened"),
    A.HAPPENED_ACCEPTED: noop("it was taken over; its effect is not known"),
    A.ABSENT_SEND_AGAIN: noop("it did not happen; send again"),
    A.ABSENT_END: noop("it did not happen; end as failed"),
    A.ABSENT_REVISE: noop("it did not happen; the request is changed"),
    A.STILL_UNKNOWN: noop("still unknown"),
    A.CLOSE_UNKNOWN: noop("closed as never known"),
    A.OURS: noop("the record is ours, with the difference"),
    A.NOT_OURS: noop("the record is not ours"),
    A.KEEP_ONE: noop("one of the records is kept"),
    A.SAME_AGAIN: noop("send the same request again"),
    A.REVISE: noop("the request is changed"),
    A.END_FAILED: noop("end as failed"),
    A.MORE_TRIES: noop("more tries"),
    A.DELIVERED: noop("it took effect"),
    A.NOT_DELIVERED: noop("it did not take effect"),
    A.LEAVE_ACCEPTED: noop("left as accepted"),
    A.REPLACED: noop("replaced by a new operation"),
    A.END: noop("ended"),
}
BUTTONS: Mapping[Answer, str] = {
    A.HAPPENED: noop("Record that it happened"),
    A.HAPPENED_ACCEPTED: noop("Record that it was taken over"),
    A.ABSENT_SEND_AGAIN: noop("Record that it did not happen"),
    A.ABSENT_END: noop("Record that it did not happen"),
    A.ABSENT_REVISE: noop("Record that it did not happen"),
    A.STILL_UNKNOWN: noop("Keep as unknown"),
    A.CLOSE_UNKNOWN: noop("Close as never known"),
    A.OURS: noop("Accept it with the difference"),
    A.NOT_OURS: noop("Record that it is not ours"),
    A.KEEP_ONE: noop("Keep the chosen record"),
    A.SAME_AGAIN: noop("Send the same request again"),
    A.REVISE: noop("Propose the changed request"),
    A.END_FAILED: noop("End as failed"),
    A.MORE_TRIES: noop("Grant the tries"),
    A.DELIVERED: noop("Record that it took effect"),
    A.NOT_DELIVERED: noop("Record that it did not take effect"),
    A.LEAVE_ACCEPTED: noop("Leave as accepted"),
    A.REPLACED: noop("Record what replaces it"),
    A.END: noop("End it here"),
}


_CARD_TITLES: Mapping[str, str] = {"happened": noop("It happened"), "absent": noop("It did not happen")}
_KEEP_WORDS: Mapping[str, str] = {
    "close": noop("Later steps that go on all the same; those without a tick are cancelled"),
    "happened": noop("Steps that were cancelled by the earlier answer and come back"),
    "absent": noop("Steps that were cancelled by the earlier answer and come back"),
    "ours": noop("Steps that were cancelled by the earlier answer and come back"),
    "keep_one": noop("Steps that were cancelled by the earlier answer and come back"),
}


def card_title(card: str) -> str:
    """The title of a card that holds several answers."""
    return _(_CARD_TITLES[card])


def keep_words(card: str) -> str:
    """What a tick at a later step means; "" where there are none."""
    return _(_KEEP_WORDS[card]) if card in _KEEP_WORDS else ""


def label(answer: Answer) -> str:
    return _(LABELS[answer])


_ANSWER_VALUES = frozenset(answer.value for answer in Answer)


def given(answer: str) -> str:
    """An answer as part of a sentence; one that is not known here is shown as it is written."""
    return _(GIVEN[Answer(answer)]) if answer in _ANSWER_VALUES else answer.replace("_", " ")


def button(answer: Answer) -> str:
    return _(BUTTONS[answer])


def proposing(answer: Answer) -> str:
    """The same verb for somebody who may not give the answer."""
    return _("Propose: %(answer)s") % {"answer": given(answer.value)}


CONSEQUENCES: Mapping[Answer, str] = {
    A.HAPPENED: noop("Step %(step)s is confirmed with your reference."),
    A.HAPPENED_ACCEPTED: noop("Step %(step)s is accepted: counted as taken over, and never sent again."),
    A.ABSENT_SEND_AGAIN: noop(
        "The same request is sent again, with the same key, as soon as its turn comes."
    ),
    A.ABSENT_END: noop("Step %(step)s is failed (no change) and not sent again."),
    A.ABSENT_REVISE: noop(
        "The changed request gets a new key and waits for somebody else’s approval; the one before is never sent again."
    ),
    A.STILL_UNKNOWN: noop("Nothing is sent; the hold stays open, and is due at the time that you choose."),
    A.CLOSE_UNKNOWN: noop("Step %(step)s stays unknown, counted apart for good; late truth reopens it."),
    A.OURS: noop("Step %(step)s is confirmed with this record; the difference is written to the journal."),
    A.NOT_OURS: noop("This record is left aside from now on."),
    A.KEEP_ONE: noop(
        "Step %(step)s is confirmed with the record that you choose. Nothing is deleted from here."
    ),
    A.SAME_AGAIN: noop("The same request is sent once more, with the same key."),
    A.REVISE: noop(
        "The changed request gets a new key and waits for somebody else’s approval; the one before is never sent again."
    ),
    A.END_FAILED: noop("Step %(step)s is failed; nothing more is sent for it."),
    A.MORE_TRIES: noop("The same request is tried as often as you say, beginning now."),
    A.DELIVERED: noop("Step %(step)s is confirmed."),
    A.NOT_DELIVERED: noop("Step %(step)s is failed: not delivered. It is never sent again."),
    A.LEAVE_ACCEPTED: noop("Step %(step)s stays accepted, is counted so, and is not looked for any more."),
    A.REPLACED: noop("This step stays failed; the operation that you name is written beside it."),
    A.END: noop("This step stays failed, and the question ends."),
}
_IN_PLACE: Mapping[tuple[HoldReason, Answer], str] = {
    (R.NOBODY_CLAIMED, A.MORE_TRIES): noop("The step is offered to automations again, beginning now."),
    (R.TOO_LATE, A.MORE_TRIES): noop("The request is sent although its latest moment has passed."),
    (R.DISPUTED, A.HAPPENED): noop(
        "Step %(step)s is confirmed with your reference, and the other statement is overruled."
    ),
    (R.DISPUTED, A.ABSENT_END): noop(
        "Step %(step)s is failed (no change), and the other statement is overruled."
    ),
    (R.DELIVERY_NOT_PROVEN, A.STILL_UNKNOWN): noop(
        "Nothing is sent; the step stays accepted, and is due again at the time that you choose."
    ),
}


def consequence(reason: HoldReason, answer: Answer, follows: Follows) -> str:
    """What an answer brings about, said before the click: the answer's own sentence, then what the rules foresee."""
    own = _IN_PLACE.get((reason, answer)) or CONSEQUENCES[answer]
    sentences = [_(own) % {"step": follows.step, "destination": follows.destination}]
    sentences += _afterwards(answer, follows)
    return " ".join(sentences)


def _afterwards(answer: Answer, follows: Follows) -> list[str]:
    said = []
    if answer not in {A.STILL_UNKNOWN, A.REVISE, A.ABSENT_REVISE} and follows.asks_again:
        said.append(
            _("The question comes back as “%(reason)s”.") % {"reason": reason_word(follows.asks_again)}
        )
    if follows.looks_at and answer in {A.NOT_OURS, A.HAPPENED_ACCEPTED}:
        said.append(
            _("%(destination)s is asked again at %(time)s.")
            % {"destination": follows.destination, "time": follows.looks_at}
        )
    for template, steps in (
        (noop("%(steps)s released to be sent."), follows.released),
        (noop("%(steps)s cancelled."), follows.cancelled),
    ):
        if steps:
            said.append(_(template) % {"steps": _steps_are(steps)})
    if answer in _ENDINGS or not (follows.released or follows.cancelled):
        ending = _ENDS_OPERATION.get(follows.operation)
        if ending and answer is not A.STILL_UNKNOWN:
            said.append(_(ending))
    return said


_ENDINGS = frozenset({A.ABSENT_END, A.END_FAILED, A.END, A.NOT_DELIVERED, A.REPLACED})
_ENDS_OPERATION: Mapping[OperationState, str] = {
    OperationState.COMPLETED: noop("The operation is then completed."),
    OperationState.FAILED: noop("The operation ends as failed."),
    OperationState.CANCELLED: noop("The operation ends as cancelled."),
}


def _steps_are(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return _("Step %(number)s is") % {"number": numbers[0]}
    return _("Steps %(numbers)s are") % {"numbers": listed([str(number) for number in numbers])}


def is_undelivered(step: Step) -> bool:
    """Whether it was taken over and then not delivered: failed, yet not without effect."""
    return step.state is S.FAILED and step.accepted_at is not None


def step_word(step: Step) -> str:
    """The state’s word; failures after a destination took the work over are told apart."""
    from opsledger.console.vocabulary import shown  # the one table of words

    return _("Failed (not delivered)") if is_undelivered(step) else shown(step.state).word


def reason_word(reason: HoldReason) -> str:
    """The reason's word, as its badge says it."""
    from opsledger.console.vocabulary import shown  # the one table of words

    return shown(reason).word


# Protection, beside every verb that may send


@dataclass(frozen=True, slots=True)
class ProtectionWords:
    """`state` is a key of the vocabulary's protection rows."""

    state: str
    text: str


_KIND_WORDS: Mapping[ProtectionKind, str] = {
    ProtectionKind.NONE: noop("None"),
    ProtectionKind.IDEMPOTENCY_KEY: noop("Idempotency key"),
    ProtectionKind.CLIENT_ID: noop("Own id, unique there"),
    ProtectionKind.UPSERT: noop("Upsert, while nobody changes the record"),
    ProtectionKind.CONDITIONAL: noop("Conditional: a repeat is refused"),
}
_UNPROTECTED: Mapping[str, str] = {
    "none_documented": noop("None: a resend may duplicate"),
    "bytes_differ": noop("None: the bytes differ from the first ones"),
    "record_unread": noop("None: somebody may have changed the record"),
    "record_changed": noop("None: somebody has changed the record"),
    "error_not_kept": noop("None: the key is not kept after an error"),
    "window_unpublished": noop("None: how long it lasts is not published"),
}


def protection(
    protected: Protected, *, attempts: int, may_have_had_effect: bool, left: str = "", since: str = ""
) -> ProtectionWords:
    """Whether sending again is safe, in a few words. `left` and `since` are spans as text: until it ends, since it did."""
    if not attempts:
        return ProtectionWords("protected", _("Nothing was sent"))
    if not may_have_had_effect:
        return ProtectionWords("protected", _("No attempt took effect"))
    if protected.protected:
        kind = _(_KIND_WORDS[protected.kind])
        if not left:
            return ProtectionWords("protected", kind)
        own = (
            _("%(kind)s, your own window, %(left)s left")
            if protected.own_window
            else _("%(kind)s, %(left)s left")
        )
        return ProtectionWords("protected", own % {"kind": kind, "left": left})
    if protected.why == "expired":
        text = _("Expired %(since)s ago") % {"since": since} if since else _("Ends too soon for an attempt")
        return ProtectionWords("expired", text)
    return ProtectionWords("unprotected", _(_UNPROTECTED.get(protected.why, _UNPROTECTED["none_documented"])))


def accepted_protection() -> ProtectionWords:
    """What was taken over is not sent again, whatever protects it."""
    return ProtectionWords("protected", _("Taken over: never sent again"))


def undelivered_protection() -> ProtectionWords:
    """What was taken over and then not delivered had an effect all the same, and is not sent again."""
    return ProtectionWords("protected", _("Taken over, not delivered: never sent again"))


def sending_again(protected: Protected, *, may_have_had_effect: bool, until: str, ended: str) -> str:
    """What sending the same request again risks, in a sentence. `until` and `ended` are times as text, "" for none."""
    if not may_have_had_effect:
        return _("What was sent so far changed nothing, so it can’t happen twice.")
    if protected.protected and until:
        return _("The destination recognises the same request, if it is sent before %(until)s.") % {
            "until": until
        }
    if protected.why == "expired" and ended:
        return _("The destination recognised it until %(ended)s only: sent again, it may happen twice.") % {
            "ended": ended
        }
    return protected.sentence


def stopped_protection(reason: HoldReason) -> ProtectionWords:
    """While a destination is stopped, nothing is sent to it; an open circuit lets trials through."""
    if reason is R.CIRCUIT_OPEN:
        return ProtectionWords("protected", _("Only single trials are sent there"))
    return ProtectionWords("protected", _("Nothing is sent there now"))


def event_protection() -> ProtectionWords:
    """A question about an event comes before anything is sent for it."""
    return ProtectionWords("protected", _("Nothing was sent for it"))


def documented_protection(profile: ActionProfile, window: str) -> ProtectionWords:
    """What a profile documents, for the page of its destination: “Idempotency key, 1 d window”."""
    kind, source = profile.protection.kind, profile.protection.source
    if kind is ProtectionKind.NONE:
        return ProtectionWords("unprotected", _(_UNPROTECTED["none_documented"]))
    text = _(_KIND_WORDS[kind])
    if source is None or not source.confirmed:
        return ProtectionWords(
            "expired", _("%(kind)s: without a confirmed source, treated as none") % {"kind": text}
        )
    if window:
        text = _("%(kind)s, %(window)s window") % {"kind": text, "window": window}
    return ProtectionWords("protected", text)


# The journal

ENTRY_WORDS: Mapping[str, str] = {
    "operation_recorded": noop("Operation recorded"),
    "event_received": noop("Event received"),
    "event_named": noop("Event named by an automation"),
    "event_added": noop("Event added to an operation"),
    "event_held": noop("Question about an event opened"),
    "event_hold_ended": noop("Question about an event ended"),
    "attempt_opened": noop("Attempt opened"),
    "attempt_ended": noop("Attempt ended"),
    "lease_ended": noop("Lease ended without a word"),
    "lookup_ended": noop("Lookup ended"),
    "deadline_came": noop("Deadline came"),
    "answered": noop("Hold answered"),
    "answer_proposed": noop("Answer proposed"),
    "proposal_dismissed": noop("Proposed answer dismissed"),
    "proposal_withdrawn": noop("Proposed answer taken back"),
    "assigned": noop("Hold assigned"),
    "reminded": noop("Owner reminded"),
    "escalated": noop("Hold escalated"),
    "absence_added": noop("Absence added"),
    "absence_called_off": noop("Absence ended early"),
    "channel_added": noop("Channel added"),
    "channel_removed": noop("Channel removed"),
    "noted": noop("Note written"),
    "check_requested": noop("Check requested"),
    "cancel_requested": noop("Operation cancelled"),
    "approved": noop("Request approved"),
    "approvers_changed": noop("Who may approve changed"),
    "content_proposed": noop("Content version proposed"),
    "content_approved": noop("Content version approved"),
    "content_rejected": noop("Content version rejected"),
    "content_waiting_rejected": noop("What waited for a content version rejected"),
    "request_rejected": noop("Changed request rejected"),
    "content_moved": noop("Operation moved to another content version"),
    "withdrawn": noop("Answer taken back"),
    "revealed": noop("Masked values shown"),
    "sending_stopped": noop("Sending stopped"),
    "sending_resumed": noop("Sending goes on"),
    "sending_off": noop("All sending turned off"),
    "sending_on": noop("All sending turned on"),
    "definition_loaded": noop("Definition loaded"),
    "backup_restored": noop("Backup restored"),
    "replayed": noop("Step begun by a replay"),
    "replay_started": noop("Replay started"),
    "replay_paused": noop("Replay paused"),
    "replay_resumed": noop("Replay resumed"),
    "replay_aborting": noop("Replay aborted"),
    "replay_aborted": noop("Aborted replay ended"),
    "replay_finished": noop("Replay ended"),
    "bulk_begun": noop("Bulk run begun"),
    "bulk_aborted": noop("Bulk run aborted"),
    "list_kept": noop("List of references kept"),
    "statement_kept": noop("Provider’s statement kept"),
    "rule_added": noop("Assignment rule added"),
    "rule_changed": noop("Assignment rule changed"),
    "rule_moved": noop("Assignment rule moved"),
    "rule_removed": noop("Assignment rule removed"),
}
# Kinds of actors: all of them, and one of them, whose name stands after it.
ACTOR_WORDS: Mapping[str, tuple[str, str]] = {
    "person": (noop("People"), noop("A person")),
    "token": (noop("Automations"), noop("An automation")),
    "engine": (noop("The machine"), noop("The machine")),
    "worker": (noop("Workers"), noop("A worker")),
    "destination": (noop("Destinations"), noop("Destination")),
    "source": (noop("Sources"), noop("Source")),
    "command": (noop("Commands"), noop("Command")),
}


_EVIDENCE_WORDS: Mapping[str, str] = {
    "reply": noop("What a send brought"),
    "lookup": noop("Lookup"),
    "report": noop("Delivery report"),
    "statement": noop("A person’s statement"),
    "list": noop("Row of the destination’s list"),
}


def evidence_word(kind: str) -> str:
    """A kind of evidence in words; one that has none yet is shown as it is written."""
    return _(_EVIDENCE_WORDS[kind]) if kind in _EVIDENCE_WORDS else kind.replace("_", " ").capitalize()


def entry_word(kind: str) -> str:
    """A kind of entry in words; a kind that has none yet is shown as it is written."""
    return _(ENTRY_WORDS[kind]) if kind in ENTRY_WORDS else kind.replace("_", " ").capitalize()


def actor_word(kind: str) -> str:
    """One actor of a kind; its name may follow."""
    return _(ACTOR_WORDS[kind][1]) if kind in ACTOR_WORDS else kind


def actors_word(kind: str) -> str:
    """All actors of a kind, to choose from."""
    return _(ACTOR_WORDS[kind][0]) if kind in ACTOR_WORDS else kind


# Words that sentences share


def lasted(seconds: float) -> str:
    """How long a send took: “1.2 s”; what rounds to nothing is said to be short, not to be nothing."""
    return f"{seconds:.1f} s" if seconds >= 0.05 else _("less than 0.1 s")


def listed(words: tuple[str, ...] | list[str], last_by: str = "and") -> str:
    """“a”, “a and b”, “a, b or c”; from the sixth on they are counted."""
    if len(words) > 6:
        return _("%(some)s and %(count)s more") % {"some": ", ".join(words[:5]), "count": len(words) - 5}
    if len(words) < 2:
        return "".join(words)
    template = _("%(some)s or %(last)s") if last_by == "or" else _("%(some)s and %(last)s")
    return template % {"some": ", ".join(words[:-1]), "last": words[-1]}


def _listed_are(labels: tuple[str, ...]) -> str:
    """“the due date is”, “the due date and the queue are”."""
    words = [_("the %(field)s") % {"field": _inside(label)} for label in labels]
    return ngettext("%(words)s is", "%(words)s are", len(words)) % {"words": listed(words)}


def _inside(label: str) -> str:
    """A label inside a sentence: without its capital, unless the word is written in capitals."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]
