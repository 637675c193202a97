"""Lookups, and what they brought."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.story.items import Item
from opsledger.console.story.telling import Telling
from opsledger.ledger.queries.timeline import Told

_NO_RECORD = (noop("Lookup found no record"), "", None)
_LOOKED: Mapping[str, tuple[str, str, tuple[str, str] | None]] = {
    "found": (noop("Lookup found this action’s record"), "confirmed", ("confirmed", "outcome")),
    "field_differs": (noop("Lookup found a record that differs"), "differs", ("record_differs", "hold")),
    "several_records": (noop("Lookup found several records"), "duplicate", ("duplicate_found", "hold")),
    "only_alike": (noop("Lookup found records that are only alike"), "differs", None),
    "reference_taken": (noop("Lookup found a record that another operation holds"), "differs", None),
    "proven_absent": (noop("Lookups prove that it is not there"), "absent", ("absent", "no_change")),
    "contradicted": (noop("Lookups find no more what was found before"), "disputed", ("disputed", "hold")),
    "failed": (noop("The destination says that it failed"), "failed", None),
    "positive_only": _NO_RECORD,
    "quiet_period": _NO_RECORD,
    "too_few_looks": _NO_RECORD,
    "not_all_pages": _NO_RECORD,
    "lookup_failed": (noop("Lookup failed"), "", None),
    "only_read": (noop("The record that was named can’t be read"), "", None),
    "no_answer": (noop("Lookup gave no answer"), "", None),
    "access_refused": (noop("The destination did not let us look"), "access-refused", None),
    "running": (noop("The destination is still at work on it"), "in-flight", None),
    "not_final_yet": (noop("Its final effect is not known yet"), "accepted", None),
    "delivered": (noop("Delivered, says the destination"), "confirmed", ("confirmed", "outcome")),
    "bounced": (noop("Not delivered, says the destination"), "delivery-failed", ("delivery_failed", "hold")),
}


def lookup_ended(telling: Telling, entry: Told) -> Item:
    says = str(entry.body.get("says"))
    title, state, badge = _LOOKED.get(says, (noop("Lookup ended"), "", None))
    return Item(
        entry.at,
        "search",
        _(title),
        about="lookups",
        state=state,
        badge=badge,
        text=telling.said(entry),
        evidence_id=telling.evidence_id(entry),
        key=str(entry.seq),
    )


def looked_word(says: str) -> str:
    """What a lookup brought, in a few words: “Lookup found no record”."""
    return _(_LOOKED[says][0]) if says in _LOOKED else _("Lookup ended")
