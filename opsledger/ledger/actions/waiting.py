"""Selections of what waits at a stopped destination: its steps have no hold of their own, so they are chosen as steps.

Each is kept at the version that its operation has; the run that ends them skips what moved since (actions/bulk.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from opsledger.ledger.actions.bulk import freeze_rows
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.models import Selection
from opsledger.ledger.queries.waiting import WAITS, Stopped, destination_of
from opsledger.rules.bulk import HOLDS_MAX

_TICKED = """
INSERT INTO ledger_selectionitem (selection_id, position, step_id, version)
SELECT %s, row_number() OVER (ORDER BY s.act_at, s.id), s.id, w.version
  FROM unnest(%s::uuid[], %s::int[]) AS w(id, version) JOIN ledger_step s ON s.id = w.id
 WHERE s.destination_id = %s AND s.team_id = %s
"""
_FIRST = f"""
INSERT INTO ledger_selectionitem (selection_id, position, step_id, version)
SELECT %s, row_number() OVER (ORDER BY s.act_at, s.id), s.id, o.version
  FROM (SELECT s.id, s.act_at, s.operation_id FROM ledger_step s WHERE {WAITS} ORDER BY s.act_at, s.id LIMIT %s) s
  JOIN ledger_operation o ON o.id = s.operation_id
"""
NO_STEP = "none of them waits any more"


def freeze_steps(
    destination: Stopped, team_id: UUID, person_id: Any, versions: Mapping[UUID, int], *, words: str
) -> Selection:
    """Keeps these steps, each at the version of its operation that was seen; one that moved since says so later.

    Refused when there are none, when there are more than HOLDS_MAX, or when the destination is not stopped.
    """
    if len(versions) > HOLDS_MAX:
        raise Refused(f"More than {HOLDS_MAX:,} steps are ticked; one selection takes at most that many.")
    selection = _selection(destination, team_id, person_id, words)
    wanted = sorted(versions)
    kept = [versions[step_id] for step_id in wanted]
    return freeze_rows(selection, _TICKED, [wanted, kept, destination.id, team_id], NO_STEP)


def freeze_first(
    destination: Stopped, team_id: UUID, person_id: Any, *, words: str, most: int = HOLDS_MAX
) -> Selection:
    """Keeps what waits now, the first `most` by their turn, each at the version of its operation. Refused as above."""
    selection = _selection(destination, team_id, person_id, words)
    return freeze_rows(selection, _FIRST, [destination.id, team_id, most], NO_STEP)


def _selection(destination: Stopped, team_id: UUID, person_id: Any, words: str) -> Selection:
    now = destination_of(destination.id, team_id)
    if now is None or not now.reasons:
        raise Refused(
            f"{destination.slug} goes on, so what waited leaves by itself. Nothing was chosen; what is still there can be"
            " cancelled on its own page."
        )
    return Selection(team_id=team_id, person_id=person_id, words=words)
