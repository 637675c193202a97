"""Every call of /api/v1."""

from __future__ import annotations

from opsledger.accounts.permissions import Permission
from opsledger.api import answer_proposals, approvals, content, holds, operations, replays, steps
from opsledger.api.answer_shapes.content import (
    ApprovalAnswer,
    CoveredAnswer,
    ProposalAnswer,
    RejectionAnswer,
    ShownRequestAnswer,
    StepApprovalAnswer,
    StepRejectionAnswer,
    VersionAnswer,
    VersionPage,
    WaitingAnswer,
)
from opsledger.api.answer_shapes.holds import (
    AnswerProposed,
    HoldAnswer,
    HoldPage,
    NoteAnswer,
    ProposalEnded,
    SettleAnswer,
)
from opsledger.api.answer_shapes.operations import BatchAnswer, OperationPage, OperationRecord, Recorded
from opsledger.api.answer_shapes.replays import PlanAnswer, ReplayAnswer, ReplayItemPage, ReplayPage
from opsledger.api.answer_shapes.work import Claim, LeaseAnswer, ReportAnswer
from opsledger.api.routes import Call, Query, Reply
from opsledger.api.shapes.content import (
    Approval,
    NewVersion,
    Rejection,
    RevisionApproval,
    RevisionRejection,
    VersionOfContent,
)
from opsledger.api.shapes.decisions import (
    AcceptedProposal,
    AnswerProposal,
    Assignment,
    Check,
    DismissedProposal,
    Note,
    Settlement,
    WithReason,
)
from opsledger.api.shapes.recording import Batch, NewOperation
from opsledger.api.shapes.replays import ReplayPlan, ReplayStart
from opsledger.api.shapes.work import Evidence, Outcome

_RECORD_EXAMPLE = {
    "operation_id": "campaign-2026-03:4711",
    "workflow": "campaign_follow_up",
    "params": {
        "campaign": "Spring",
        "company": "Harbour Ltd",
        "account": "C-4711",
        "email": "office@harbour.example",
        "subject": "Call Harbour Ltd about Spring",
        "queue": "launch-care",
        "due_date": "2026-03-31",
        "message_subject": "Your answer to Spring",
        "message_text": "Thank you. We call you this week.",
    },
}
_RECORD = Reply(200, "The operation's record as it is now.", OperationRecord)
_SETTLED = Reply(200, "The hold as it is now.", SettleAnswer)
_NOT_FOUND = Reply(404, "No such thing in the token's team.")
_INVALID = Reply(422, "`errors` names each field and what to mend.")
_STALE = Reply(412, "Another version by now; `current` is the hold as it is. Nothing was changed.")
_CHANGED = Reply(
    412, "Another version by now; `current` is the operation's record as it is. Nothing was changed."
)
_REPLAY = Reply(200, "The replay as it is now.", ReplayAnswer)
_STALE_REPLAY = Reply(412, "Another version by now; `current` is the replay as it is. Nothing was changed.")
_VERSION = Reply(428, "If-Match is missing.")
_NOT_ELIGIBLE = Reply(
    403, "Only an owner of the team who neither wrote it nor asked for it may; `detail` says why."
)
_STALE_VERSION = Reply(
    412,
    "The version, or something that it covers, changed; `current` is the version as it is. Nothing was changed.",
)
_FIELDS = {"subject": "Your order", "text": "It is on its way.", "sender": "Launch care"}
_DIGEST = "c0ffee" + 58 * "0"
_PROPOSED = (
    Reply(201, "Proposed, and not approved.", ProposalAnswer),
    Reply(200, "The same one again.", ProposalAnswer),
    _INVALID,
)
_PAGES = (
    Query("limit", "1 to 200; 50 when absent.", "integer"),
    Query("cursor", "`next` of the page before."),
)
_NOT_NOW = Reply(409, "The present state does not allow it.")

CALLS: tuple[Call, ...] = (
    Call(
        "POST", "/operations", "record_operation", "Record an operation",
        "Records an intended action before it leaves a trace in the world. Safe to repeat: the same one again changes "
        "nothing and is answered with 200.",
        operations.create,
        (
            Reply(201, "Recorded.", Recorded),
            Reply(200, "The same one again: same workflow, params and content. `stands` names what was told otherwise.",
                  Recorded),
            Reply(409, "`operation_conflict`: the id is taken by another action, or by one that replaces something else; "
                       "`differs` names the fields. `replaced_is_open`: the operation to be replaced is in flight, accepted "
                       "or unknown. `replaced_already`: another operation replaces it, which `operation` names."),
            Reply(413, "The body is larger than the limit, which is named."),
            _INVALID,
        ),
        permission=Permission.RECORD, shape=NewOperation, intake=True, example=_RECORD_EXAMPLE, tag="Operations",
    ),
    Call(
        "POST", "/operations/batch", "record_batch", "Record up to 1,000 operations",
        "Every item is answered by itself, in order: 201, 200, 409 or 422. One bad item spoils no other.",
        operations.create_batch,
        (Reply(200, "One answer per item, in order.", BatchAnswer), _INVALID),
        permission=Permission.RECORD, shape=Batch, intake=True, example={"items": [_RECORD_EXAMPLE]},
        tag="Operations",
    ),
    Call(
        "GET", "/operations", "list_operations", "List operations",
        "Newest first. A filter that no index follows may give pages with fewer items than `limit`; the list ends when "
        "`next` is null.",
        operations.listed,
        (Reply(200, "A page.", OperationPage), _INVALID),
        permission=Permission.VIEW, tag="Operations",
        query=(
            Query(
                "state", "One or several states, separated by commas; `open` stands for all that have not ended.",
                many=True,
            ),
            Query("owner", "A sign-in name; open operations only."),
            Query("workflow", "A workflow's slug."),
            Query("destination", "A destination's slug."),
            Query("operation_id", "Your own id, byte for byte."),
            Query("reference", "A destination's reference, byte for byte."),
            Query("event_id", "A source's event id, byte for byte."),
            Query("q", "The beginning of an operation id or a reference, an event id, or `op_…`."),
            Query("updated_since", "A time with its zone, at most seven days back."),
            Query("limit", "1 to 200; 50 when absent.", "integer"),
            Query("cursor", "`next` of the page before, with the same filters."),
        ),
    ),
    Call(
        "GET", "/operations/{operation}", "read_operation", "Read an operation's record",
        "State, steps, attempts, references, evidence, holds, next decision, counters; its version is the ETag. Sensitive "
        "parameters are masked. "
        "In the path: `op_…`, or an own id made of `A-Z a-z 0-9 - _ ~ :` that does not begin with `op_`.",
        operations.read_one, (_RECORD, _NOT_FOUND), permission=Permission.VIEW, tag="Operations",
    ),
    Call(
        "POST", "/operations/{operation}/cancel", "cancel_operation", "Cancel an operation",
        "Nothing more is sent. What was sent is found out; `took_effect` says what did.",
        operations.cancel, (_RECORD, _NOT_FOUND, _NOT_NOW, _CHANGED, _INVALID, _VERSION),
        permission=Permission.CANCEL, shape=WithReason, versioned=True,
        example={"reason": "The campaign was called off."}, tag="Operations",
    ),
    Call(
        "POST", "/operations/{operation}/steps/{step}/claim", "claim_step", "Claim a step",
        "For automations that do the work themselves. The attempt is committed before this answers. Send exactly this "
        "request, once, under this key; then report the outcome. A lease that ends without one means `unknown`.",
        steps.claim,
        (
            Reply(201, "Yours until `lease_expires_at`.", Claim),
            Reply(409, "`state`, `reference`, `reason` (done, in_flight, held, not_protected, waiting, ended, stopped, "
                       "not_yours) and `next`."),
            _NOT_FOUND,
        ),
        permission=Permission.CLAIM, tag="Doing the work",
    ),
    Call(
        "POST", "/operations/{operation}/steps/{step}/withdraw", "withdraw_answer", "Take a person's answer back",
        "The step becomes disputed, and its reference is freed.",
        steps.withdraw, (_RECORD, _NOT_FOUND, _NOT_NOW, _CHANGED, _INVALID, _VERSION),
        permission=Permission.WITHDRAW, shape=WithReason, versioned=True,
        example={"reason": "The reference was of another task."}, tag="Operations",
    ),
    Call(
        "POST", "/operations/{operation}/steps/{step}/evidence", "add_evidence", "Add evidence to a step",
        "A delivery report, a found record, or something seen. What would prove nothing is refused, and the call to make "
        "instead is named. The same again changes nothing.",
        steps.evidence, (Reply(200, "Kept.", ReportAnswer), _NOT_FOUND, _INVALID),
        permission=Permission.REPORT, shape=Evidence,
        example={"says": "delivered", "how": "Delivery webhook of the mail service", "reference": "msg_812"},
        tag="Doing the work",
    ),
    Call(
        "POST", "/attempts/{attempt}/outcome", "report_outcome", "Report an attempt's outcome",
        "In time or late: late and contradicting reports are kept as evidence. `no_change` needs its kind. The same "
        "report again changes nothing.",
        steps.outcome, (Reply(200, "Taken.", ReportAnswer), _NOT_FOUND, _NOT_NOW, _INVALID),
        permission=Permission.REPORT, shape=Outcome,
        example={
            "outcome": "confirmed", "reference": "T-1042", "evidence": {"how": "201 with the task's id", "status": 201},
        },
        tag="Doing the work",
    ),
    Call(
        "POST", "/attempts/{attempt}/heartbeat", "extend_lease", "Extend an attempt's lease",
        "The lease lasts again as long as one claim, never beyond `longest_until`.",
        steps.heartbeat, (Reply(200, "The lease as it is now.", LeaseAnswer), _NOT_FOUND, _NOT_NOW),
        permission=Permission.REPORT, tag="Doing the work",
    ),
    Call(
        "GET", "/holds", "list_holds", "List open holds",
        "The one that is due first at the top.",
        holds.listed, (Reply(200, "A page.", HoldPage), _INVALID), permission=Permission.VIEW, tag="Holds",
        query=(
            Query("reason", "One of the reasons."),
            Query("owner", "A sign-in name."),
            Query("unowned", "`true`: only those that nobody has taken.", "boolean"),
            Query("destination", "A destination's slug."),
            Query("workflow", "A workflow's slug."),
            Query("limit", "1 to 200; 50 when absent.", "integer"),
            Query("cursor", "`next` of the page before."),
        ),
    ),
    Call(
        "GET", "/holds/{hold}", "read_hold", "Read a hold",
        "Open or closed, with the answers that are valid now. The ETag is its version.",
        holds.read_one, (Reply(200, "The hold.", HoldAnswer), _NOT_FOUND), permission=Permission.VIEW, tag="Holds",
    ),
    Call(
        "POST", "/holds/{hold}/settle", "settle_hold", "Settle a hold",
        "One answer, with its reason. A reference is read at the destination first, and compared where that is possible.",
        holds.settle,
        (
            _SETTLED, _NOT_FOUND,
            Reply(409, "`reference_differs`: the record that was read differs in `reading`. `not_now`: the state does not "
                       "allow it."),
            _STALE, _INVALID, _VERSION,
        ),
        permission_words="settle: the role owner; `still_unknown`: operator or owner; `go_on`: owner or admin. "
        "A person's own token.",
        shape=Settlement, versioned=True, tag="Holds",
        example={"answer": "happened", "reference": "T-1042", "reason": "Found in the CRM under this account."},
    ),
    Call(
        "POST", "/holds/{hold}/propose", "propose_answer", "Propose an answer to a hold",
        "Kept for somebody who may settle; nothing follows from it by itself. Another one of the same caller takes its "
        "place, and the same again is the first one. What a model thought up is said to be a model's; it is no evidence.",
        answer_proposals.propose,
        (
            Reply(201, "Kept.", AnswerProposed), Reply(200, "The same one again.", AnswerProposed),
            _NOT_FOUND, _NOT_NOW, _STALE, _INVALID, _VERSION,
        ),
        permission=Permission.PROPOSE, shape=AnswerProposal, versioned=True, tag="Holds",
        example={
            "answer": "happened", "reference": "T-1042", "reason": "Its log names this task.",
            "author": {"kind": "model", "name": "log-reader-1"},
        },
    ),
    Call(
        "POST", "/proposals/{proposal}/accept", "accept_proposal", "Accept a proposed answer",
        "Settles the hold with the proposal's values, which are checked again. `If-Match` is the hold's version, and must "
        "be the one that the proposal was made on.",
        answer_proposals.accept,
        (
            _SETTLED, _NOT_FOUND,
            Reply(409, "`reference_differs`: the record that was read differs in `reading`. `not_now`: the state does not "
                       "allow it, or the proposal was made on an older state."),
            _STALE, _INVALID, _VERSION,
        ),
        permission=Permission.SETTLE, shape=AcceptedProposal, versioned=True, example={}, tag="Holds",
    ),
    Call(
        "POST", "/proposals/{proposal}/dismiss", "dismiss_proposal", "Set a proposed answer aside",
        "With a reason; a proposal of your own is taken back. The hold stays as it is. Another's is set aside by an owner.",
        answer_proposals.dismiss, (Reply(200, "It has ended.", ProposalEnded), _NOT_FOUND, _INVALID),
        permission=Permission.PROPOSE, shape=DismissedProposal,
        example={"reason": "That task is the neighbour's."}, tag="Holds",
    ),
    Call(
        "POST", "/holds/{hold}/assign", "assign_hold", "Give a hold to a person",
        "Or to nobody, with null.",
        holds.assign, (_SETTLED, _NOT_FOUND, _STALE, _INVALID, _VERSION),
        permission=Permission.ASSIGN, shape=Assignment, versioned=True, example={"owner": "owner@demo.example"},
        tag="Holds",
    ),
    Call(
        "POST", "/holds/{hold}/note", "note_hold", "Add a note to a hold",
        "A note never changes a state.",
        holds.note, (Reply(200, "Kept.", NoteAnswer), _NOT_FOUND, _STALE, _INVALID, _VERSION),
        permission=Permission.NOTE, shape=Note, versioned=True,
        example={"text": "Asked the CRM's support."}, tag="Holds",
    ),
    Call(
        "POST", "/holds/{hold}/check", "check_hold", "Look at the destination",
        "Now, or at a time. It reads; nothing is sent.",
        holds.check, (_SETTLED, _NOT_FOUND, _NOT_NOW, _STALE, _INVALID, _VERSION),
        permission=Permission.CHECK_NOW, shape=Check, versioned=True, example={}, tag="Holds",
    ),
    Call(
        "POST", "/content/{content}/versions", "propose_version", "Propose a content version",
        "Immutable, numbered, unapproved. Operations that show this content and can still change show it from now on, as "
        "new revisions; what may have had an effect keeps its request. A person's own text again is the same version; what "
        "a model or an automation wrote is always a new one, unless `client_key` says otherwise.",
        content.propose_at, _PROPOSED, permission=Permission.PROPOSE, shape=VersionOfContent, tag="Content",
        example={"workflow": "campaign_letter", "fields": _FIELDS, "author": {"kind": "model", "name": "draft-writer-2"}},
    ),
    Call(
        "GET", "/content/{content}/versions", "list_versions", "List a content's versions", "Newest first.",
        content.listed_at, (Reply(200, "A page.", VersionPage), _INVALID), permission=Permission.VIEW,
        query=_PAGES, tag="Content",
    ),
    Call(
        "POST", "/content-versions", "propose_any_version", "Propose a version of any content",
        "The same, for a content whose id can't stand in a path.",
        content.propose, _PROPOSED, permission=Permission.PROPOSE, shape=NewVersion, tag="Content",
        example={"content_id": "spring/letter", "workflow": "campaign_letter", "fields": _FIELDS},
    ),
    Call(
        "GET", "/content-versions", "list_any_versions", "List the versions of any content", "Newest first.",
        content.listed, (Reply(200, "A page.", VersionPage), _INVALID), permission=Permission.VIEW,
        query=(Query("content_id", "Your own id of the content, byte for byte.", required=True), *_PAGES), tag="Content",
    ),
    Call(
        "GET", "/content-versions/{version}", "read_version", "Read a content version",
        "With its decision. Sensitive fields are masked. The ETag is its version for decisions.",
        content.read_one, (Reply(200, "The version.", VersionAnswer), _NOT_FOUND), permission=Permission.VIEW,
        tag="Content",
    ),
    Call(
        "GET", "/content-versions/{version}/covered", "list_covered", "List what an approval would cover",
        "Every step that waits for this version, and one digest over all of them, whatever page is read.",
        content.covered, (Reply(200, "A page.", CoveredAnswer), _NOT_FOUND, _INVALID),
        permission=Permission.VIEW, query=_PAGES, tag="Content",
    ),
    Call(
        "POST", "/content-versions/{version}/approve", "approve_version", "Approve a content version",
        "With every request that waits for it, exactly as `covered` lists them. What comes to wait later needs an approval "
        "of its own. Nobody approves what they wrote, asked for or recorded.",
        content.approve,
        (Reply(200, "Approved.", ApprovalAnswer), _NOT_ELIGIBLE, _NOT_FOUND, _STALE_VERSION, _INVALID, _VERSION),
        permission=Permission.APPROVE_CONTENT, shape=Approval, versioned=True, tag="Content",
        example={"covered_digest": _DIGEST, "reason": "Read, and right."},
    ),
    Call(
        "POST", "/content-versions/{version}/reject", "reject_version", "Reject a content version",
        "Each operation that waits for it returns to the approved version where `return` names it; the others are "
        "cancelled.",
        content.reject,
        (
            Reply(200, "Rejected.", RejectionAnswer), _NOT_ELIGIBLE, _NOT_FOUND, _STALE_VERSION, _INVALID, _VERSION,
        ),
        permission=Permission.APPROVE_CONTENT, shape=Rejection, versioned=True, tag="Content",
        example={"covered_digest": _DIGEST, "reason": "It promises a date.", "return": []},
    ),
    Call(
        "GET", "/approvals", "list_approvals", "List what waits for an approval",
        "Content versions, and requests that are approved by themselves: revisions that people made. What is due first "
        "comes first.",
        approvals.listed, (Reply(200, "A page.", WaitingAnswer), _INVALID), permission=Permission.VIEW, query=_PAGES,
        tag="Content",
    ),
    Call(
        "GET", "/operations/{operation}/steps/{step}/request", "read_request", "Read what a step would send",
        "As it stands, with sensitive values masked; `covered_digest` where it is approved by itself.",
        content.request_of, (Reply(200, "The request.", ShownRequestAnswer), _NOT_FOUND),
        permission=Permission.VIEW, tag="Content",
    ),
    Call(
        "POST", "/operations/{operation}/steps/{step}/approve", "approve_step", "Approve one request by itself",
        "A revision that somebody else made, exactly as `request` shows it.",
        content.approve_step,
        (
            Reply(200, "Approved.", StepApprovalAnswer), _NOT_ELIGIBLE, _NOT_FOUND,
            Reply(409, "It changed, or it was approved meanwhile; `detail` says by whom."), _INVALID,
        ),
        permission=Permission.APPROVE_CONTENT, shape=RevisionApproval, tag="Content",
        example={"revision": 2, "covered_digest": _DIGEST},
    ),
    Call(
        "POST", "/operations/{operation}/steps/{step}/reject", "reject_step", "Reject one request by itself",
        "Exactly as `request` shows it; If-Match is the operation's version. With `return` the step goes back to the newest "
        "request of it that was approved, under a new key; without, it is ended.",
        content.reject_step,
        (
            Reply(200, "Rejected.", StepRejectionAnswer), _NOT_ELIGIBLE, _NOT_FOUND, _NOT_NOW,
            Reply(412, "It changed, or it was decided meanwhile; `current` is the operation's record. Nothing was changed."),
            _INVALID, _VERSION,
        ),
        permission=Permission.APPROVE_CONTENT, shape=RevisionRejection, versioned=True, tag="Content",
        example={"revision": 2, "covered_digest": _DIGEST, "reason": "The address is the old one.", "return": True},
    ),
    Call(
        "POST", "/replays", "plan_replay", "Plan a replay",
        "Gives each step of the scope one verdict, with its reason. Writes nothing; `plan` is what a start takes.",
        replays.make_plan, (Reply(200, "The plan.", PlanAnswer), _NOT_FOUND, _INVALID),
        permission=Permission.PLAN_REPLAY, shape=ReplayPlan,
        example={"scope": {"filter": {"state": "held", "workflow": "campaign_follow_up"}}}, tag="Replays",
    ),
    Call(
        "POST", "/replays/{replay}/start", "start_replay", "Start a planned replay",
        "By the plan and its digest. The same start again changes nothing and is answered with 200. Nothing is sent by "
        "this call; what it begins is claimed, throttled and stopped like everything else.",
        replays.start,
        (
            Reply(201, "Started.", ReplayAnswer), Reply(200, "It was started before.", ReplayAnswer),
            Reply(412, "`plan_moved`: `differences` says what was and what is; `now` is the plan as it would be."),
            _INVALID,
        ),
        permission=Permission.START_REPLAY, shape=ReplayStart, tag="Replays",
        example={
            "plan": "…", "plan_digest": "5d0f…", "name": "crm, lost replies of 14 April",
            "reason": "The CRM says that its queue was closed from 14:02 to 14:20.",
            "touches": ["crm"], "per_second": {"crm": 5}, "mended": True,
        },
    ),
    Call(
        "GET", "/replays", "list_replays", "List replays",
        "Newest first.", replays.listed, (Reply(200, "A page.", ReplayPage), _INVALID),
        permission=Permission.VIEW, query=(Query("cursor", "`next` of the page before."),), tag="Replays",
    ),
    Call(
        "GET", "/replays/{replay}", "read_replay", "Read a replay",
        "Its state, and every item counted once. The ETag is its version.",
        replays.read_one, (_REPLAY, _NOT_FOUND), permission=Permission.VIEW, tag="Replays",
    ),
    Call(
        "GET", "/replays/{replay}/items", "list_replay_items", "List a replay's items",
        "In the order of the plan.",
        replays.items, (Reply(200, "A page.", ReplayItemPage), _NOT_FOUND, _INVALID),
        permission=Permission.VIEW, tag="Replays",
        query=(
            Query("state", "A result (recovered, accepted, held, closed_unknown, failed, cancelled, behind) or a state "
                           "(waiting, started, skipped, aborted, kept, refused)."),
            Query("cursor", "`next` of the page before."),
        ),
    ),
    Call(
        "POST", "/replays/{replay}/pause", "pause_replay", "Pause a replay",
        "Starts nothing more until it is resumed. What was started goes on.",
        replays.pause, (_REPLAY, _NOT_FOUND, _NOT_NOW, _STALE_REPLAY, _INVALID, _VERSION),
        permission=Permission.START_REPLAY, shape=WithReason, versioned=True,
        example={"reason": "The provider asked us to wait."}, tag="Replays",
    ),
    Call(
        "POST", "/replays/{replay}/resume", "resume_replay", "Resume a replay",
        "Goes on where it was paused.",
        replays.resume, (_REPLAY, _NOT_FOUND, _NOT_NOW, _STALE_REPLAY, _INVALID, _VERSION),
        permission=Permission.START_REPLAY, shape=WithReason, versioned=True,
        example={"reason": "The provider is back."}, tag="Replays",
    ),
    Call(
        "POST", "/replays/{replay}/abort", "abort_replay", "Abort a replay",
        "Ends what was not started. What was started is finished by itself, and counted; nothing is taken back.",
        replays.abort, (_REPLAY, _NOT_FOUND, _NOT_NOW, _STALE_REPLAY, _INVALID, _VERSION),
        permission=Permission.START_REPLAY, shape=WithReason, versioned=True,
        example={"reason": "The wrong batch."}, tag="Replays",
    ),
)  # fmt: skip
