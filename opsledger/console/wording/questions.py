"""What each hold asks, and what has to be decided next."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.wording.knowledge import UNKNOWNS, Known
from opsledger.rules.states import HoldReason

R = HoldReason


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

# After answers of lookups that are shown to the owner where recovery is not automatic.
_PROPOSED: Mapping[str, str] = {
    "confirmed": noop("Confirm that %(reference)s is it"),
    "accepted": noop("Confirm that %(reference)s is it"),
    "absent": noop("Confirm that it did not happen"),
    "failed": noop("Confirm that it did not happen"),
    "running": noop("Wait, and ask again"),
}


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
    if known.reason in UNKNOWNS:
        if known.looked in _PROPOSED:
            return _(_PROPOSED[known.looked]) % {"reference": "".join(known.references[:1])}
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
