"""Words of what is done with many at once: replays, bulk runs, lists of references, provider’s statements."""

from __future__ import annotations

from django.utils.translation import gettext_noop as noop

from opsledger.console.vocabulary.rows import Rows

RUNS: Rows = {
    "replay": (
        (
            "running",
            noop("Running"),
            "running",
            noop("Its steps are begun at its rate, until each has come to rest."),
        ),
        (
            "paused",
            noop("Paused"),
            "paused",
            noop("A person stopped it: nothing more is begun until it is resumed. What was begun goes on."),
        ),
        (
            "aborting",
            noop("Aborting"),
            "half-open",
            noop("A person ended it: nothing more is begun. What was begun is still finished, and counted."),
        ),
        (
            "aborted",
            noop("Aborted"),
            "cancelled",
            noop("It was ended before its time; every step is accounted for."),
        ),
        (
            "finished",
            noop("Ended"),
            "completed",
            noop("Every step is accounted for. Only proven effects count as recovered."),
        ),
    ),
    "item": (
        ("recovered", noop("Recovered"), "confirmed", noop("It was begun, and its effect is proven.")),
        (
            "accepted",
            noop("Accepted"),
            "accepted",
            noop("It was begun, and the destination took it over; its final effect is not proven."),
        ),
        ("held", noop("Held"), "held", noop("It was begun and came to rest at a question for a person.")),
        (
            "closed_unknown",
            noop("Closed as never known"),
            "closed-unknown",
            noop("It was begun, and a person closed it as never known. Nobody is asked any more."),
        ),
        ("failed", noop("Failed (no change)"), "failed", noop("It was begun, had no effect, and was ended.")),
        (
            "cancelled",
            noop("Cancelled"),
            "cancelled",
            noop("It was begun, and then it or its operation was cancelled."),
        ),
        ("behind", noop("Behind"), "waiting", noop("An earlier step of its operation did not get done.")),
        ("waiting", noop("Waiting"), "waiting", noop("Its turn has not come.")),
        ("started", noop("Under way"), "in-flight", noop("It was begun, and has not come to rest.")),
        ("skipped", noop("Skipped"), "skipped", noop("It had changed since the plan, so it was left alone.")),
        ("aborted", noop("Not begun"), "cancelled", noop("The replay was aborted before its turn came.")),
        ("kept", noop("Kept as done"), "completed", noop("It was done before. Nothing was sent for it.")),
        (
            "refused",
            noop("Could not run"),
            "access-refused",
            noop("The plan said why. Nothing was sent for it."),
        ),
    ),
    "bulk_run": (
        (
            "running",
            noop("Running"),
            "running",
            noop("Its holds have their turn one after the other, until each has its result."),
        ),
        ("finished", noop("Ended"), "completed", noop("Every hold has its result.")),
        (
            "aborted",
            noop("Aborted"),
            "cancelled",
            noop("A person ended it before its time; what had no turn was left alone."),
        ),
    ),
    "bulk_item": (
        ("done", noop("Done"), "confirmed", noop("It was done, and stands in the hold’s own history.")),
        (
            "skipped",
            noop("Skipped"),
            "skipped",
            noop("The hold was closed or changed since it was selected, so it was left alone."),
        ),
        (
            "refused",
            noop("Refused"),
            "access-refused",
            noop("The rules said no, and why. Nothing was changed."),
        ),
        ("left", noop("Left alone"), "cancelled", noop("There was nothing to do for it, and it says why.")),
        ("open", noop("Still to come"), "waiting", noop("Its turn has not come.")),
    ),
    "list_row": (
        (
            "matches",
            noop("Matches"),
            "confirmed",
            noop("It carries the identity of a hold that was selected."),
        ),
        (
            "to_be_read",
            noop("To be read"),
            "waiting",
            noop("It names only a reference; the destination is read to see whose it is."),
        ),
        (
            "differs",
            noop("Differs"),
            "differs",
            noop("It is about a hold, but a decisive field of the list is another one."),
        ),
        ("two_records", noop("Two records"), "duplicate", noop("The list says two things of one identity.")),
        (
            "reference_twice",
            noop("Reference twice"),
            "duplicate",
            noop("The list gives one reference to several identities."),
        ),
        (
            "taken",
            noop("Reference taken"),
            "differs",
            noop("Another operation holds this reference already."),
        ),
        (
            "changed",
            noop("Hold changed"),
            "skipped",
            noop("The hold was closed or changed since it was selected."),
        ),
        ("not_asked", noop("Not asked"), "skipped", noop("The hold does not ask whether it happened.")),
        ("repeated", noop("Said before"), "skipped", noop("Another row says the same.")),
        (
            "no_reference",
            noop("No reference"),
            "data-missing",
            noop("It names an identity and no reference."),
        ),
        (
            "no_such_identity",
            noop("Not selected"),
            "skipped",
            noop("No hold that was selected has this identity."),
        ),
        (
            "not_read",
            noop("Not found by it"),
            "unknown",
            noop("The destination did not tell whose reference it is."),
        ),
        (
            "only_reference",
            noop("Reference only"),
            "unknown",
            noop("The destination can’t be read by a reference."),
        ),
        ("unreadable", noop("Unreadable"), "data-missing", noop("The row itself can’t be read.")),
    ),
    "cover": (
        ("covered", noop("Covered"), "confirmed", noop("The statement says that it did not happen.")),
        ("not_named", noop("Not named"), "unknown", noop("The statement’s list does not name it.")),
        (
            "changed",
            noop("Changed"),
            "skipped",
            noop("The hold was closed or changed since it was selected."),
        ),
        ("not_asked", noop("Not asked"), "skipped", noop("The hold does not ask whether it happened.")),
        (
            "found",
            noop("Found"),
            "disputed",
            noop("A record was found or named for it, against the statement."),
        ),
    ),
}
