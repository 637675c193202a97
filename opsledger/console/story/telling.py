"""What the tellers of one operation’s entries have at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from opsledger.ledger.queries.page import OperationView, StepView
from opsledger.ledger.queries.timeline import EvidenceLine, Told, names_of
from opsledger.lib import ids


@dataclass(slots=True)
class Telling:
    """Entries of one operation, on their way to become items. `names` are those of actors, by actor."""

    view: OperationView
    evidence: Mapping[str, EvidenceLine]
    names: Mapping[str, str]
    ended: dict[str, Told] = field(default_factory=dict)  # ends of attempts, told with their openings

    def name(self, actor: str) -> str:
        """Who: a person’s or a token’s name, a destination’s or source’s slug, or the machine."""
        if actor in self.names:
            return self.names[actor]
        kind, _sep, rest = actor.partition(":")
        if kind in {"worker", "engine"}:
            return _("The machine")
        return rest or actor

    def attempt(self, attempt_id: str) -> tuple[StepView | None, Any]:
        for step, attempt in self.view.attempts:
            if str(attempt.id) == attempt_id:
                return step, attempt
        return None, None

    def said(self, entry: Told) -> str:
        """What its evidence says; "" where it brought none."""
        evidence = self.evidence.get(str(entry.body.get("evidence")))
        if evidence is not None:
            return evidence.sentence
        if entry.kind == "lease_ended":
            return _("Nothing was heard before the lease ended. It may or may not have happened.")
        return ""

    def evidence_id(self, entry: Told) -> str:
        evidence = self.evidence.get(str(entry.body.get("evidence")))
        return ids.public("ev", evidence.id) if evidence else ""


def names_in(told: Iterable[Told]) -> dict[str, str]:
    """Names of everybody whom these entries speak of, by actor."""
    actors: set[str] = set()
    for entry in told:
        body = entry.body
        actors.add(entry.actor)
        actors |= {
            f"person:{body[name]}" for name in ("owner", "from", "to") if isinstance(body.get(name), str)
        }
        actors |= {f"person:{one['owner']}" for one in (body.get("given") or {}).values()}
        if body.get("proposed_by"):
            actors.add(str(body["proposed_by"]))
    return names_of(actors)
