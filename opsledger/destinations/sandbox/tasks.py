"""The CRM: tasks are created, read, searched, changed on a condition, upserted by the caller's identity."""

from __future__ import annotations

from .act import Act, task_document
from .documents import Document, identity_in, is_unicode
from .keys import exists_reply
from .refusal import Refused, invalid
from .search import search
from .store import Record
from .wire import Reply, json_reply

TEXT_FIELDS = ("subject", "queue", "due_date", "account", "external_id")
OWN_FIELDS = ("id", "created_at", "updated_at")


def create(act: Act) -> Reply:
    fields = act.bend(_read_fields(act.request.document(), complete=True))
    identity = identity_in(fields, "external_id")
    existing = _with_identity(act, identity) if identity and act.mode.external_id_unique != "no" else []
    if existing:
        return exists_reply(existing[0].reference if act.mode.external_id_unique == "named" else None)
    return _created(act, identity, fields)


def find(act: Act) -> Reply:
    return search(act, "task", {"external_id": "identity", "subject": "subject"})


def read(act: Act, reference: str) -> Reply:
    record = _readable(act, reference)
    return json_reply(200, task_document(record), _etag(record))


def change(act: Act, reference: str) -> Reply:
    """Merge fields in. If-Match, or `version` in the body, is a condition: 412 when another is current."""
    record = _readable(act, reference)
    return _changed(act, record, _read_fields(act.request.document(), complete=False))


def read_by_identity(act: Act, identity: str) -> Reply:
    """A direct read, without the search's lag."""
    found = [record for record in _with_identity(act, identity) if record.readable_at <= act.now]
    if len(found) > 1:
        return _several(found)
    if not found:
        raise _missing("No task has this external_id.")
    return json_reply(200, task_document(found[0]), _etag(found[0]))


def upsert(act: Act, identity: str) -> Reply:
    """201 created, 200 changed, 300 and nothing done when several match."""
    document = act.request.document()
    if identity_in(document, "external_id") not in ("", identity):
        raise invalid([("external_id", "differs from the one in the path")])
    found = _with_identity(act, identity)
    if len(found) > 1:
        return _several(found)
    if found:
        return _changed(act, found[0], _read_fields(document, complete=False))
    fields = _read_fields({**document, "external_id": identity}, complete=True)
    return _created(act, identity, act.bend(fields))


def _created(act: Act, identity: str, fields: Document) -> Reply:
    made = [
        act.add_record("task", identity, fields, act.mode.search_lag_seconds)
        for _ in range(act.twist.copies_count)
    ]
    location = ("Location", f"/crm/tasks/{made[0].reference}")
    return json_reply(201, task_document(made[0]), location, _etag(made[0]))


def _changed(act: Act, record: Record, changes: Document) -> Reply:
    wanted = changes.pop("version", None)
    matches = act.request.values("if-match")
    if (wanted is not None and wanted != record.version) or (matches and not _matches(matches, record)):
        message = f"Version {record.version} is current. Nothing was done."
        raise Refused(412, "precondition_failed", message)
    if changes.get("external_id", record.identity) not in (record.identity, None):
        raise invalid([("external_id", "can't be changed")])
    changed = act.change_record(record, act.bend(changes))
    return json_reply(200, task_document(changed), _etag(changed))


def _matches(values: list[str], record: Record) -> bool:
    tags = [tag.strip() for tag in ",".join(values).split(",")]
    return "*" in tags or _etag(record)[1] in tags


def _etag(record: Record) -> tuple[str, str]:
    return ("ETag", f'"{record.version}"')


def _readable(act: Act, reference: str) -> Record:
    found = act.store.records("kind = 'task' AND reference = ? AND readable_at <= ?", (reference, act.now))
    if not found:
        raise _missing("No task has this id.")
    return found[0]


def _with_identity(act: Act, identity: str) -> list[Record]:
    return act.store.records("kind = 'task' AND identity = ?", (identity,))


def _several(found: list[Record]) -> Reply:
    matches = [f"/crm/tasks/{record.reference}" for record in found]
    error = {"code": "several_match", "message": "Several tasks have this external_id. Nothing was done."}
    return json_reply(300, {"error": error, "matches": matches})


def _missing(message: str) -> Refused:
    return Refused(404, "not_found", message)


def _read_fields(document: Document, *, complete: bool) -> Document:
    """The fields to store: texts where texts are due, any other JSON as it came. Raises Refused (422)."""
    errors = [(name, "is given by the CRM") for name in OWN_FIELDS if name in document]
    for name in TEXT_FIELDS:
        value = document.get(name)
        if value is not None and not isinstance(value, str):
            errors.append((name, "must be text"))
    if "version" in document and (complete or type(document["version"]) is not int):
        errors.append(("version", "is given by the CRM" if complete else "must be a whole number"))
    if (complete or "subject" in document) and not document.get("subject"):
        errors.append(("subject", "is required"))
    if isinstance(document.get("external_id"), str) and not is_unicode(document["external_id"]):
        errors.append(("external_id", "holds half of a surrogate pair"))
    if errors:
        raise invalid(errors)
    return dict(document)
