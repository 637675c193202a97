"""What the ledger knows about an open question, and the one or two sentences that say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.utils.translation import ngettext

from opsledger.console.wording.phrases import listed, listed_are
from opsledger.rules.profile import Settles
from opsledger.rules.states import HoldReason, StepState

R = HoldReason


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


# Reasons that ask whether it happened at all.
UNKNOWNS = frozenset({R.OUTCOME_UNKNOWN, R.PROTECTION_EXPIRED, R.INTEGRITY_ALARM})
# Answers of lookups that are shown to the owner where recovery is not automatic.
_PROPOSED: Mapping[str, str] = {
    "confirmed": noop("A lookup found this action’s own record, %(reference)s, as approved."),
    "accepted": noop(
        "A lookup found this action’s own record, %(reference)s; its final effect is not proven."
    ),
    "absent": noop("Repeated lookups prove that it is not there."),
    "failed": noop("The destination says that it failed, without effect."),
    "running": noop("The destination is still at work on it."),
}


def what_we_know(known: Known) -> str:
    """One or two sentences: what is established so far, and what it does not prove."""
    if known.reason in UNKNOWNS:
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
        return _(_PROPOSED[known.looked]) % {"reference": "".join(known.references[:1])}
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
            "fields": listed_are(known.differing)
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
            "fields": listed_are(known.differing),
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
