"""Word, shape and paragraph of every state and reason that people see: one table, so that they never drift.

`shape` names the symbol in static/icons.svg and the hue in static/css/tokens.css. The paragraphs say what is
true now and what ends it; `/states/` shows them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from django.utils.translation import gettext

from opsledger.rules.bulk import BulkResult, BulkState
from opsledger.rules.list_matching import Cover, Match
from opsledger.rules.notice_words import MailingState
from opsledger.rules.profile import ProtectionKind
from opsledger.rules.record import Step
from opsledger.rules.replay_words import ReplayState
from opsledger.rules.states import HoldReason, NoChange, OperationState, Outcome, StepState


@dataclass(frozen=True, slots=True)
class Shown:
    kind: str
    value: str
    word: str
    shape: str
    paragraph: str


KINDS = {
    "step": "Step",
    "operation": "Operation",
    "hold": "Hold, and why",
    "outcome": "Outcome of an attempt",
    "no_change": "No change, and how it is known",
    "protection": "Protection now",
    "protection_kind": "Protection, as documented",
    "circuit": "Circuit of a destination",
    "version": "Content version",
    "replay": "Replay",
    "item": "Step in a replay",
    "bulk_run": "Bulk run",
    "bulk_item": "Hold in a bulk run",
    "list_row": "Row of a list of references",
    "cover": "Hold beside a provider’s statement",
    "token": "API token",
    "person": "Person",
    "mailing": "Message with notices",
}

_KIND_OF_ENUM: dict[type[Enum], str] = {
    StepState: "step",
    OperationState: "operation",
    HoldReason: "hold",
    Outcome: "outcome",
    NoChange: "no_change",
    ProtectionKind: "protection_kind",
    ReplayState: "replay",
    BulkState: "bulk_run",
    BulkResult: "bulk_item",
    Match: "list_row",
    Cover: "cover",
    MailingState: "mailing",
}

_ROWS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "step": (
        ("waiting", "Waiting", "waiting", "An earlier step or an approval is missing. Nothing was sent."),
        (
            "ready",
            "Ready",
            "ready",
            "It is sent when its turn comes, unless a hold or its destination stops it.",
        ),
        (
            "in_flight",
            "In flight",
            "in-flight",
            "An attempt is open. Its reply, or the end of its lease, ends this.",
        ),
        (
            "accepted",
            "Accepted",
            "accepted",
            "The destination took the work over; its final effect is not proven. It is never sent again.",
        ),
        ("confirmed", "Confirmed", "confirmed", "The effect is proven by evidence or by a person’s answer."),
        (
            "unknown",
            "Unknown",
            "unknown",
            "An attempt may have had an effect, or not. Evidence or a person ends this; silence never does.",
        ),
        (
            "failed",
            "Failed (no change)",
            "failed",
            "Proven: nothing changed at the destination. No more tries.",
        ),
        (
            "skipped",
            "Skipped",
            "skipped",
            "Left out by a person’s decision or by the workflow’s own condition.",
        ),
        ("cancelled", "Cancelled", "cancelled", "Never to be sent, and nothing was."),
    ),
    "operation": (
        ("running", "Running", "running", "Steps are going on, and nothing is in doubt."),
        (
            "reconciling",
            "Reconciling",
            "reconciling",
            "A step’s outcome is unknown, and the machine is looking for evidence.",
        ),
        (
            "awaiting_approval",
            "Awaiting approval",
            "approval",
            "Its content needs an approval by somebody who is neither its author nor its requester.",
        ),
        ("held", "Held", "held", "A question is open for a person. Nothing is sent until it is answered."),
        ("completed", "Completed", "completed", "All its steps are done."),
        ("failed", "Failed", "failed", "It will not be finished. What did take effect is listed beside it."),
        (
            "cancelled",
            "Cancelled",
            "cancelled",
            "Somebody cancelled it. What did take effect is listed beside it.",
        ),
        (
            "closed_unknown",
            "Closed as never known",
            "closed-unknown",
            "An owner ended it without knowing. It is counted apart for good; late truth reopens it.",
        ),
    ),
    "hold": (
        (
            "outcome_unknown",
            "Outcome unknown",
            "unknown",
            "The request may have arrived; no evidence says whether it took effect. An owner answers.",
        ),
        (
            "protection_expired",
            "Protection expired",
            "expired",
            "The destination no longer promises to recognise the request: sent again, it may happen twice.",
        ),
        (
            "integrity_alarm",
            "Integrity alarm",
            "integrity-alarm",
            "The destination has processed something under this key that is not what was approved.",
        ),
        (
            "record_differs",
            "Record differs",
            "differs",
            "A record with this action’s own identity exists, and a decisive field is not as approved.",
        ),
        (
            "duplicate_found",
            "Duplicate found",
            "duplicate",
            "More than one record carries this action’s identity.",
        ),
        ("disputed", "Disputed", "disputed", "Later evidence, or an owner, contradicts what was answered."),
        (
            "rejected_by_destination",
            "Rejected by destination",
            "rejected",
            "The destination refused the request as it is. Nothing changed there.",
        ),
        (
            "attempts_exhausted",
            "Attempts exhausted",
            "exhausted",
            "Every try ended without change, and no more are allowed. A person may grant more.",
        ),
        (
            "nobody_claimed",
            "Nobody claimed",
            "nobody-claimed",
            "The automation that does this step did not take it in time. Nothing was sent.",
        ),
        ("too_late", "Too late", "too-late", "Its latest moment passed before anything was sent."),
        (
            "delivery_not_proven",
            "Delivery not proven",
            "delivery-not-proven",
            "It was accepted, and no evidence of its final effect came in time. It is never sent again.",
        ),
        (
            "delivery_failed",
            "Delivery failed",
            "delivery-failed",
            "It was accepted, and then reported as not delivered. A corrected one is a new operation.",
        ),
        (
            "data_missing",
            "Data missing",
            "data-missing",
            "The request can’t be made: a field has no value. A person supplies it; somebody else approves.",
        ),
        (
            "approval_needed",
            "Approval needed",
            "approval",
            "What would be sent is not approved. Somebody who neither wrote nor asked for it decides.",
        ),
        (
            "access_refused",
            "Access refused",
            "access-refused",
            "The destination does not accept our credentials. Everything for it waits; nothing is lost.",
        ),
        (
            "paused",
            "Paused",
            "paused",
            "A person stopped sending to this destination. Everything for it waits.",
        ),
        (
            "circuit_open",
            "Circuit open",
            "open",
            "Too many sends failed in a row. Everything for this destination waits; nothing is lost.",
        ),
        (
            "event_conflict",
            "Event conflict",
            "event-conflict",
            "The same event came again with another body. No operation is made from a guess.",
        ),
    ),
    "outcome": (
        ("confirmed", "Confirmed", "confirmed", "The effect of this attempt is proven."),
        (
            "accepted",
            "Accepted",
            "accepted",
            "Taken over by the destination; the final effect is not proven.",
        ),
        ("no_change", "No change", "cancelled", "Proven: this attempt had no effect."),
        ("unknown", "Unknown", "unknown", "Nobody knows yet whether this attempt had an effect."),
    ),
    "no_change": (
        ("not_sent", "Not sent", "not-sent", "No byte of the request left."),
        ("deferred", "Deferred", "deferred", "The destination put it off, and says that nothing changed."),
        ("rejected", "Rejected", "rejected", "The destination refused it, and says that nothing changed."),
        ("absent", "Absent", "absent", "It was looked for as the destination documents, and is not there."),
    ),
    "protection": (
        (
            "protected",
            "Protected",
            "protected",
            "Sending the same request again is documented to have no second effect.",
        ),
        (
            "unprotected",
            "None: a resend may duplicate",
            "unprotected",
            "Nothing documented stops a second effect.",
        ),
        ("expired", "Protection expired", "expired", "It was protected once; the documented window is over."),
    ),
    "protection_kind": (
        ("none", "None: a resend may duplicate", "unprotected", "The destination documents no protection."),
        (
            "idempotency_key",
            "Idempotency key",
            "protected",
            "The same key with the same bytes is recognised within a window.",
        ),
        (
            "client_id",
            "Own id",
            "protected",
            "The record carries an id of ours that the destination keeps unique.",
        ),
        (
            "upsert",
            "Upsert",
            "protected",
            "The same write again leaves the same record, while nobody changed it since.",
        ),
        (
            "conditional",
            "Conditional",
            "protected",
            "A repeat is refused by its own precondition, which says nothing about the first.",
        ),
    ),
    "circuit": (
        ("closed", "Sending", "closed", "Requests go out."),
        ("half_open", "Circuit half open", "half-open", "One trial at a time goes out. The others wait."),
        ("open", "Circuit open", "open", "Nothing goes out until the next trial. Everything waits."),
    ),
    "version": (
        (
            "proposed",
            "Approval needed",
            "approval",
            "Proposed. Nothing is sent with it until somebody else approves it.",
        ),
        (
            "approved",
            "Approved",
            "confirmed",
            "What was shown to the person who approved may be sent, and nothing else.",
        ),
        ("rejected", "Rejected", "rejected", "Somebody said no, and why. It is never sent."),
        (
            "superseded",
            "Superseded",
            "cancelled",
            "A newer version took its place. What was sent with it stays.",
        ),
    ),
    "replay": (
        ("running", "Running", "running", "Its steps are begun at its rate, until each has come to rest."),
        (
            "paused",
            "Paused",
            "paused",
            "A person stopped it: nothing more is begun until it is resumed. What was begun goes on.",
        ),
        (
            "aborting",
            "Aborting",
            "half-open",
            "A person ended it: nothing more is begun. What was begun is still finished, and counted.",
        ),
        ("aborted", "Aborted", "cancelled", "It was ended before its time; every step is accounted for."),
        (
            "finished",
            "Ended",
            "completed",
            "Every step is accounted for. Only proven effects count as recovered.",
        ),
    ),
    "item": (
        ("recovered", "Recovered", "confirmed", "It was begun, and its effect is proven."),
        (
            "accepted",
            "Accepted",
            "accepted",
            "It was begun, and the destination took it over; its final effect is not proven.",
        ),
        ("held", "Held", "held", "It was begun and came to rest at a question for a person."),
        (
            "closed_unknown",
            "Closed as never known",
            "closed-unknown",
            "It was begun, and a person closed it as never known. Nobody is asked any more.",
        ),
        ("failed", "Failed (no change)", "failed", "It was begun, had no effect, and was ended."),
        ("cancelled", "Cancelled", "cancelled", "It was begun, and then it or its operation was cancelled."),
        ("behind", "Behind", "waiting", "An earlier step of its operation did not get done."),
        ("waiting", "Waiting", "waiting", "Its turn has not come."),
        ("started", "Under way", "in-flight", "It was begun, and has not come to rest."),
        ("skipped", "Skipped", "skipped", "It had changed since the plan, so it was left alone."),
        ("aborted", "Not begun", "cancelled", "The replay was aborted before its turn came."),
        ("kept", "Kept as done", "completed", "It was done before. Nothing was sent for it."),
        ("refused", "Could not run", "access-refused", "The plan said why. Nothing was sent for it."),
    ),
    "bulk_run": (
        (
            "running",
            "Running",
            "running",
            "Its holds have their turn one after the other, until each has its result.",
        ),
        ("finished", "Ended", "completed", "Every hold has its result."),
        (
            "aborted",
            "Aborted",
            "cancelled",
            "A person ended it before its time; what had no turn was left alone.",
        ),
    ),
    "bulk_item": (
        ("done", "Done", "confirmed", "It was done, and stands in the hold’s own history."),
        (
            "skipped",
            "Skipped",
            "skipped",
            "The hold was closed or changed since it was selected, so it was left alone.",
        ),
        ("refused", "Refused", "access-refused", "The rules said no, and why. Nothing was changed."),
        ("left", "Left alone", "cancelled", "There was nothing to do for it, and it says why."),
        ("open", "Still to come", "waiting", "Its turn has not come."),
    ),
    "list_row": (
        ("matches", "Matches", "confirmed", "It carries the identity of a hold that was selected."),
        (
            "to_be_read",
            "To be read",
            "waiting",
            "It names only a reference; the destination is read to see whose it is.",
        ),
        (
            "differs",
            "Differs",
            "differs",
            "It is about a hold, but a decisive field of the list is another one.",
        ),
        ("two_records", "Two records", "duplicate", "The list says two things of one identity."),
        (
            "reference_twice",
            "Reference twice",
            "duplicate",
            "The list gives one reference to several identities.",
        ),
        ("taken", "Reference taken", "differs", "Another operation holds this reference already."),
        ("changed", "Hold changed", "skipped", "The hold was closed or changed since it was selected."),
        ("not_asked", "Not asked", "skipped", "The hold does not ask whether it happened."),
        ("repeated", "Said before", "skipped", "Another row says the same."),
        ("no_reference", "No reference", "data-missing", "It names an identity and no reference."),
        ("no_such_identity", "Not selected", "skipped", "No hold that was selected has this identity."),
        ("not_read", "Not found by it", "unknown", "The destination did not tell whose reference it is."),
        ("only_reference", "Reference only", "unknown", "The destination can’t be read by a reference."),
        ("unreadable", "Unreadable", "data-missing", "The row itself can’t be read."),
    ),
    "cover": (
        ("covered", "Covered", "confirmed", "The statement says that it did not happen."),
        ("not_named", "Not named", "unknown", "The statement’s list does not name it."),
        ("changed", "Changed", "skipped", "The hold was closed or changed since it was selected."),
        ("not_asked", "Not asked", "skipped", "The hold does not ask whether it happened."),
        ("found", "Found", "disputed", "A record was found or named for it, against the statement."),
    ),
    "token": (
        ("active", "Active", "confirmed", "It opens the API within its scopes."),
        ("expired", "Expired", "expired", "Its date has passed."),
        ("revoked", "Revoked", "cancelled", "Somebody ended it."),
    ),
    "person": (
        ("active", "Active", "confirmed", "May sign in."),
        ("deactivated", "Deactivated", "cancelled", "Can’t sign in. The name stays on what was decided."),
    ),
    "mailing": (
        (
            "waiting",
            "Waiting",
            "waiting",
            "Its time has not come, or the last try failed and another follows.",
        ),
        ("sending", "Being sent", "in-flight", "It was written down before its first byte left."),
        (
            "sent",
            "Sent",
            "confirmed",
            "The mail server or the service took it; that it was read is not known.",
        ),
        ("failed", "Failed", "failed", "It was refused at every try. The notices stay on their page."),
        ("unknown", "Not known to have arrived", "unknown", "A try broke off; no further one is made."),
    ),
}

TABLE: dict[tuple[str, str], Shown] = {
    (kind, row[0]): Shown(kind, *row) for kind, rows in _ROWS.items() for row in rows
}


def rows_of(kind: str) -> list[Shown]:
    return [shown for (of_kind, _), shown in TABLE.items() if of_kind == kind]


def shown(state: object, kind: str = "") -> Shown:
    """The row of a state. A member of an enumeration names its own kind; text is looked for in KINDS' order.

    A value that no row knows is shown as it is, with the shape of doubt: never hidden, never an error.
    """
    value = str(state.value if isinstance(state, Enum) else state)
    kind = kind or _KIND_OF_ENUM.get(type(state), "") if isinstance(state, Enum) else kind
    for candidate in [kind] if kind else KINDS:
        found = TABLE.get((candidate, value))
        if found is not None:
            return found
    return Shown(kind, value, value.replace("_", " ").capitalize() or "No state", "unknown", "")


def step_word(step: Step) -> str:
    """The state’s word; failures after a destination took the work over are told apart."""
    return gettext("Failed (not delivered)") if step.undelivered else shown(step.state).word
