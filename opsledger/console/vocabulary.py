"""Word, shape and paragraph of every state and reason that people see: one table, so that they never drift.

`shape` names the symbol in static/icons.svg and the hue in static/css/tokens.css. The paragraphs say what is
true now and what ends it; `/states/` shows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

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
    "step": noop("Step"),
    "operation": noop("Operation"),
    "hold": noop("Hold, and why"),
    "outcome": noop("Outcome of an attempt"),
    "no_change": noop("No change, and how it is known"),
    "protection": noop("Protection now"),
    "protection_kind": noop("Protection, as documented"),
    "circuit": noop("Circuit of a destination"),
    "version": noop("Content version"),
    "replay": noop("Replay"),
    "item": noop("Step in a replay"),
    "bulk_run": noop("Bulk run"),
    "bulk_item": noop("Hold in a bulk run"),
    "list_row": noop("Row of a list of references"),
    "cover": noop("Hold beside a provider’s statement"),
    "token": noop("API token"),
    "person": noop("Person"),
    "mailing": noop("Message with notices"),
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
    "protection": (
        (
            "protected",
            noop("Protected"),
            "protected",
            noop("Sending the same request again is documented to have no second effect."),
        ),
        (
            "unprotected",
            noop("None: a resend may duplicate"),
            "unprotected",
            noop("Nothing documented stops a second effect."),
        ),
        (
            "expired",
            noop("Protection expired"),
            "expired",
            noop("It was protected once; the documented window is over."),
        ),
    ),
    "protection_kind": (
        (
            "none",
            noop("None: a resend may duplicate"),
            "unprotected",
            noop("The destination documents no protection."),
        ),
        (
            "idempotency_key",
            noop("Idempotency key"),
            "protected",
            noop("The same key with the same bytes is recognised within a window."),
        ),
        (
            "client_id",
            noop("Own id"),
            "protected",
            noop("The record carries an id of ours that the destination keeps unique."),
        ),
        (
            "upsert",
            noop("Upsert"),
            "protected",
            noop("The same write again leaves the same record, while nobody changed it since."),
        ),
        (
            "conditional",
            noop("Conditional"),
            "protected",
            noop("A repeat is refused by its own precondition, which says nothing about the first."),
        ),
    ),
    "circuit": (
        ("closed", noop("Sending"), "closed", noop("Requests go out.")),
        (
            "half_open",
            noop("Circuit half open"),
            "half-open",
            noop("One trial at a time goes out. The others wait."),
        ),
        (
            "open",
            noop("Circuit open"),
            "open",
            noop("Nothing goes out until the next trial. Everything waits."),
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
    "replay": (
        (
            "running",
            noop("Running"),
            "running",
            noop("Its steps are begun at its rate, until each has come to rest."),
        ),
        (
            "paused",
            noop("Paused"),
            "paused",
            noop("A person stopped it: nothing more is begun until it is resumed. What was begun goes on."),
        ),
        (
            "aborting",
            noop("Aborting"),
            "half-open",
            noop("A person ended it: nothing more is begun. What was begun is still finished, and counted."),
        ),
        (
            "aborted",
            noop("Aborted"),
            "cancelled",
            noop("It was ended before its time; every step is accounted for."),
        ),
        (
            "finished",
            noop("Ended"),
            "completed",
            noop("Every step is accounted for. Only proven effects count as recovered."),
        ),
    ),
    "item": (
        ("recovered", noop("Recovered"), "confirmed", noop("It was begun, and its effect is proven.")),
        (
            "accepted",
            noop("Accepted"),
            "accepted",
            noop("It was begun, and the destination took it over; its final effect is not proven."),
        ),
        ("held", noop("Held"), "held", noop("It was begun and came to rest at a question for a person.")),
        (
            "closed_unknown",
            noop("Closed as never known"),
            "closed-unknown",
            noop("It was begun, and a person closed it as never known. Nobody is asked any more."),
        ),
        ("failed", noop("Failed (no change)"), "failed", noop("It was begun, had no effect, and was ended.")),
        (
            "cancelled",
            noop("Cancelled"),
            "cancelled",
            noop("It was begun, and then it or its operation was cancelled."),
        ),
        ("behind", noop("Behind"), "waiting", noop("An earlier step of its operation did not get done.")),
        ("waiting", noop("Waiting"), "waiting", noop("Its turn has not come.")),
        ("started", noop("Under way"), "in-flight", noop("It was begun, and has not come to rest.")),
        ("skipped", noop("Skipped"), "skipped", noop("It had changed since the plan, so it was left alone.")),
        ("aborted", noop("Not begun"), "cancelled", noop("The replay was aborted before its turn came.")),
        ("kept", noop("Kept as done"), "completed", noop("It was done before. Nothing was sent for it.")),
        (
            "refused",
            noop("Could not run"),
            "access-refused",
            noop("The plan said why. Nothing was sent for it."),
        ),
    ),
    "bulk_run": (
        (
            "running",
            noop("Running"),
            "running",
            noop("Its holds have their turn one after the other, until each has its result."),
        ),
        ("finished", noop("Ended"), "completed", noop("Every hold has its result.")),
        (
            "aborted",
            noop("Aborted"),
            "cancelled",
            noop("A person ended it before its time; what had no turn was left alone."),
        ),
    ),
    "bulk_item": (
        ("done", noop("Done"), "confirmed", noop("It was done, and stands in the hold’s own history.")),
        (
            "skipped",
            noop("Skipped"),
            "skipped",
            noop("The hold was closed or changed since it was selected, so it was left alone."),
        ),
        (
            "refused",
            noop("Refused"),
            "access-refused",
            noop("The rules said no, and why. Nothing was changed."),
        ),
        ("left", noop("Left alone"), "cancelled", noop("There was nothing to do for it, and it says why.")),
        ("open", noop("Still to come"), "waiting", noop("Its turn has not come.")),
    ),
    "list_row": (
        (
            "matches",
            noop("Matches"),
            "confirmed",
            noop("It carries the identity of a hold that was selected."),
        ),
        (
            "to_be_read",
            noop("To be read"),
            "waiting",
            noop("It names only a reference; the destination is read to see whose it is."),
        ),
        (
            "differs",
            noop("Differs"),
            "differs",
            noop("It is about a hold, but a decisive field of the list is another one."),
        ),
        ("two_records", noop("Two records"), "duplicate", noop("The list says two things of one identity.")),
        (
            "reference_twice",
            noop("Reference twice"),
            "duplicate",
            noop("The list gives one reference to several identities."),
        ),
        (
            "taken",
            noop("Reference taken"),
            "differs",
            noop("Another operation holds this reference already."),
        ),
        (
            "changed",
            noop("Hold changed"),
            "skipped",
            noop("The hold was closed or changed since it was selected."),
        ),
        ("not_asked", noop("Not asked"), "skipped", noop("The hold does not ask whether it happened.")),
        ("repeated", noop("Said before"), "skipped", noop("Another row says the same.")),
        (
            "no_reference",
            noop("No reference"),
            "data-missing",
            noop("It names an identity and no reference."),
        ),
        (
            "no_such_identity",
            noop("Not selected"),
            "skipped",
            noop("No hold that was selected has this identity."),
        ),
        (
            "not_read",
            noop("Not found by it"),
            "unknown",
            noop("The destination did not tell whose reference it is."),
        ),
        (
            "only_reference",
            noop("Reference only"),
            "unknown",
            noop("The destination can’t be read by a reference."),
        ),
        ("unreadable", noop("Unreadable"), "data-missing", noop("The row itself can’t be read.")),
    ),
    "cover": (
        ("covered", noop("Covered"), "confirmed", noop("The statement says that it did not happen.")),
        ("not_named", noop("Not named"), "unknown", noop("The statement’s list does not name it.")),
        (
            "changed",
            noop("Changed"),
            "skipped",
            noop("The hold was closed or changed since it was selected."),
        ),
        ("not_asked", noop("Not asked"), "skipped", noop("The hold does not ask whether it happened.")),
        (
            "found",
            noop("Found"),
            "disputed",
            noop("A record was found or named for it, against the statement."),
        ),
    ),
    "token": (
        ("active", noop("Active"), "confirmed", noop("It opens the API within its scopes.")),
        ("expired", noop("Expired"), "expired", noop("Its date has passed.")),
        ("revoked", noop("Revoked"), "cancelled", noop("Somebody ended it.")),
    ),
    "person": (
        ("active", noop("Active"), "confirmed", noop("May sign in.")),
        (
            "deactivated",
            noop("Deactivated"),
            "cancelled",
            noop("Can’t sign in. The name stays on what was decided."),
        ),
    ),
    "mailing": (
        (
            "waiting",
            noop("Waiting"),
            "waiting",
            noop("Its time has not come, or the last try failed and another follows."),
        ),
        ("sending", noop("Being sent"), "in-flight", noop("It was written down before its first byte left.")),
        (
            "sent",
            noop("Sent"),
            "confirmed",
            noop("The mail server or the service took it; that it was read is not known."),
        ),
        (
            "failed",
            noop("Failed"),
            "failed",
            noop("It was refused at every try. The notices stay on their page."),
        ),
        (
            "unknown",
            noop("Not known to have arrived"),
            "unknown",
            noop("A try broke off; no further one is made."),
        ),
    ),
}

TABLE: dict[tuple[str, str], Shown] = {
    (kind, row[0]): Shown(kind, *row) for kind, rows in _ROWS.items() for row in rows
}


@lru_cache(maxsize=16)
def _said(language: str | None) -> Mapping[tuple[str, str], Shown]:
    """The table in one language, made once for each process: every row of a list asks for it."""
    return {key: replace(row, word=_(row.word), paragraph=_(row.paragraph)) for key, row in TABLE.items()}


def rows_of(kind: str) -> list[Shown]:
    return [row for row in _said(get_language()).values() if row.kind == kind]


def shown(state: object, kind: str = "") -> Shown:
    """The row of a state. A member of an enumeration names its own kind; text is looked for in KINDS' order.

    A value that no row knows is shown as it is, with the shape of doubt: never hidden, never an error.
    """
    value = str(state.value if isinstance(state, Enum) else state)
    kind = kind or _KIND_OF_ENUM.get(type(state), "") if isinstance(state, Enum) else kind
    table = _said(get_language())
    for candidate in [kind] if kind else KINDS:
        found = table.get((candidate, value))
        if found is not None:
            return found
    return Shown(kind, value, value.replace("_", " ").capitalize() or _("No state"), "unknown", "")


def step_word(step: Step) -> str:
    """The state’s word; failures after a destination took the work over are told apart."""
    return _("Failed (not delivered)") if step.undelivered else shown(step.state).word
