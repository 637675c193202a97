"""What contradicts “it did not happen” (design.md, laws 5 and 9; rules.md, tables 5 to 7).

Absence is concluded by lookups, by a reply or a report that says *no change* late, and by a replay that rests on a
provider's statement. Each of them asks here first: what was found or named once is not absent because nobody finds it any
more, nor because somebody who was asked says so. A person decides then.

An attempt of which nobody knows the outcome, yet or any more, keeps the reference under which its record was found, or was
named by the destination itself, until it is settled. So the answer rests on what the journal keeps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from opsledger.rules.record import Hold, Step
from opsledger.rules.states import HoldReason

# Questions about records that were found, or about words that contradict each other.
SAY_THAT_IT_HAPPENED = frozenset({HoldReason.DISPUTED, HoldReason.RECORD_DIFFERS, HoldReason.DUPLICATE_FOUND})
# In a hold's facts: a record with our identity was found, without a reference.
FOUND_UNNAMED = "found_unnamed"
_UNNAMED = "a record without a reference"
# What is decided by among a hold's facts: here, by answers that choose among records, and by plans that rest on them. All
# others are shown alone.
DECISIVE = (FOUND_UNNAMED, "reference", "references", "candidates", "taken_by")


def decisive_digest(facts: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of what is decided by among a hold's facts; "" where there is none.

    For the journal, without a nonce: it covers references and own ids, which the journal names, and no personal data.
    """
    known = {name: facts[name] for name in DECISIVE if name in facts}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest() if known else ""


def named(step: Step) -> tuple[str, ...]:
    """The references of records that the step may have made; without those that a person has disowned."""
    return _owned((one.reference for one in step.attempts if one.is_unsettled), step.not_ours)


def _owned(references: Iterable[str | None], not_ours: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in references if one and one not in not_ours))


def found(references: Iterable[str | None], not_ours: Collection[str], facts: Mapping[str, Any]) -> str:
    """The records that speak against absence, in words; "" = none.

    `references`: of the attempts whose outcome is unknown. `facts`: of the hold about their step.
    """
    known = [*_owned(references, not_ours), *([_UNNAMED] if facts.get(FOUND_UNNAMED) else [])]
    return ", ".join(known)


def found_for(step: Step, hold: Hold | None) -> str:
    """The same of a record's step."""
    return found(named(step), (), hold.facts if hold else {})


def contradicts_absence(step: Step, hold: Hold | None) -> str:
    """Why nobody but a person who answers this very question may say that the step did not happen; "" = nothing does."""
    if hold is not None and hold.reason in SAY_THAT_IT_HAPPENED:
        return found_for(step, hold) or hold.reason.value.replace("_", " ")
    return found_for(step, hold)


def findings(step: Step, hold: Hold | None) -> tuple[str, ...]:
    """What was found so far, also what decides nothing: whoever planned without it planned on an older state."""
    facts = hold.facts if hold else {}
    alike, taken_by = facts.get("candidates"), facts.get("taken_by")
    candidates = [str(one) for one in alike] if isinstance(alike, list) else []
    return (*named(step), *candidates, *([str(taken_by)] if taken_by else []))
