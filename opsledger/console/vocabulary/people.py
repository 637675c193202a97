"""Words of people, tokens and the messages that people get."""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

from opsledger.console.vocabulary.rows import Rows

PEOPLE: Rows = {
    "token": (
        ("active", noop("Active"), "confirmed", noop("It opens the API within its scopes.")),
        ("expired", noop("Expired"), "expired", noop("Its date has passed.")),
        ("revoked", noop("Revoked"), "cancelled", noop("Somebody ended it.")),
    ),
    "person": (
        ("active", noop("Active"), "confirmed", noop("May sign in.")),
        (
            "deactivated",
            noop("Deactivated"),
            "cancelled",
            noop("Can’t sign in. The name stays on what was decided."),
        ),
    ),
    "mailing": (
        (
            "waiting",
            noop("Waiting"),
            "waiting",
            noop("Its time has not come, or the last try failed and another follows."),
        ),
        ("sending", noop("Being sent"), "in-flight", noop("It was written down before its first byte left.")),
        (
            "sent",
            noop("Sent"),
            "confirmed",
            noop("The mail server or the service took it; that it was read is not known."),
        ),
        (
            "failed",
            noop("Failed"),
            "failed",
            noop("It was refused at every try. The notices stay on their page."),
        ),
        (
            "unknown",
            noop("Not known to have arrived"),
            "unknown",
            noop("A try broke off; no further one is made."),
        ),
    ),
}
