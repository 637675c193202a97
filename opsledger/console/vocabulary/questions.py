"""Words of what people are asked: the reasons of holds."""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

from opsledger.console.vocabulary.rows import Rows

QUESTIONS: Rows = {
    "hold": (
        (
            "outcome_unknown",
            noop("Outcome unknown"),
            "unknown",
            noop("The request may have arrived; no evidence says whether it took effect. An owner answers."),
        ),
        (
            "protection_expired",
            noop("Protection expired"),
            "expired",
            noop(
                "The destination no longer promises to recognise the request: sent again, it may happen twice."
            ),
        ),
        (
            "integrity_alarm",
            noop("Integrity alarm"),
            "integrity-alarm",
            noop("The destination has processed something under this key that is not what was approved."),
        ),
        (
            "record_differs",
            noop("Record differs"),
            "differs",
            noop("A record with this action’s own identity exists, and a decisive field is not as approved."),
        ),
        (
            "duplicate_found",
            noop("Duplicate found"),
            "duplicate",
            noop("More than one record carries this action’s identity."),
        ),
        (
            "disputed",
            noop("Disputed"),
            "disputed",
            noop("Later evidence, or an owner, contradicts what was answered."),
        ),
        (
            "rejected_by_destination",
            noop("Rejected by destination"),
            "rejected",
            noop("The destination refused the request as it is. Nothing changed there."),
        ),
        (
            "attempts_exhausted",
            noop("Attempts exhausted"),
            "exhausted",
            noop("Every try ended without change, and no more are allowed. A person may grant more."),
        ),
        (
            "nobody_claimed",
            noop("Nobody claimed"),
            "nobody-claimed",
            noop("The automation that does this step did not take it in time. Nothing was sent."),
        ),
        (
            "too_late",
            noop("Too late"),
            "too-late",
            noop("Its latest moment passed before anything was sent."),
        ),
        (
            "delivery_not_proven",
            noop("Delivery not proven"),
            "delivery-not-proven",
            noop(
                "It was accepted, and no evidence of its final effect came in time. It is never sent again."
            ),
        ),
        (
            "delivery_failed",
            noop("Delivery failed"),
            "delivery-failed",
            noop("It was accepted, and then reported as not delivered. A corrected one is a new operation."),
        ),
        (
            "data_missing",
            noop("Data missing"),
            "data-missing",
            noop(
                "The request can’t be made: a field has no value. A person supplies it; somebody else approves."
            ),
        ),
        (
            "approval_needed",
            noop("Approval needed"),
            "approval",
            noop("What would be sent is not approved. Somebody who neither wrote nor asked for it decides."),
        ),
        (
            "access_refused",
            noop("Access refused"),
            "access-refused",
            noop(
                "The destination does not accept our credentials. Everything for it waits; nothing is lost."
            ),
        ),
        (
            "paused",
            noop("Paused"),
            "paused",
            noop("A person stopped sending to this destination. Everything for it waits."),
        ),
        (
            "circuit_open",
            noop("Circuit open"),
            "open",
            noop("Too many sends failed in a row. Everything for this destination waits; nothing is lost."),
        ),
        (
            "event_conflict",
            noop("Event conflict"),
            "event-conflict",
            noop("The same event came again with another body. No operation is made from a guess."),
        ),
    ),
}
