"""What must hold inside a source’s definition, beyond the types of its fields. Each check belongs to one class."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

from opsledger.rules.building import Problems, checks
from opsledger.rules.definition_types import SecretName, SignatureDefinition, SourceDefinition
from opsledger.rules.field_checks import (
    HEADER_NAME,
    check_slug,
    check_template,
    check_variable,
    safe_parts,
)
from opsledger.rules.templates import Placeholder


@checks(SecretName)
def check_secret(secret: SecretName, path: str, problems: Problems) -> None:
    check_variable(secret.environment, f"{path}.environment", problems)
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
    if not HEADER_NAME.fullmatch(signature.header):
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
    check_slug(source.slug, path, problems)
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
    parts = safe_parts(source.operation_id)
    if parts and not any(isinstance(part, Placeholder) for part in parts):
        problems.add(f"{path}.operation_id", "holds no value of the event: all events would be one operation")
    for before, after in pairwise(parts):
        if isinstance(before, Placeholder) and isinstance(after, Placeholder):
            problems.add(f"{path}.operation_id", "puts two values side by side; write a : or / between them")
    texts = [part for part in parts[1:-1] if isinstance(part, str)]
    if any(":" not in text and "/" not in text for text in texts):
        problems.add(f"{path}.operation_id", "must have a : or / between two values, so that they stay apart")
