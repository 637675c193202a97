"""The kinds of sources. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from opsledger.rules.building import Problem, unknown_field
from opsledger.rules.definition_types import SourceDefinition
from opsledger.sources import signed_webhook
from opsledger.sources.profiles import PROFILES, completed
from opsledger.sources.refusals import Refusal
from opsledger.sources.signatures import Headers, Secret
from opsledger.sources.signed_webhook import Occurrence


class SourceKind(Protocol):
    """What a module of a kind has. Conformance: tests/sources/test_conformance.py."""

    def receive(
        self,
        source: SourceDefinition,
        headers: Headers,
        raw: bytes,
        now: datetime,
        secrets: Iterable[Secret],
        *,
        bytes_max: int = ...,
    ) -> Occurrence | Refusal: ...


KINDS: dict[str, SourceKind] = {"signed_webhook": signed_webhook}


def check_source(source: SourceDefinition) -> list[Problem]:
    """What only the registry knows: whether the kind and the delivery profile exist."""
    path, found = f"source.{source.slug}", []
    if source.kind not in KINDS:
        found.append((f"{path}.kind", unknown_field(source.kind, KINDS).replace("field", "kind")))
    if source.delivery and source.delivery not in PROFILES:
        found.append(
            (f"{path}.delivery", unknown_field(source.delivery, PROFILES).replace("field", "profile"))
        )
    return found


def receive(
    source: SourceDefinition,
    headers: Headers,
    raw: bytes,
    now: datetime,
    secrets: Iterable[Secret],
    *,
    bytes_max: int,
) -> Occurrence | Refusal:
    """One delivery by its source's kind. The source is as defined; its delivery profile is filled in here."""
    return KINDS[source.kind].receive(completed(source), headers, raw, now, secrets, bytes_max=bytes_max)


def answer_status(source: SourceDefinition, *, done: bool) -> int:
    """What this source wants to hear: when the operation is settled, and while it is open."""
    whole = completed(source)
    return (whole.answer_done if done else whole.answer_while_open) or 200
