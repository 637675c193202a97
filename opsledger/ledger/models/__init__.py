"""The tables of the ledger. Only `ledger.actions` writes them, only `ledger.queries` reads them for others."""

from opsledger.ledger.models.approvals import Approval, ApprovedRequest, Revision
from opsledger.ledger.models.content import Content, ContentVersion
from opsledger.ledger.models.definitions import Definition, DefinitionVersion
from opsledger.ledger.models.destinations import SENDING_ID, Destination, Recovery, SendingSwitch
from opsledger.ledger.models.events import Delivery, Event, RawBody, Refusal
from opsledger.ledger.models.holds import Hold
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
from opsledger.ledger.models.workers import Canary

__all__ = [
    "SENDING_ID",
    "Approval",
    "ApprovedRequest",
    "Attempt",
    "Canary",
    "Content",
    "ContentVersion",
    "Definition",
    "DefinitionVersion",
    "Delivery",
    "Destination",
    "Event",
    "Evidence",
    "HeldReference",
    "Hold",
    "Operation",
    "OperationEvent",
    "OperationParams",
    "Proposal",
    "RawBody",
    "Recovery",
    "Refusal",
    "Replay",
    "ReplayDestination",
    "ReplayItem",
    "Revision",
    "SendingSwitch",
    "Step",
    "StepRequest",
]
