"""Kinds of entries of the journal, and of the actors who made them, in words."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

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
    "exported": noop("Journal exported"),
    "sending_stopped": noop("Sending stopped"),
    "sending_resumed": noop("Sending goes on"),
    "sending_off": noop("All sending turned off"),
    "sending_on": noop("All sending turned on"),
    "definition_loaded": noop("Definition loaded"),
    "recovery_changed": noop("Automatic recovery turned on or off"),
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
# Of people, teams and tokens; the page's filter does not offer them.
_ACCOUNT_WORDS: Mapping[str, str] = {
    "team_added": noop("Team added"),
    "team_changed": noop("Team changed"),
    "role_granted": noop("Role granted"),
    "roles_taken": noop("Roles taken"),
    "person_deactivated": noop("Person deactivated"),
    "person_reactivated": noop("Person reactivated"),
    "temporary_password_set": noop("Temporary password set"),
    "token_made": noop("Token made"),
    "token_revoked": noop("Token revoked"),
}
# What an entry is about.
SUBJECT_WORDS: Mapping[str, str] = {
    "operation": noop("operation"),
    "event": noop("event"),
    "destination": noop("destination"),
    "source": noop("source"),
    "workflow": noop("workflow"),
    "content": noop("content"),
    "replay": noop("replay"),
    "team": noop("team"),
    "sending": noop("sending"),
    "definition": noop("definition"),
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


def entry_word(kind: str) -> str:
    """A kind of entry in words; a kind that has none yet is shown as it is written."""
    word = ENTRY_WORDS.get(kind) or _ACCOUNT_WORDS.get(kind)
    return _(word) if word else kind.replace("_", " ").capitalize()


def subject_word(kind: str) -> str:
    """What an entry is about; a kind that has no word yet is shown as it is written."""
    return _(SUBJECT_WORDS[kind]) if kind in SUBJECT_WORDS else kind


def actor_word(kind: str) -> str:
    """One actor of a kind; its name may follow."""
    return _(ACTOR_WORDS[kind][1]) if kind in ACTOR_WORDS else kind


def actors_word(kind: str) -> str:
    """All actors of a kind, to choose from."""
    return _(ACTOR_WORDS[kind][0]) if kind in ACTOR_WORDS else kind


def revealed_words(what: str) -> str:
    """What somebody looked at, by the word that the journal keeps for it."""
    kind, _sep, rest = what.partition(":")
    words = {"params": _("parameters"), "deliveries": _("deliveries"), "evidence": _("evidence")}
    if kind == "request":
        return _("request of step %(number)s") % {"number": rest}
    return words.get(kind, what)
