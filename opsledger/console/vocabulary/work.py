"""Words of operations, their steps and attempts, and the content that they carry."""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

from opsledger.console.vocabulary.rows import Rows

WORK: Rows = {
    "step": (
        (
            "waiting",
            noop("Waiting"),
            "waiting",
            noop("An earlier step or an approval is missing. Nothing was sent."),
        ),
        (
            "ready",
            noop("Ready"),
            "ready",
            noop("It is sent when its turn comes, unless a hold or its destination stops it."),
        ),
        (
            "in_flight",
            noop("In flight"),
            "in-flight",
            noop("An attempt is open. Its reply, or the end of its lease, ends this."),
        ),
        (
            "accepted",
            noop("Accepted"),
            "accepted",
            noop(
                "The destination took the work over; its final effect is not proven. It is never sent again."
            ),
        ),
        (
            "confirmed",
            noop("Confirmed"),
            "confirmed",
            noop("The effect is proven by evidence or by a person’s answer."),
        ),
        (
            "unknown",
            noop("Unknown"),
            "unknown",
            noop(
                "An attempt may have had an effect, or not. Evidence or a person ends this; silence never does."
            ),
        ),
        (
            "failed",
            noop("Failed (no change)"),
            "failed",
            noop("Proven: nothing changed at the destination. No more tries."),
        ),
        (
            "skipped",
            noop("Skipped"),
            "skipped",
            noop("Left out by a person’s decision or by the workflow’s own condition."),
        ),
        ("cancelled", noop("Cancelled"), "cancelled", noop("Never to be sent, and nothing was.")),
    ),
    "operation": (
        ("running", noop("Running"), "running", noop("Steps are going on, and nothing is in doubt.")),
        (
            "reconciling",
            noop("Reconciling"),
            "reconciling",
            noop("A step’s outcome is unknown, and the machine is looking for evidence."),
        ),
        (
            "awaiting_approval",
            noop("Awaiting approval"),
            "approval",
            noop("Its content needs an approval by somebody who is neither its author nor its requester."),
        ),
        (
            "held",
            noop("Held"),
            "held",
            noop("A question is open for a person. Nothing is sent until it is answered."),
        ),
        ("completed", noop("Completed"), "completed", noop("All its steps are done.")),
        (
            "failed",
            noop("Failed"),
            "failed",
            noop("It will not be finished. What did take effect is listed beside it."),
        ),
        (
            "cancelled",
            noop("Cancelled"),
            "cancelled",
            noop("Somebody cancelled it. What did take effect is listed beside it."),
        ),
        (
            "closed_unknown",
            noop("Closed as never known"),
            "closed-unknown",
            noop("An owner ended it without knowing. It is counted apart for good; late truth reopens it."),
        ),
    ),
    "outcome": (
        ("confirmed", noop("Confirmed"), "confirmed", noop("The effect of this attempt is proven.")),
        (
            "accepted",
            noop("Accepted"),
            "accepted",
            noop("Taken over by the destination; the final effect is not proven."),
        ),
        ("no_change", noop("No change"), "cancelled", noop("Proven: this attempt had no effect.")),
        ("unknown", noop("Unknown"), "unknown", noop("Nobody knows yet whether this attempt had an effect.")),
    ),
    "no_change": (
        ("not_sent", noop("Not sent"), "not-sent", noop("No byte of the request left.")),
        (
            "deferred",
            noop("Deferred"),
            "deferred",
            noop("The destination put it off, and says that nothing changed."),
        ),
        (
            "rejected",
            noop("Rejected"),
            "rejected",
            noop("The destination refused it, and says that nothing changed."),
        ),
        (
            "absent",
            noop("Absent"),
            "absent",
            noop("It was looked for as the destination documents, and is not there."),
        ),
    ),
    "version": (
        (
            "proposed",
            noop("Approval needed"),
            "approval",
            noop("Proposed. Nothing is sent with it until somebody else approves it."),
        ),
        (
            "approved",
            noop("Approved"),
            "confirmed",
            noop("What was shown to the person who approved may be sent, and nothing else."),
        ),
        ("rejected", noop("Rejected"), "rejected", noop("Somebody said no, and why. It is never sent.")),
        (
            "superseded",
            noop("Superseded"),
            "cancelled",
            noop("A newer version took its place. What was sent with it stays."),
        ),
    ),
}
