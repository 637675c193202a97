"""Words of what keeps a repeat from acting twice, and of a destination’s circuit."""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

from opsledger.console.vocabulary.rows import Rows

PROTECTIONS: Rows = {
    "protection": (
        (
            "protected",
            noop("Protected"),
            "protected",
            noop("Sending the same request again is documented to have no second effect."),
        ),
        (
            "unprotected",
            noop("None: a resend may duplicate"),
            "unprotected",
            noop("Nothing documented stops a second effect."),
        ),
        (
            "expired",
            noop("Protection expired"),
            "expired",
            noop("It was protected once; the documented window is over."),
        ),
    ),
    "protection_kind": (
        (
            "none",
            noop("None: a resend may duplicate"),
            "unprotected",
            noop("The destination documents no protection."),
        ),
        (
            "idempotency_key",
            noop("Idempotency key"),
            "protected",
            noop("The same key with the same bytes is recognised within a window."),
        ),
        (
            "client_id",
            noop("Own id"),
            "protected",
            noop("The record carries an id of ours that the destination keeps unique."),
        ),
        (
            "upsert",
            noop("Upsert"),
            "protected",
            noop("The same write again leaves the same record, while nobody changed it since."),
        ),
        (
            "conditional",
            noop("Conditional"),
            "protected",
            noop("A repeat is refused by its own precondition, which says nothing about the first."),
        ),
    ),
    "circuit": (
        ("closed", noop("Sending"), "closed", noop("Requests go out.")),
        (
            "half_open",
            noop("Circuit half open"),
            "half-open",
            noop("One trial at a time goes out. The others wait."),
        ),
        (
            "open",
            noop("Circuit open"),
            "open",
            noop("Nothing goes out until the next trial. Everything waits."),
        ),
    ),
}
