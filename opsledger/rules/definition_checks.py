"""What must hold inside a definition, beyond the types of its fields. Each check belongs to one class."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from typing import Any

from opsledger.rules.building import Problems, checks
from opsledger.rules.definition_types import (
    ActionDefinition,
    ClientRetries,
    Credential,
    DestinationDefinition,
    FieldKind,
    ParamDefinition,
    SecretName,
    SignatureDefinition,
    SourceDefinition,
    StepDefinition,
    WorkflowDefinition,
)
from opsledger.rules.profile import (
    FinalEffect,
    FinalEffectBy,
    Lookup,
    Protection,
    ProtectionKind,
    Retries,
    Settles,
    Source,
    Timing,
)
from opsledger.rules.record import Performer
from opsledger.rules.sendable import is_callers_header
from opsledger.rules.states import HoldReason
from opsledger.rules.templates import BadTemplate, Placeholder, parse, placeholders

LEASE_SECONDS_MAX = 3_000  # stays below the broker's visibility timeout of one hour
_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_BASE_URL = re.compile(r"(https?://[^\s/?#{}]|\$\{[A-Z][A-Z0-9_]*\})[^\s?#{}]*", re.ASCII)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_KEY_PLACE = re.compile(r"(header:[A-Za-z0-9-]+|body:[A-Za-z0-9_.-]+)", re.ASCII)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_BODY_PATH = re.compile(r"[^\s.]+(\.[^\s.]+)*")

# The profile


@checks(Source)
def check_documented(source: Source, path: str, problems: Problems) -> None:
    if not source.url.startswith(("https://", "http://")):
        problems.add(f"{path}.url", "must be the address of the page that documents it")
    _check_date(source.checked, f"{path}.checked", problems)


@checks(Protection)
def check_protection(protection: Protection, path: str, problems: Problems) -> None:
    kind = protection.kind
    if kind is ProtectionKind.NONE:
        if protection.window_seconds or protection.operator_window_seconds or protection.key_in:
            problems.add(path, "names a window or a key, but its kind is none")
        return
    if protection.source is None:
        problems.add(f"{path}.source", "is missing: protection counts only where its documentation is named")
    needs_key = kind in {ProtectionKind.IDEMPOTENCY_KEY, ProtectionKind.CLIENT_ID}
    if needs_key and not _KEY_PLACE.fullmatch(protection.key_in):
        problems.add(f"{path}.key_in", "must say where the key goes: header:Name or body:field")


@checks(Lookup)
def check_lookup(lookup: Lookup, path: str, problems: Problems) -> None:
    if lookup.looks_min < 2:
        problems.add(f"{path}.looks_min", "must be 2 or more: one empty answer proves nothing")
    if not lookup.delays_seconds:
        problems.add(f"{path}.delays_seconds", "must hold at least one delay")
    _check_increasing(lookup.delays_seconds, f"{path}.delays_seconds", problems)
    if lookup.last_look_seconds < lookup.quiet_seconds:
        problems.add(f"{path}.last_look_seconds", "must not be earlier than quiet_seconds")
    if lookup.settles is Settles.BOTH and lookup.source is None:
        problems.add(
            f"{path}.source", "is missing: absence counts only where documentation says that it does"
        )


@checks(FinalEffect)
def check_final_effect(final: FinalEffect, path: str, problems: Problems) -> None:
    if final.by is FinalEffectBy.LOOKUP and not final.look_delays_seconds:
        problems.add(f"{path}.look_delays_seconds", "is missing: a final effect by lookup needs its delays")
    _check_increasing(final.look_delays_seconds, f"{path}.look_delays_seconds", problems)


@checks(Retries)
def check_retries(retries: Retries, path: str, problems: Problems) -> None:
    if retries.tries_max > 1 and not retries.delays_seconds:
        problems.add(f"{path}.delays_seconds", "is missing: more than one try needs a delay")
    _check_increasing(retries.delays_seconds, f"{path}.delays_seconds", problems)


@checks(Timing)
def check_timing(timing: Timing, path: str, problems: Problems) -> None:
    if not 0 < timing.connect_seconds < timing.total_seconds < timing.lease_seconds <= LEASE_SECONDS_MAX:
        problems.add(
            path,
            "must nest: connect_seconds below total_seconds below lease_seconds, "
            f"and that not above {LEASE_SECONDS_MAX}",
        )


# Destinations


@checks(Credential)
def check_credential(credential: Credential, path: str, problems: Problems) -> None:
    _check_variable(credential.environment, f"{path}.environment", problems)
    name, colon, value = credential.header.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name):
        problems.add(f"{path}.header", "must be written as Name: value")
    elif not is_callers_header(name):
        problems.add(f"{path}.header", f"names {name}, which is the transport's to set")
    check_template(value, {"secret"}, f"{path}.header", problems)
    if "{secret}" not in value:
        problems.add(f"{path}.header", "must hold {secret} where the secret goes")


@checks(ClientRetries)
def check_client_retries(client: ClientRetries, path: str, problems: Problems) -> None:
    if client.default_attempts > 1 and not client.must_set:
        problems.add(
            f"{path}.must_set",
            f"is missing: {client.library} {client.version} sends up to {client.default_attempts} times by "
            "itself; name the setting that makes it one",
        )


@checks(ActionDefinition)
def check_action(action: ActionDefinition, path: str, problems: Problems) -> None:
    if action.profile is None:
        return  # its problems are already told
    _check_request(action, path, problems)
    _check_lookup_requests(action, path, problems)
    _check_final_effect_reading(action, path, problems)
    for index, place in enumerate(action.sensitive):
        if not _at(action.request.body, place):
            problems.add(
                f"{path}.sensitive[{index}]", f"names {place}, which the request's body does not have"
            )


def _check_request(action: ActionDefinition, path: str, problems: Problems) -> None:
    request = action.request
    if request.method not in _METHODS:
        problems.add(f"{path}.request.method", f"must be one of {', '.join(sorted(_METHODS))}")
    _check_path(request.path, f"{path}.request.path", problems)
    roots = {"params", "content", "step", "steps", "operation"}
    check_template(request.path, roots, f"{path}.request.path", problems)
    check_template(request.body, roots, f"{path}.request.body", problems)
    for name, value in request.query:
        check_template(value, roots, f"{path}.request.query.{name}", problems)
    for name, value in request.headers:
        if not _HEADER_NAME.fullmatch(name):
            problems.add(f"{path}.request.headers.{name}", "is not a header's name")
        elif not is_callers_header(name):
            problems.add(f"{path}.request.headers.{name}", "is the transport's to set; leave it out")
        check_template(value, roots, f"{path}.request.headers.{name}", problems)
    where, _, place = action.profile.protection.key_in.partition(":")
    if where == "header" and not is_callers_header(place):
        problems.add(f"{path}.protection.key_in", f"names {place}, which is the transport's to set")
    if where == "body" and not isinstance(_at(request.body, place.rpartition(".")[0]), dict):
        problems.add(
            f"{path}.protection.key_in", f"names {place}, but the request's body has no table for it"
        )


def _check_lookup_requests(action: ActionDefinition, path: str, problems: Problems) -> None:
    lookup, search, read = action.profile.lookup, action.search, action.read
    if search:
        roots = {"step", "params", "operation"}
        _check_path(search.path, f"{path}.search.path", problems)
        for name, value in (("path", search.path), *search.query):
            check_template(value, roots, f"{path}.search.{name}", problems)
    if read:
        _check_path(read.path, f"{path}.read.path", problems)
        check_template(read.path, {"reference"}, f"{path}.read.path", problems)
        if "{reference}" not in read.path:
            problems.add(f"{path}.read.path", "must hold {reference}")
    if search and lookup is None:
        problems.add(f"{path}.lookup", "is missing: a search needs to say what its answer settles")
    if lookup and search and not lookup.identity:
        problems.add(f"{path}.lookup.identity", "is missing: which field of a record carries our identity?")
    if lookup and lookup.by_reference and read is None:
        problems.add(f"{path}.read", "is missing: lookup.by_reference says that a reference can be read")
    if lookup and not search and not lookup.by_reference:
        problems.add(f"{path}.search", "is missing: a lookup needs a search, or by_reference and a read")
    for ours, _ in lookup.decisive if lookup else ():
        if _at(action.request.body, ours) is None:
            problems.add(f"{path}.lookup.decisive", f"names {ours}, which the request's body does not have")


def _check_final_effect_reading(action: ActionDefinition, path: str, problems: Problems) -> None:
    final = action.profile.final_effect
    if final is None:
        return
    if action.status is None:
        problems.add(
            f"{path}.status", "is missing: which field tells the final effect, and with which words?"
        )
    if final.by is FinalEffectBy.LOOKUP and action.read is None and action.search is None:
        problems.add(f"{path}.read", "is missing: a final effect by lookup needs a read or a search")
    if final.by is FinalEffectBy.REPORT and action.report is None:
        problems.add(f"{path}.report", "is missing: which source reports the final effect?")
    if action.report and not (action.report.identity or action.report.reference):
        problems.add(f"{path}.report", "needs identity or reference, to know which step a report is about")


@checks(DestinationDefinition)
def check_destination(destination: DestinationDefinition, path: str, problems: Problems) -> None:
    _check_slug(destination.slug, path, problems)
    if not _BASE_URL.fullmatch(destination.base_url):
        problems.add(f"{path}.base_url", "must begin with http://, https:// or ${NAME}, without ? or #")
    for name in ("record_url", "search_url"):
        value = getattr(destination, name)
        check_template(value, {"reference", "identity"}, f"{path}.{name}", problems)
        if value and not value.startswith(("/", "http://", "https://", "${")):
            problems.add(f"{path}.{name}", "must be a path that begins with / or a full address")
    if not destination.actions:
        problems.add(f"{path}.actions", "is empty: name at least one action")
    for action in destination.actions:
        _check_name(action, f"{path}.actions.{action}", problems)


# Workflows


@checks(ParamDefinition)
def check_param(param: ParamDefinition, path: str, problems: Problems) -> None:
    _check_name(param.name, f"{path}.name", problems)
    if param.sensitive and param.kind is FieldKind.FREE:
        problems.add(f"{path}.kind", "says free, but the field is sensitive; leave one of them out")


@checks(StepDefinition)
def check_step(step: StepDefinition, path: str, problems: Problems) -> None:
    _check_name(step.name, f"{path}.name", problems)
    if step.performer is Performer.AUTOMATION and not 0 < step.lease_seconds <= step.longest_seconds:
        problems.add(f"{path}.lease_seconds", "must be above 0 and not above longest_seconds")


@checks(WorkflowDefinition)
def check_workflow(workflow: WorkflowDefinition, path: str, problems: Problems) -> None:
    _check_slug(workflow.slug, path, problems)
    if not workflow.steps:
        problems.add(f"{path}.steps", "is empty: name at least one step")
    for kind in ("params", "content", "steps"):
        _check_distinct([item.name for item in getattr(workflow, kind)], f"{path}.{kind}", problems)
    _check_due(workflow, f"{path}.due_seconds", problems)
    _check_title(workflow, f"{path}.title", problems)
    if any(step.needs_approval for step in workflow.steps) and not workflow.content:
        problems.add(
            f"{path}.content", "is missing: a step needs approval, but there is no content to approve"
        )
    for index, param in enumerate(workflow.params):
        if param.kind is not None:
            problems.add(f"{path}.params[{index}].kind", "is for fields of content; params may be sensitive")
    if workflow.approval_seconds is not None and workflow.approval_seconds < 1:
        problems.add(
            f"{path}.approval_seconds", "must be 1 or more: an approval has to be good for something"
        )
    after = workflow.escalate_after_seconds
    if after is not None and not ESCALATE_SECONDS_MIN <= after <= ESCALATE_SECONDS_MAX:
        span = f"{ESCALATE_SECONDS_MIN} to {ESCALATE_SECONDS_MAX} (30 days)"
        problems.add(
            f"{path}.escalate_after_seconds", f"must be from {span}: whoever is reminded needs time to act"
        )
    for name in ("owner", "if_nobody"):
        if not getattr(workflow, name).strip():
            problems.add(f"{path}.{name}", "must not be empty")


ESCALATE_SECONDS_MIN, ESCALATE_SECONDS_MAX = 60, 30 * 86_400


def _check_due(workflow: WorkflowDefinition, path: str, problems: Problems) -> None:
    if "default" not in workflow.due_seconds:
        problems.add(f"{path}.default", "is missing: it stands for every reason that is not named")
    known = {reason.value for reason in HoldReason} | {"default"}
    for reason in workflow.due_seconds:
        if reason not in known:
            problems.add(f"{path}.{reason}", f"is not a reason; known are {', '.join(sorted(known))}")


def _check_title(workflow: WorkflowDefinition, path: str, problems: Problems) -> None:
    check_template(workflow.title, {"params"}, path, problems)
    params = {param.name: param for param in workflow.params}
    for placeholder in _safe_placeholders(workflow.title):
        param = params.get(placeholder.path[-1])
        if placeholder.path[0] != "params" or param is None:
            problems.add(path, f"names {placeholder.name}, which is not a param of this workflow")
        elif param.sensitive:
            problems.add(
                path, f"shows {placeholder.name}, which is sensitive; the title is read by everybody"
            )


# Sources


@checks(SecretName)
def check_secret(secret: SecretName, path: str, problems: Problems) -> None:
    _check_variable(secret.environment, f"{path}.environment", problems)
    if not secret.active_until:
        return
    try:
        zone = datetime.fromisoformat(secret.active_until).tzinfo
    except ValueError:
        zone = None
    if zone is None:
        problems.add(f"{path}.active_until", "must be a time with its zone, such as 2026-03-01T00:00:00Z")


@checks(SignatureDefinition)
def check_signature(signature: SignatureDefinition, path: str, problems: Problems) -> None:
    if not _HEADER_NAME.fullmatch(signature.header):
        problems.add(f"{path}.header", "is not a header's name")
    check_template(signature.signed, {"id", "timestamp", "body"}, f"{path}.signed", problems)
    if "{body}" not in signature.signed:
        problems.add(f"{path}.signed", "must hold {body}: what is not signed can be changed by anybody")
    if signature.timestamp_header and signature.timestamp_key:
        problems.add(f"{path}.timestamp_key", "and timestamp_header are both set; keep one of them")
    timed = bool(signature.timestamp_header or signature.timestamp_key)
    if timed != ("{timestamp}" in signature.signed) or timed != bool(signature.tolerance_seconds):
        problems.add(
            path, "must name the timestamp's place, sign it and say its tolerance_seconds, or none of them"
        )
    if ("{id}" in signature.signed) != bool(signature.id_header):
        problems.add(f"{path}.id_header", "must be set exactly when {id} is signed")


@checks(SourceDefinition)
def check_source(source: SourceDefinition, path: str, problems: Problems) -> None:
    _check_slug(source.slug, path, problems)
    if source.signature is None and not source.delivery:
        problems.add(f"{path}.signature", "is missing; name it, or a delivery profile that has one")
    if not source.secrets:
        problems.add(f"{path}.secrets", "is empty: name at least one secret")
    if not source.event_id and not source.delivery:
        problems.add(f"{path}.event_id", "is missing: where does an event say which one it is?")
    if source.form_field and "application/x-www-form-urlencoded" not in source.content_types:
        problems.add(
            f"{path}.content_types", "must hold application/x-www-form-urlencoded when form_field is set"
        )
    for name in ("answer_while_open", "answer_done"):
        status = getattr(source, name)
        if status is not None and not 200 <= status <= 299:
            problems.add(f"{path}.{name}", "must be a status from 200 to 299")
    _check_start(source, path, problems)


def _check_start(source: SourceDefinition, path: str, problems: Problems) -> None:
    if bool(source.starts) != bool(source.operation_id):
        problems.add(f"{path}.operation_id", "and starts belong together: set both or none")
    if source.topics and not (source.topic or source.delivery):
        problems.add(f"{path}.topic", "is missing: topics are named, but not where an event says its own")
    check_template(source.operation_id, {"event", "body"}, f"{path}.operation_id", problems)
    parts = _safe_parts(source.operation_id)
    if parts and not any(isinstance(part, Placeholder) for part in parts):
        problems.add(f"{path}.operation_id", "holds no value of the event: all events would be one operation")
    for before, after in pairwise(parts):
        if isinstance(before, Placeholder) and isinstance(after, Placeholder):
            problems.add(f"{path}.operation_id", "puts two values side by side; write a : or / between them")
    texts = [part for part in parts[1:-1] if isinstance(part, str)]
    if any(":" not in text and "/" not in text for text in texts):
        problems.add(f"{path}.operation_id", "must have a : or / between two values, so that they stay apart")


# Shared


def check_template(template: Any, roots: set[str], path: str, problems: Problems) -> None:
    """The template can be read, and every placeholder begins with one of these words."""
    try:
        found = list(placeholders(template))
    except BadTemplate as why:
        problems.add(path, str(why))
        return
    for placeholder in found:
        if placeholder.path[0] not in roots:
            problems.add(path, f"names {placeholder.name}; known here are {', '.join(sorted(roots))}")


def _safe_parts(template: str) -> tuple[str | Placeholder, ...]:
    try:
        return parse(template)
    except BadTemplate:
        return ()  # told by check_template


def _safe_placeholders(template: str) -> list[Placeholder]:
    return [part for part in _safe_parts(template) if isinstance(part, Placeholder)]


def _at(body: Any, place: str) -> Any:
    """What stands at a dotted path of a body's template; None where nothing does. "" is the body itself."""
    for name in place.split(".") if place else ():
        if not isinstance(body, dict) or name not in body:
            return None
        body = body[name]
    return body


def _check_slug(slug: str, path: str, problems: Problems) -> None:
    if not _SLUG.fullmatch(slug):
        problems.add(
            path, "must be named with a-z, 0-9, _ and -, beginning with a letter, at most 63 characters"
        )


def _check_name(name: str, path: str, problems: Problems) -> None:
    if not _NAME.fullmatch(name):
        problems.add(
            path, "must be named with a-z, 0-9 and _, beginning with a letter, at most 63 characters"
        )


def _check_variable(name: str, path: str, problems: Problems) -> None:
    if not _VARIABLE.fullmatch(name):
        problems.add(path, "must be the name of an environment variable, such as CRM_TOKEN")


def _check_path(value: str, path: str, problems: Problems) -> None:
    if not value.startswith("/") or "?" in value.replace("?}", "") or "#" in value:
        problems.add(path, "must begin with / and hold neither ? nor #; write fields of the query as query")


def _check_distinct(names: list[str], path: str, problems: Problems) -> None:
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add(path, f"names {name} more than once")


def _check_increasing(delays: Iterable[int], path: str, problems: Problems) -> None:
    listed = list(delays)
    if listed != sorted(listed):
        problems.add(path, "must not decrease")


def _check_date(text: str, path: str, problems: Problems) -> None:
    try:
        datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007  a day, not a moment
    except ValueError:
        problems.add(path, "must be a date, such as 2026-03-01")
