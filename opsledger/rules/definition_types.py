"""What a team writes down about its destinations, workflows and sources, as types. Spans are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from opsledger.rules.escalation import ESCALATE_AFTER_SECONDS
from opsledger.rules.profile import ActionProfile
from opsledger.rules.record import Performer

# Destinations


@dataclass(frozen=True, slots=True)
class Credential:
    """Where a secret comes from and how it is sent: `header = "Authorization: Bearer {secret}"`."""

    environment: str  # name of the variable that holds it, or of NAME_FILE
    header: str


@dataclass(frozen=True, slots=True)
class ClientRetries:
    """A client library that automations use here, and whether it sends again by itself."""

    library: str
    version: str
    default_attempts: int  # what it sends for one call when nothing is set
    must_set: str = ""  # the setting that makes it one
    set_to: str = ""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    method: str
    path: str  # values are percent-encoded, segment by segment
    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None  # a JSON value with placeholders in its texts; None = no body


@dataclass(frozen=True, slots=True)
class SearchTemplate:
    """Asks the destination for records with a step's identity."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    records: str = ""  # dotted path of the list in the reply; "" = the reply itself
    reference: str = "id"  # field of a record
    next_page: str = ""  # dotted path of the next page's address or cursor; "" = one page
    next_query: str = ""  # query field that takes the cursor; "" = `next_page` is an address
    pages_max: int = 20


@dataclass(frozen=True, slots=True)
class ReadTemplate:
    """Reads one record by its reference."""

    path: str  # with {reference}
    record: str = ""  # dotted path of the record in the reply; "" = the reply itself
    reference: str = "id"


@dataclass(frozen=True, slots=True)
class StatusReading:
    """How a found record, or a report about it, tells the final effect. Any other value means: not yet."""

    field: str
    confirmed: tuple[str, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportDefinition:
    """Events of a source that tell the final effect of this action's steps; paths in the event's body."""

    source: str
    identity: str = ""
    reference: str = ""


class Recovery(StrEnum):
    OFF = "off"  # a person enables it, after the drill
    NOT_DRILLED = "not_drilled"  # runs without a drill, and says so: sandboxes only


@dataclass(frozen=True, slots=True)
class ActionDefinition:
    title: str
    profile: ActionProfile
    request: RequestTemplate
    search: SearchTemplate | None = None
    read: ReadTemplate | None = None
    status: StatusReading | None = None
    report: ReportDefinition | None = None
    sensitive: tuple[str, ...] = ()  # dotted paths in the request's body that are shown masked
    automatic_recovery: Recovery = Recovery.OFF


@dataclass(frozen=True, slots=True)
class DestinationDefinition:
    slug: str
    name: str
    base_url: str  # may hold ${NAME}, which the loader takes from the environment
    actions: dict[str, ActionDefinition]
    adapter: str = "http"
    record_url: str = ""  # page of a record, for people: {reference}, {identity}
    search_url: str = ""
    credential: Credential | None = None
    sends_per_second: float = 10.0
    max_in_flight: int = 8
    client_retries: ClientRetries | None = None


# Workflows

APPROVAL_SECONDS = 7 * 86_400


class ParamType(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DATE = "date"
    BOOLEAN = "boolean"
    EMAIL = "email"


class FieldKind(StrEnum):
    """What may become of a content field in a new version."""

    FREE = "free"
    SENSITIVE = "sensitive"  # shown masked; every request that shows content needs approval
    LOCKED = "locked"  # a new version carries the value of the one before


@dataclass(frozen=True, slots=True)
class ParamDefinition:
    name: str
    label: str
    type: ParamType = ParamType.TEXT
    required: bool = True
    sensitive: bool = False  # the kind `sensitive` says the same
    max_length: int = 10_000  # characters of a text
    kind: FieldKind | None = None  # of a content field; None: free

    def __post_init__(self) -> None:
        if self.kind is FieldKind.SENSITIVE:
            object.__setattr__(self, "sensitive", True)

    @property
    def locked(self) -> bool:
        return self.kind is FieldKind.LOCKED


@dataclass(frozen=True, slots=True)
class StepDefinition:
    name: str
    title: str
    destination: str
    action: str
    performer: Performer = Performer.ENGINE
    needs_approval: bool = False  # of the content version that its request shows
    accepted_is_enough: bool = False  # later steps may follow when this one is `accepted`
    continues_after_failure: bool = False  # this step goes on although an earlier one failed
    lease_seconds: int = 300  # for an automation: how long one claim lasts
    longest_seconds: int = 3600  # and how far heartbeats may stretch it


def lease_seconds_of(step: StepDefinition, profile: ActionProfile) -> float:
    """How long one claim of the step lasts: the workflow says it for automations, the destination for the engine."""
    return step.lease_seconds if step.performer is Performer.AUTOMATION else profile.timing.lease_seconds


@dataclass(frozen=True, slots=True)
class WorkflowDefinition:
    slug: str
    title: str  # template: what is to be done, in plain words, without a sensitive value
    owner: str  # who answers when nobody took a hold: a person's or group's sign-in name
    due_seconds: dict[str, int]  # how long a hold may wait: per reason, and `default`
    if_nobody: str  # a sentence: what it means when a hold is left alone
    steps: tuple[StepDefinition, ...]
    params: tuple[ParamDefinition, ...] = ()
    content: tuple[ParamDefinition, ...] = ()  # fields of the versioned content; none = no content
    approval_seconds: int | None = None  # how long an approval stays good for a first send; None: seven days
    escalate_after_seconds: int | None = None  # past its due time a hold goes to the fallback; None: an hour

    @property
    def escalates_after_seconds(self) -> int:
        after = self.escalate_after_seconds
        return ESCALATE_AFTER_SECONDS if after is None else after

    @property
    def approved_for_seconds(self) -> int:
        return APPROVAL_SECONDS if self.approval_seconds is None else self.approval_seconds

    @property
    def sensitive_params(self) -> frozenset[str]:
        return frozenset(param.name for param in self.params if param.sensitive)

    def due_seconds_for(self, reason: str) -> int:
        return self.due_seconds.get(reason, self.due_seconds["default"])

    def step(self, name: str) -> StepDefinition:
        return next(step for step in self.steps if step.name == name)


# Sources


class Hash(StrEnum):
    SHA256 = "sha256"
    SHA512 = "sha512"
    SHA1 = "sha1"


class Encoding(StrEnum):
    HEX = "hex"
    BASE64 = "base64"


class SecretForm(StrEnum):
    TEXT = "text"  # the key is the text itself
    BASE64 = "base64"  # the key is what the text decodes to, with or without `whsec_` before it


@dataclass(frozen=True, slots=True)
class SignatureDefinition:
    """How a source signs a delivery: an HMAC over `signed`."""

    header: str
    scheme: str = ""  # the word before a signature (v1, sha256); "" = the header is the signature
    scheme_separator: str = "="
    entry_separator: str = ","  # between several signatures, and before the timestamp inside the header
    hash: Hash = Hash.SHA256
    encoding: Encoding = Encoding.HEX
    secret_form: SecretForm = SecretForm.TEXT
    timestamp_header: str = ""
    timestamp_key: str = ""  # the word before a timestamp inside the signature's header
    id_header: str = ""
    tolerance_seconds: int = 0  # how far the timestamp may be from now, both ways; 0 = no timestamp
    signed: str = "{body}"  # template of {id}, {timestamp}, {body}


@dataclass(frozen=True, slots=True)
class SecretName:
    environment: str
    active_until: str = ""  # ISO time with zone; refused from then on


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    """Values are found in an event by `body:dotted.path` (or just the path) and `header:Name`."""

    slug: str
    name: str
    kind: str = "signed_webhook"
    delivery: str = ""  # name of a delivery profile, which fills in what is left empty here
    signature: SignatureDefinition | None = None
    secrets: tuple[SecretName, ...] = ()
    content_types: tuple[str, ...] = ()  # accepted ones; none = application/json
    form_field: str = ""  # the field that holds the JSON of a form-encoded delivery
    event_id: str = ""
    topic: str = ""
    occurred_at: str = ""
    topics: tuple[str, ...] = ()  # those that start the workflow; none = all
    starts: str = ""  # slug of the workflow; "" = events are only recorded
    operation_id: str = ""  # template of {event.id}, {event.topic}, {body.path}
    params: tuple[tuple[str, str], ...] = ()  # param -> path in the event
    answer_while_open: int | None = None  # status for an event whose operation is not settled yet
    answer_done: int | None = None


Definition: TypeAlias = DestinationDefinition | WorkflowDefinition | SourceDefinition
