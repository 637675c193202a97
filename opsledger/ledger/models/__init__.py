"""The tables of the ledger. Only `ledger.actions` writes them, only `ledger.queries` reads them for others."""

from opsledger.ledger.models.approvals import Approval, ApprovedRequest, Rejection, Revision
from opsledger.ledger.models.assignment import AssignmentRule
from opsledger.ledger.models.bulk import BulkItem, BulkRun, Selection, SelectionItem
from opsledger.ledger.models.content import Content, ContentVersion
from opsledger.ledger.models.definitions import Definition, DefinitionVersion
from opsledger.ledger.models.destinations import SENDING_ID, Destination, Recovery, SendingSwitch
from opsledger.ledger.models.events import Delivery, EarlyReport, Event, RawBody, Refusal
from opsledger.ledger.models.holds import Hold
from opsledger.ledger.models.incidents import Incident, IncidentAct, IncidentNote
from opsledger.ledger.models.lists import ProviderStatement, ReadReference, ReferenceList, StatementCover
from opsledger.ledger.models.notices import Channel, Mailing, Notice, NoticeChoice
from opsledger.ledger.models.operations import (
    Attempt,
    Evidence,
    HeldReference,
    Operation,
    OperationEvent,
    OperationParams,
    Step,
    StepRequest,
)
from opsledger.ledger.models.proposals import Proposal
from opsledger.ledger.models.replays import Replay, ReplayDestination, ReplayItem
from opsledger.ledger.models.saved_views import SavedView
from opsledger.ledger.models.workers import Canary

__all__ = [
    "SENDING_ID",
    "Approval",
    "ApprovedRequest",
    "AssignmentRule",
    "Attempt",
    "BulkItem",
    "BulkRun",
    "Canary",
    "Channel",
    "Content",
    "ContentVersion",
    "Definition",
    "DefinitionVersion",
    "Delivery",
    "Destination",
    "EarlyReport",
    "Event",
    "Evidence",
    "HeldReference",
    "Hold",
    "Incident",
    "IncidentAct",
    "IncidentNote",
    "Mailing",
    "Notice",
    "NoticeChoice",
    "Operation",
    "OperationEvent",
    "OperationParams",
    "Proposal",
    "ProviderStatement",
    "RawBody",
    "ReadReference",
    "Recovery",
    "ReferenceList",
    "Refusal",
    "Rejection",
    "Replay",
    "ReplayDestination",
    "ReplayItem",
    "Revision",
    "SavedView",
    "Selection",
    "SelectionItem",
    "SendingSwitch",
    "StatementCover",
    "Step",
    "StepRequest",
]
