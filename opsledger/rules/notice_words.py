"""The words of notices: what people are told of, and what became of a message."""

from __future__ import annotations

from enum import StrEnum


class NoticeKind(StrEnum):
    ASSIGNED = "assigned"
    APPROVAL = "approval"  # somebody's approval is asked
    REMINDER = "reminder"  # past its due time
    ESCALATED = "escalated"  # nobody acted, so it came to somebody else
    DISPUTED = "disputed"
    DESTINATION_STOPPED = "destination_stopped"
    REPLAY_ENDED = "replay_ended"
    REPLAY_STOPPED = "replay_stopped"  # it paused by itself
    OWNER_GONE = "owner_gone"  # its owner was deactivated or left, so it came to somebody else


# Sent at once, and with them everything that waits for the same addressee.
AT_ONCE = frozenset({NoticeKind.ESCALATED, NoticeKind.OWNER_GONE})


class MailingState(StrEnum):
    """Of one message to one addressee."""

    WAITING = "waiting"  # for its next try
    SENDING = "sending"  # written down before the first byte leaves
    SENT = "sent"  # the mail server or the service has taken it
    FAILED = "failed"  # refused every time
    UNKNOWN = "unknown"  # not known to have arrived


FINAL = frozenset({MailingState.SENT, MailingState.FAILED, MailingState.UNKNOWN})
# However a try ended, the same message is sent at most so often; a repeat says that it is one.
TRIES_MAX = 3
TRY_DELAYS_SECONDS = (60, 600)
MUTE_DAYS_MAX = 7
EVERY_MINUTES, EVERY_MINUTES_MAX = 5, 60
