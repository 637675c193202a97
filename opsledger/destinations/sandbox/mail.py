"""The mail provider: messages are taken over at once and delivered, or bounced, later."""

from __future__ import annotations

from .act import Act, message_document
from .documents import Document, identity_in
from .refusal import Refused, invalid
from .search import search
from .wire import Reply, json_reply

OWN_FIELDS = ("id", "status", "created_at", "ended_at")


def send(act: Act) -> Reply:
    """202: taken over. The final state is read later, or reported to the report URL."""
    fields = act.bend(_read_fields(act.request.document()))
    identity = identity_in(fields, "metadata", "operation")
    outcome = "bounced" if str(fields["to"]).lower().startswith("bounce") else act.mode.mail_outcome
    ends = outcome != "never"
    deliver_at = act.now + act.mode.mail_delivery_seconds if ends else None
    lag_seconds = act.mode.mail_search_lag_seconds
    made = [
        act.add_record("message", identity, fields, lag_seconds, deliver_at, outcome if ends else None)
        for _ in range(act.twist.copies_count)
    ]
    if deliver_at is not None and act.mode.report_url:
        for record in made:
            _promise_reports(act, record.number, deliver_at, act.mode.report_url)
    location = ("Location", f"/mail/messages/{made[0].reference}")
    return json_reply(202, {"id": made[0].reference, "status": "queued"}, location)


def find(act: Act) -> Reply:
    return search(act, "message", {"metadata_operation": "identity", "subject": "subject"})


def read(act: Act, reference: str) -> Reply:
    found = act.store.records("kind = 'message' AND reference = ? AND readable_at <= ?", (reference, act.now))
    if not found:
        raise Refused(404, "not_found", "No message has this id.")
    return json_reply(200, message_document(found[0], act.now))


def _promise_reports(act: Act, record: int, due_at: float, url: str) -> None:
    act.promised_reports = True
    with act.store.transaction() as db:
        db.executemany(
            "INSERT INTO reports (record, copy, due_at, url) VALUES (?,?,?,?)",
            [(record, copy, due_at, url) for copy in range(act.mode.report_copies)],
        )


def _is_given(document: Document, name: str) -> bool:
    return isinstance(document.get(name), str) and document[name] != ""


def _read_fields(document: Document) -> Document:
    """The fields to store, any other JSON as it came. Raises Refused (422)."""
    errors = [(name, "is given by the provider") for name in OWN_FIELDS if name in document]
    required = [name for name in ("to", "subject", "text") if not _is_given(document, name)]
    errors += [(name, "is required") for name in required]
    if _is_given(document, "to") and not 0 < document["to"].find("@") < len(document["to"]) - 1:
        errors.append(("to", "must be one address"))
    metadata = document.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        errors.append(("metadata", "must be an object of texts"))
    if errors:
        raise invalid(errors)
    identity_in(document, "metadata", "operation")
    return dict(document)
