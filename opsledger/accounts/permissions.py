"""Who may do what, as data: the permission table, and the one function that reads it.

The table speaks of one team; a person may have several roles in it, and has what any of them gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from django.utils.translation import gettext_noop as noop

from opsledger.rules.answers import Answer


class Role(StrEnum):
    VIEWER = noop("viewer")
    OPERATOR = noop("operator")
    OWNER = noop("owner")
    ADMIN = noop("admin")


class Via(StrEnum):
    """How somebody comes in: a signed-in person, that person's own token, or an automation's token."""

    SESSION = "session"
    PERSONAL = "personal"
    AUTOMATION = "automation"


class Permission(StrEnum):
    VIEW = "view"  # operations, holds, insights; sensitive fields masked
    ASSIGN = "assign"
    NOTE = "note"
    STILL_UNKNOWN = "still_unknown"  # with the next check and a reason
    CHECK_NOW = "check_now"
    PROPOSE = "propose"  # an answer or content
    PAUSE_DESTINATION = "pause_destination"
    SETTLE = "settle"
    WITHDRAW = "withdraw"
    CLOSE_UNKNOWN = "close_unknown"  # as never known
    CANCEL = "cancel"
    APPROVE_CONTENT = "approve_content"  # never one's own
    PLAN_REPLAY = "plan_replay"
    START_REPLAY = "start_replay"
    REVEAL = "reveal"  # a sensitive field; journaled
    RESUME_DESTINATION = "resume_destination"
    ADMINISTER = "administer"  # people, teams, tokens, sources, destinations
    ENABLE_RECOVERY = "enable_recovery"  # for a destination's action, after its drill passed
    READ_AUDIT = "read_audit"  # the journal: read, verify, export
    SHARE_VIEW = "share_view"  # a saved view for the whole team
    SET_RULES = "set_rules"  # whom holds are given to when they open
    # What automations do, and people do not:
    RECORD = "record"  # an operation
    CLAIM = "claim"  # a step
    REPORT = "report"  # an outcome, a heartbeat, evidence


P, R = Permission, Role
_EVERYBODY = frozenset(Role)
_OPERATORS = frozenset({R.OPERATOR, R.OWNER})
_OWNERS = frozenset({R.OWNER})

GRANTED_TO: Mapping[Permission, frozenset[Role]] = {
    P.VIEW: _EVERYBODY,
    P.ASSIGN: _OPERATORS | {R.ADMIN},
    P.NOTE: _OPERATORS,
    P.STILL_UNKNOWN: _OPERATORS,
    P.CHECK_NOW: _OPERATORS,
    P.PROPOSE: _OPERATORS,
    P.PAUSE_DESTINATION: _OPERATORS,
    P.SETTLE: _OWNERS,
    P.WITHDRAW: _OWNERS,
    P.CLOSE_UNKNOWN: _OWNERS,
    P.CANCEL: _OWNERS,
    P.APPROVE_CONTENT: _OWNERS,
    P.PLAN_REPLAY: _OWNERS,
    P.START_REPLAY: _OWNERS,
    P.REVEAL: _OWNERS,
    P.RESUME_DESTINATION: _OWNERS | {R.ADMIN},
    P.ADMINISTER: frozenset({R.ADMIN}),
    P.ENABLE_RECOVERY: _OWNERS,
    P.READ_AUDIT: _EVERYBODY,
    P.SHARE_VIEW: _OPERATORS | {R.ADMIN},
    P.SET_RULES: _OWNERS | {R.ADMIN},
    P.RECORD: frozenset(),
    P.CLAIM: frozenset(),
    P.REPORT: frozenset(),
}
# An automation has no role. It records, claims, reports, proposes, and reads back what it wrote.
AUTOMATION_GRANTS = frozenset({P.VIEW, P.RECORD, P.CLAIM, P.REPORT, P.PROPOSE})

# Each permission as the end of a sentence: “You may …”.
WORDS: Mapping[Permission, str] = {
    P.VIEW: noop("see operations, holds and insights, with sensitive fields masked"),
    P.ASSIGN: noop("assign holds"),
    P.NOTE: noop("add notes"),
    P.STILL_UNKNOWN: noop("keep a hold as still unknown, with the next check and a reason"),
    P.CHECK_NOW: noop("ask a destination now"),
    P.PROPOSE: noop("propose an answer or content"),
    P.PAUSE_DESTINATION: noop("pause a destination"),
    P.SETTLE: noop("settle a hold"),
    P.WITHDRAW: noop("take an answer back"),
    P.CLOSE_UNKNOWN: noop("close an operation as never known"),
    P.CANCEL: noop("cancel an operation"),
    P.APPROVE_CONTENT: noop("approve content that is not one’s own"),
    P.PLAN_REPLAY: noop("plan a replay"),
    P.START_REPLAY: noop("start a replay"),
    P.REVEAL: noop("reveal a sensitive field, which is recorded"),
    P.RESUME_DESTINATION: noop("resume a destination"),
    P.ADMINISTER: noop("manage people, teams, tokens, sources and destinations"),
    P.ENABLE_RECOVERY: noop("enable automatic recovery for an action whose drill passed"),
    P.READ_AUDIT: noop("read, verify and export the audit journal"),
    P.SHARE_VIEW: noop("save views for the whole team"),
    P.SET_RULES: noop("set assignment rules"),
    P.RECORD: noop("record operations"),
    P.CLAIM: noop("claim steps"),
    P.REPORT: noop("report outcomes and evidence"),
}


def allowed(roles: Iterable[Role | str], permission: Permission, via: Via | str = Via.SESSION) -> bool:
    """Whether somebody with these roles in a team, who comes in this way, has the permission there.

    What also depends on the case (not one's own content, a drill that passed) is checked where it happens.
    """
    if Via(via) is Via.AUTOMATION:
        return permission in AUTOMATION_GRANTS
    return not GRANTED_TO[permission].isdisjoint(Role(role) for role in roles)


# Answers that take a permission of their own; every other one takes SETTLE.
_TO_ANSWER: Mapping[Answer, Permission] = {
    Answer.STILL_UNKNOWN: P.STILL_UNKNOWN,
    Answer.CLOSE_UNKNOWN: P.CLOSE_UNKNOWN,
}


def to_answer(answer: Answer) -> Permission:
    """What it takes to give this answer to a hold about a step."""
    return _TO_ANSWER.get(answer, P.SETTLE)


def answers_of(roles: Iterable[Role | str]) -> frozenset[Answer]:
    """The answers that somebody with these roles may give to holds about steps."""
    held = frozenset(roles)
    return frozenset(answer for answer in Answer if allowed(held, to_answer(answer)))


def roles_with(permission: Permission) -> list[Role]:
    """The roles that give a permission, least first."""
    return [role for role in Role if role in GRANTED_TO[permission]]


class Scope(StrEnum):
    """What a token was made for; it narrows what its kind and its person's roles allow."""

    READ = "read"
    RECORD = "record"
    CLAIM = "claim"
    REPORT = "report"
    PROPOSE = "propose"
    OPERATE = "operate"
    DECIDE = "decide"
    ADMINISTER = "administer"


SCOPE_GRANTS: Mapping[Scope, frozenset[Permission]] = {
    Scope.READ: frozenset({P.VIEW, P.READ_AUDIT}),
    Scope.RECORD: frozenset({P.RECORD}),
    Scope.CLAIM: frozenset({P.CLAIM}),
    Scope.REPORT: frozenset({P.REPORT}),
    Scope.PROPOSE: frozenset({P.PROPOSE}),
    Scope.OPERATE: frozenset(
        {
            P.ASSIGN,
            P.NOTE,
            P.STILL_UNKNOWN,
            P.CHECK_NOW,
            P.PAUSE_DESTINATION,
            P.RESUME_DESTINATION,
            P.SHARE_VIEW,
        }
    ),
    Scope.DECIDE: frozenset(
        {
            P.SETTLE,
            P.WITHDRAW,
            P.CLOSE_UNKNOWN,
            P.CANCEL,
            P.APPROVE_CONTENT,
            P.PLAN_REPLAY,
            P.START_REPLAY,
            P.REVEAL,
            P.ENABLE_RECOVERY,
        }
    ),
    Scope.ADMINISTER: frozenset({P.ADMINISTER, P.SET_RULES}),
}
AUTOMATION_SCOPES = (Scope.READ, Scope.RECORD, Scope.CLAIM, Scope.REPORT, Scope.PROPOSE)
PERSONAL_SCOPES = (Scope.READ, Scope.PROPOSE, Scope.OPERATE, Scope.DECIDE, Scope.ADMINISTER)
SCOPE_WORDS: Mapping[Scope, str] = {
    Scope.READ: noop("operations, holds, insights, audit"),
    Scope.RECORD: noop("new operations"),
    Scope.CLAIM: noop("steps to do"),
    Scope.REPORT: noop("outcomes and evidence"),
    Scope.PROPOSE: noop("answers and content"),
    Scope.OPERATE: noop("assign, note, check now, pause and resume destinations"),
    Scope.DECIDE: noop("settle, withdraw, cancel, approve, replay, reveal"),
    Scope.ADMINISTER: noop("people, teams, tokens and definitions"),
}


def granted_by(scopes: Iterable[Scope | str]) -> frozenset[Permission]:
    """All permissions that these scopes let through."""
    return frozenset().union(*(SCOPE_GRANTS[Scope(scope)] for scope in scopes))
