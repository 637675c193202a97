"""What must hold inside a destination’s definition, beyond the types of its fields. Each check belongs to one class."""

from __future__ import annotations

import re

from opsledger.rules.building import Problems, checks
from opsledger.rules.definition_types import (
    ActionDefinition,
    ClientRetries,
    Credential,
    DestinationDefinition,
)
from opsledger.rules.field_checks import (
    HEADER_NAME,
    at_place,
    check_name,
    check_path,
    check_slug,
    check_template,
    check_variable,
)
from opsledger.rules.profile import FinalEffectBy, Settles
from opsledger.rules.sendable import is_callers_header

_BASE_URL = re.compile(r"(https?://[^\s/?#{}]|\$\{[A-Z][A-Z0-9_]*\})[^\s?#{}]*", re.ASCII)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


@checks(Credential)
def check_credential(credential: Credential, path: str, problems: Problems) -> None:
    check_variable(credential.environment, f"{path}.environment", problems)
    name, colon, value = credential.header.partition(":")
    if not colon or not HEADER_NAME.fullmatch(name):
        problems.add(f"{path}.header", "must be written as Name: value")
    elif not is_callers_header(name):
        problems.add(f"{path}.header", f"names {name}, which is the transport's to set")
    check_template(value, {"secret"}, f"{path}.header", problems)
    if "{secret}" not in value:
        problems.add(f"{path}.header", "must hold {secret} where the secret goes")


@checks(ClientRetries)
def check_client_retries(client: ClientRetries, path: str, problems: Problems) -> None:
    if client.default_attempts > 1 and not client.must_set:
        problems.add(
            f"{path}.must_set",
            f"is missing: {client.library} {client.version} sends up to {client.default_attempts} times by "
            "itself; name the setting that makes it one",
        )


@checks(ActionDefinition)
def check_action(action: ActionDefinition, path: str, problems: Problems) -> None:
    if action.profile is None:
        return  # its problems are already told
    _check_id_space(action, path, problems)
    _check_request(action, path, problems)
    _check_lookup_requests(action, path, problems)
    _check_final_effect_reading(action, path, problems)
    for index, place in enumerate(action.sensitive):
        if not at_place(action.request.body, place):
            problems.add(
                f"{path}.sensitive[{index}]", f"names {place}, which the request's body does not have"
            )


def _check_id_space(action: ActionDefinition, path: str, problems: Problems) -> None:
    if action.profile.reply.id_space:
        check_name(action.profile.reply.id_space, f"{path}.reply.id_space", problems)


def _check_request(action: ActionDefinition, path: str, problems: Problems) -> None:
    request = action.request
    if request.method not in _METHODS:
        problems.add(f"{path}.request.method", f"must be one of {', '.join(sorted(_METHODS))}")
    check_path(request.path, f"{path}.request.path", problems)
    roots = {"params", "content", "step", "steps", "operation"}
    check_template(request.path, roots, f"{path}.request.path", problems)
    check_template(request.body, roots, f"{path}.request.body", problems)
    for name, value in request.query:
        check_template(value, roots, f"{path}.request.query.{name}", problems)
    for name, value in request.headers:
        if not HEADER_NAME.fullmatch(name):
            problems.add(f"{path}.request.headers.{name}", "is not a header's name")
        elif not is_callers_header(name):
            problems.add(f"{path}.request.headers.{name}", "is the transport's to set; leave it out")
        check_template(value, roots, f"{path}.request.headers.{name}", problems)
    where, _, place = action.profile.protection.key_in.partition(":")
    if where == "header" and not is_callers_header(place):
        problems.add(f"{path}.protection.key_in", f"names {place}, which is the transport's to set")
    table_place, _, name = place.rpartition(".")
    table = at_place(request.body, table_place) if where == "body" else None
    if where == "body" and not isinstance(table, dict):
        problems.add(
            f"{path}.protection.key_in", f"names {place}, but the request's body has no table for it"
        )
    elif isinstance(table, dict) and name in table:
        # what is approved is the request without its key: a value that the key replaces would never be sent
        problems.add(
            f"{path}.protection.key_in", f"names {place}, but the request's body has a value there already"
        )


def _check_lookup_requests(action: ActionDefinition, path: str, problems: Problems) -> None:
    lookup, search, read = action.profile.lookup, action.search, action.read
    if search:
        roots = {"step", "params", "operation"}
        check_path(search.path, f"{path}.search.path", problems)
        for name, value in (("path", search.path), *search.query):
            check_template(value, roots, f"{path}.search.{name}", problems)
    if read:
        check_path(read.path, f"{path}.read.path", problems)
        check_template(read.path, {"reference"}, f"{path}.read.path", problems)
        if "{reference}" not in read.path:
            problems.add(f"{path}.read.path", "must hold {reference}")
    if search and lookup is None:
        problems.add(f"{path}.lookup", "is missing: a search needs to say what its answer settles")
    if lookup and search and not lookup.identity:
        problems.add(f"{path}.lookup.identity", "is missing: which field of a record carries our identity?")
    if lookup and lookup.by_reference and read is None:
        problems.add(f"{path}.read", "is missing: lookup.by_reference says that a reference can be read")
    if lookup and not search and not lookup.by_reference:
        problems.add(f"{path}.search", "is missing: a lookup needs a search, or by_reference and a read")
    for ours, _ in lookup.decisive if lookup else ():
        if at_place(action.request.body, ours) is None:
            problems.add(f"{path}.lookup.decisive", f"names {ours}, which the request's body does not have")


def refuse_action(action: ActionDefinition) -> list[str]:
    """Why an action is never loaded, although versions that were stored before are read as they are."""
    lookup = action.profile.lookup
    if lookup and lookup.settles is Settles.BOTH and action.search is None:
        said = "a record that can't be read by its reference proves nothing"
        return [
            f'lookup.settles: is "both", but there is no search; {said}. Name a search, or say "positive_only"'
        ]
    return []


def _check_final_effect_reading(action: ActionDefinition, path: str, problems: Problems) -> None:
    final = action.profile.final_effect
    if final is None:
        return
    if action.status is None:
        problems.add(
            f"{path}.status", "is missing: which field tells the final effect, and with which words?"
        )
    if final.by is FinalEffectBy.LOOKUP and action.read is None and action.search is None:
        problems.add(f"{path}.read", "is missing: a final effect by lookup needs a read or a search")
    if final.by is FinalEffectBy.REPORT and action.report is None:
        problems.add(f"{path}.report", "is missing: which source reports the final effect?")
    if action.report and not (action.report.identity or action.report.reference):
        problems.add(f"{path}.report", "needs identity or reference, to know which step a report is about")


@checks(DestinationDefinition)
def check_destination(destination: DestinationDefinition, path: str, problems: Problems) -> None:
    check_slug(destination.slug, path, problems)
    if not _BASE_URL.fullmatch(destination.base_url):
        problems.add(f"{path}.base_url", "must begin with http://, https:// or ${NAME}, without ? or #")
    for name in ("record_url", "search_url"):
        value = getattr(destination, name)
        check_template(value, {"reference", "identity"}, f"{path}.{name}", problems)
        if value and not value.startswith(("/", "http://", "https://", "${")):
            problems.add(f"{path}.{name}", "must be a path that begins with / or a full address")
    if not destination.actions:
        problems.add(f"{path}.actions", "is empty: name at least one action")
    for action in destination.actions:
        check_name(action, f"{path}.actions.{action}", problems)
