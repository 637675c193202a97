"""What becomes of each column of each table: it stays, it follows the journal, or no decision is made from it, and why.

- `stays`: a trigger refuses every change of it, or every change once it is there (migrations 0002 and later).
- `proved`: `verify_ledger` compares it with the journal, or with what is compared; with triggers off a change is found and
  its subject is named. What stays may be proved besides.
- `aside`: neither; the sentence says why a change of it by hand decides nothing, or where it shows.

A column has its word here or the tests fail (tests/ledger/test_every_column_has_its_word.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Sentences that several columns share.
PLAN = (
    "the plan: it follows from what is proved, and is made anew with each change; one that was changed by hand shows by what"
    " was done, which has lines of its own"
)
SHOWN = "it is shown, searched or sorted by; nothing is decided from it"
STALE = "decisions carry it: another one makes them stale, and changes nothing else"
WHEN = "the moment of a state that is proved; the line that tells of the state has its own"
SEEN = "what the transport saw; the outcome that followed from it is proved"
ASKED = "who is asked, reminded and told, and by when; not what may be answered, nor by whom"
NUMBER = "the row's own number; nothing is decided from it"
TOLD = "what people are told of; what they do about it is decided elsewhere"
COUNTED = "a count that is shown"
CHOICE = "a choice of what a person sees"


@dataclass(frozen=True, slots=True)
class Columns:
    stays: str = ""
    proved: str = ""
    aside: Mapping[str, str] = field(default_factory=dict)  # by sentence

    def words(self) -> dict[str, list[str]]:
        """Each word that is given, with the columns that have it."""
        aside = " ".join(self.aside.values())
        return {"stays": self.stays.split(), "proved": self.proved.split(), "aside": aside.split()}


OPERATIONS = {
    "ledger_operation": Columns(
        stays="id team_id operation_id title workflow_version_id workflow_slug digest owner_id first_event_id content_id"
        " replaces_id created_at step_count",
        proved="id team_id operation_id workflow_version_id workflow_slug digest first_event_id content_id replaces_id"
        " created_at step_count state cancelled not_after attempt_count confirmed_count event_count",
        aside={STALE: "version", WHEN: "ended_at unknown_at", SHOWN: "updated_at"},
    ),
    "ledger_operationparams": Columns(stays="operation_id params", proved="operation_id params"),
    "ledger_operationevent": Columns(
        stays="id operation_id event_id added_at started", proved="operation_id event_id"
    ),
    "ledger_step": Columns(
        stays="id team_id operation_id number name identity title destination_id destination_version_id destination_slug"
        " action performer",
        proved="id team_id operation_id number name identity destination_id destination_version_id destination_slug action"
        " performer state revision request_digest reference tries_extra ready_at accepted_at unknown_at looks looks_none"
        " rejection_waived lateness_waived final_waived never_known go_on_after not_ours integrity_alarm record_changed"
        " answered_with_error approval_needed content_number approved_digest approved_until resend_asked look_applies"
        " attempt_count tries_used tries_max total_seconds",
        aside={
            PLAN: "not_before looked_at look_at act act_at send_until look_lease_until",
            "how long an attempt's lease is when it is opened; the lease that it got is proved": "lease_seconds",
        },
    ),
    "ledger_steprequest": Columns(
        stays="id step_id revision method url headers body idempotency_key digest content_digest rendered_at",
        proved="method url headers body digest",
    ),
    "ledger_attempt": Columns(
        stays="id operation_id step_id worker",
        proved="id operation_id step_id number revision opened_at lease_ends_at outcome no_change reference known_by",
        aside={WHEN: "ended_at", SEEN: "left_house phase error status elapsed_seconds sentence"},
    ),
    "ledger_evidence": Columns(
        stays="id operation_id step_id attempt_id kind origin received_at occurred_at digest says sentence facts content"
        " late"
    ),
    "ledger_heldreference": Columns(
        stays="step_id", proved="step_id destination_id reference_key", aside={NUMBER: "id"}
    ),
    "ledger_revision": Columns(
        stays="id step_id number kind params content_number author author_person_id created_at"
    ),
    "ledger_approval": Columns(
        stays="id team_id content_version_id step_id revision approved_by_id approved_at expires_at covered_digest"
        " covered_count"
    ),
    "ledger_rejection": Columns(
        stays="id team_id content_version_id step_id revision rejected_by_id rejected_at rejected_count"
    ),
    "ledger_approvedrequest": Columns(
        stays="id approval_id step_id revision request_digest approved_until voided_at void_reason",
        proved="step_id revision request_digest voided_at",
    ),
}

HOLDS = {
    "ledger_hold": Columns(
        stays="team_id operation_id step_id destination_id event_id reason title operation_text_id destination_slug action"
        " workflow_slug closed_at closed_by answer",
        # of the facts, those that are decided by (rules.absence.DECISIVE); all others are shown, and evidence stays
        proved="id step_id destination_id event_id reason opened_at closed_at facts",
        aside={
            STALE: "version",
            ASKED: "owner_id due_at reminded_at escalate_at escalated_at told_at if_nobody",
            "it groups holds on a page": "incident_id",
        },
    ),
    "ledger_assignmentrule": Columns(
        aside={
            ASKED: "id team_id position workflow_slug destination_slug reason person_id active made_by_id made_at",
            STALE: "version",
        }
    ),
    "ledger_incident": Columns(
        aside={SHOWN: "id team_id destination_slug action reason started_at last_at hold_count"}
    ),
    "ledger_incidentact": Columns(aside={SHOWN: "id incident_id person_id acted_at newest_hold"}),
    "ledger_incidentnote": Columns(aside={SHOWN: "id incident_id actor written_at note"}),
    "ledger_proposal": Columns(
        stays="team_id hold_id hold_version proposer proposer_person_id author_kind author_name answer form texts made_at",
        aside={
            "a proposal decides nothing: what was accepted is an answer with a line of its own": "ended_at ended_how"
            " ended_by",
            NUMBER: "id",
        },
    ),
}

EVENTS = {
    "ledger_event": Columns(
        stays="id team_id source_id source_version_id event_id event_key digest topic occurred_at occurred_text"
        " occurred_flagged received_at projection",
        proved="id source_id event_id event_key digest",
        aside={COUNTED: "delivery_count"},
    ),
    "ledger_delivery": Columns(stays="id event_id received_at body_id secret_name conflict digest hold_id"),
    "ledger_earlyreport": Columns(
        stays="id team_id event_id destination_id action reference reference_key says occurred_at told_at"
    ),
    "ledger_rawbody": Columns(stays="id source_id digest content content_type content_encoding"),
    "ledger_refusal": Columns(
        aside={COUNTED: "id source_slug team_id reason day count last_at last_sentence"}
    ),
}

DEFINITIONS = {
    "ledger_definition": Columns(stays="id team_id kind slug", proved="id kind slug current_id"),
    "ledger_definitionversion": Columns(
        stays="id definition_id number digest body loaded_at", proved="definition_id number digest body"
    ),
    "ledger_destination": Columns(
        stays="definition_id team_id slug",
        proved="definition_id team_id slug paused_at access_refused_at circuit_opened_at",
        aside={
            STALE: "version",
            "when the next step is sent, and how soon a circuit opens: a stop itself is proved": "circuit_trial_at"
            " failures_in_a_row sends_per_second in_flight_max send_tokens tokens_at",
        },
    ),
    "ledger_recovery": Columns(
        stays="id destination_id action",
        proved="destination_id action enabled",
        aside={SHOWN: "drilled changed_by_id changed_at"},
    ),
    "ledger_sendingswitch": Columns(
        proved="sending reason changed_by changed_at",
        aside={"there is one row, which a constraint says": "id"},
    ),
}

CONTENTS = {
    "ledger_content": Columns(
        stays="id team_id content_id created_at",
        proved="id workflow_id latest_number",
        aside={
            "which version operations are to show: each that is moved has a line and asks for its approval": "target_number"
            " moving"
        },
    ),
    "ledger_contentversion": Columns(
        stays="id team_id of_id content_id workflow_id number digest body author_kind author author_person_id origin"
        " requested_by requested_by_person_id client_key created_at",
        proved="of_id number digest body state author_kind author_person_id requested_by decided_by",
        aside={STALE: "version", WHEN: "decided_at", SHOWN: "decision_text"},
    ),
}

BULK = {
    "ledger_selection": Columns(stays="id team_id person_id made_at words query item_count"),
    "ledger_selectionitem": Columns(
        stays="selection_id position hold_id step_id", aside={STALE: "version", NUMBER: "id"}
    ),
    "ledger_bulkrun": Columns(
        stays="id team_id selection_id person_id actor verb facts once item_count made_at",
        aside={
            "each item is answered by itself, on the version of its hold, with a line of its own": "state version ended_at"
            " done_count skipped_count refused_count left_count"
        },
    ),
    "ledger_bulkitem": Columns(
        stays="run_id position hold_id step_id version operation_id given result why said_at",
        aside={NUMBER: "id"},
    ),
    "ledger_referencelist": Columns(
        stays="id team_id selection_id person_id made_at file_name content digest row_count"
    ),
    "ledger_readreference": Columns(stays="id of_id line identity why read_at"),
    "ledger_providerstatement": Columns(
        stays="id team_id selection_id person_id made_at words file_name file listed how ticket digest covered_count"
    ),
    "ledger_statementcover": Columns(stays="id statement_id operation_id number hold_id attempt_count"),
}

REPLAYS = {
    "ledger_replay": Columns(
        stays="id team_id name scope reason plan_digest statement_id actor started_by_id started_at stop_after item_count",
        proved="id plan_digest statement_id item_count state recovered_count accepted_count held_count closed_unknown_count"
        " failed_count cancelled_count behind_count waiting_count started_count skipped_count aborted_count kept_count"
        " refused_count",
        aside={
            STALE: "version",
            SHOWN: "changed_by stopped_after",
            WHEN: "ended_at",
            "in whose name and since when it goes on: the line of each step that it begins says it": "resumed_by_id"
            " running_since",
        },
    ),
    "ledger_replaydestination": Columns(
        stays="id replay_id destination_id slug per_second", aside={PLAN: "tokens tokens_at waiting_count"}
    ),
    "ledger_replayitem": Columns(
        stays="replay_id position operation_id operation_version step_id number destination_id rebound_to_id verdict reason"
        " detail until mark leads",
        proved="state result",
        aside={WHEN: "started_at ended_at", SHOWN: "said", NUMBER: "id"},
    ),
}

TOLD_OF = {
    "ledger_noticechoice": Columns(aside={TOLD: "person_id mail_on every_minutes muted_at muted_until"}),
    "ledger_channel": Columns(
        aside={TOLD: "id team_id name scheme host sealed kinds every_minutes made_by_id made_at removed_at"}
    ),
    "ledger_mailing": Columns(
        aside={
            TOLD: "id team_id person_id channel_id is_test made_at state tries try_at lease_ends_at ended_at in_doubt said"
        }
    ),
    "ledger_notice": Columns(
        aside={
            TOLD: "id team_id person_id channel_id kind count hold_id replay_id facts made_at read_at send_at mailing_id"
        }
    ),
    "ledger_savedview": Columns(
        aside={CHOICE: "id team_id person_id holder_id name query position author_id made_at"}
    ),
    "ledger_canary": Columns(aside={"a sign of life": "name finished_at"}),
}

ACCOUNTS = {
    "person": Columns(
        proved="is_active",
        aside={
            "how somebody signs in; what they may do is proved": "id password last_login email must_change_password",
            CHOICE: "display_name time_zone theme shortcuts_on created_at",
        },
    ),
    "team": Columns(stays="id", proved="id fallback_owner_id", aside={SHOWN: "slug name created_at"}),
    "membership": Columns(proved="person_id team_id role", aside={NUMBER: "id", SHOWN: "created_at"}),
    "absence": Columns(
        proved="team_id person_id deputy_id begins_at ends_at called_off_at",
        aside={NUMBER: "id", SHOWN: "made_at"},
    ),
    "api_token": Columns(
        stays="id team_id name kind person_id scopes text_sha256 revoked_at",
        proved="id team_id kind scopes revoked_at",
        aside={
            SHOWN: "created_at last_used_at",
            "it ends a token sooner or later by itself; what the token may do is proved": "expires_at",
        },
    ),
}

JOURNAL = {
    "journal_chain": Columns(
        stays="subject_id subject_kind length head", proved="subject_id subject_kind length head"
    ),
    "journal_entry": Columns(
        stays="subject_id seq subject_kind at kind actor body hash",
        proved="subject_id seq at kind actor body hash",
    ),
    "journal_text": Columns(proved="id nonce text", aside={SHOWN: "subject_id written_at erased_at"}),
    "journal_verify_checkpoint": Columns(
        aside={
            "how far a proof came; each proof that is asked for anew begins anew": "name after_subject chains_count"
            " entries_count faults_count started_at finished_at"
        }
    ),
}

COLUMNS: dict[str, Columns] = {
    **OPERATIONS, **HOLDS, **EVENTS, **DEFINITIONS, **CONTENTS, **BULK, **REPLAYS, **TOLD_OF, **ACCOUNTS, **JOURNAL,
}  # fmt: skip
