"""Definitions: reading what a team writes down, and the form in which a version of it is stored.

`read_definitions` takes the document that a TOML or JSON parser gives. What must hold inside one definition
is in `destination_checks`, `profile_checks`, `source_checks` and `workflow_checks`; what must hold between them (a
step's destination exists) is `check_together`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

# each registers what its types must hold
from opsledger.rules import destination_checks, profile_checks, source_checks, workflow_checks  # noqa: F401
from opsledger.rules.building import Problem, Problems, build, hints_of, plain, unknown_field
from opsledger.rules.definition_types import (
    ActionDefinition,
    Definition,
    DestinationDefinition,
    SourceDefinition,
    WorkflowDefinition,
)
from opsledger.rules.params import check_content, check_params
from opsledger.rules.profile import ActionProfile
from opsledger.rules.templates import placeholders

__all__ = [
    "KINDS",
    "ActionDefinition",
    "Definition",
    "DestinationDefinition",
    "Problem",
    "SourceDefinition",
    "WorkflowDefinition",
    "build_definition",
    "check_content",
    "check_params",
    "check_together",
    "environment_names",
    "from_json",
    "kind_of",
    "read_definitions",
    "to_json",
    "with_environment",
]

KINDS: dict[str, type[Definition]] = {
    "destination": DestinationDefinition,
    "workflow": WorkflowDefinition,
    "source": SourceDefinition,
}


def kind_of(definition: Definition) -> str:
    return next(kind for kind, built in KINDS.items() if isinstance(definition, built))


def read_definitions(document: Mapping[str, Any]) -> tuple[list[Definition], list[Problem]]:
    """All definitions of a document `{kind: {slug: table}}`, and everything that is wrong in it.

    A definition with a problem is left out; the others are complete. Nothing is resolved: `${NAME}` stays.
    """
    problems, built = Problems(), []
    for kind, tables in document.items():
        if kind not in KINDS:
            problems.add(kind, unknown_field(kind, KINDS))
        elif not isinstance(tables, Mapping):
            problems.add(kind, f"must be written as [{kind}.slug]")
        else:
            built += [_build_one(kind, str(slug), table, problems) for slug, table in tables.items()]
    return [definition for definition in built if definition], problems.found


def build_definition(kind: str, slug: str, table: object) -> tuple[Definition | None, list[Problem]]:
    """One definition from its table; None with its problems when something is wrong."""
    problems = Problems()
    return _build_one(kind, slug, table, problems), problems.found


def to_json(definition: Definition) -> dict[str, Any]:
    """The stored form: every field written out, so that a later default changes no stored version."""
    table = plain(definition)
    for action in table.get("actions", {}).values():
        profile = action.pop("profile")
        action |= {name: value for name, value in profile.items() if name not in _PROFILE_KEYS}
    return {"kind_of_definition": kind_of(definition), **table}


def from_json(stored: Mapping[str, Any]) -> Definition:
    """A definition from its stored form. ValueError when it is none: stored versions were checked before."""
    table = dict(stored)
    kind, slug = str(table.pop("kind_of_definition", "")), str(table.pop("slug", ""))
    definition, problems = (
        build_definition(kind, slug, table) if kind in KINDS else (None, [(kind, "is no kind")])
    )
    if definition is None:
        raise ValueError("; ".join(f"{path}: {message}" for path, message in problems))
    return definition


_PROFILE_KEYS = ("destination", "action")  # where the action stands says them already
_PROFILE_FIELDS = {name for name in hints_of(ActionProfile) if name not in _PROFILE_KEYS}
_OWN_FIELDS = {name for name in hints_of(ActionDefinition) if name != "profile"}


def _build_one(kind: str, slug: str, table: object, problems: Problems) -> Definition | None:
    path, before = f"{kind}.{slug}", len(problems.found)
    fixed: dict[str, Any] = {"slug": slug}
    if kind == "destination" and isinstance(table, Mapping) and "actions" in table:
        fixed["actions"] = _build_actions(slug, table["actions"], f"{path}.actions", problems)
        table = {name: value for name, value in table.items() if name != "actions"}
    definition: Definition | None = build(KINDS[kind], table, path, problems, **fixed)
    return definition if len(problems.found) == before else None


def _build_actions(slug: str, tables: object, path: str, problems: Problems) -> dict[str, ActionDefinition]:
    if not isinstance(tables, Mapping):
        problems.add(path, "must be written as one table per action")
        return {}
    built = {str(name): _build_action(slug, str(name), table, f"{path}.{name}", problems)
             for name, table in tables.items()}  # fmt: skip
    return {name: action for name, action in built.items() if action}


def _build_action(
    slug: str, name: str, table: object, path: str, problems: Problems
) -> ActionDefinition | None:
    """An action's table holds the fields of its profile beside its own."""
    if not isinstance(table, Mapping):
        problems.add(path, "must be a table of fields")
        return None
    for field_name in table:
        if field_name not in _PROFILE_FIELDS | _OWN_FIELDS:
            problems.add(
                f"{path}.{field_name}", unknown_field(str(field_name), _PROFILE_FIELDS | _OWN_FIELDS)
            )
    facts = {key: value for key, value in table.items() if key in _PROFILE_FIELDS}
    own = {key: value for key, value in table.items() if key in _OWN_FIELDS}
    profile = build(ActionProfile, facts, path, problems, destination=slug, action=name)
    # Built also when the profile is wrong, so that all problems show at once.
    return build(ActionDefinition, own, path, problems, profile=profile)


_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}", re.ASCII)
_ADDRESSES = ("base_url", "record_url", "search_url")


def environment_names(destination: DestinationDefinition) -> tuple[str, ...]:
    """The variables that this destination's addresses name as ${NAME}, in order, each once."""
    found = [name for field in _ADDRESSES for name in _VARIABLE.findall(getattr(destination, field))]
    return tuple(dict.fromkeys(found))


def with_environment(destination: DestinationDefinition, read: Callable[[str], str]) -> DestinationDefinition:
    """The same destination with ${NAME} replaced by what `read(NAME)` gives, which is not read again."""

    def fill(address: str) -> str:
        return _VARIABLE.sub(lambda match: read(match[1]), address)

    return replace(
        destination,
        base_url=fill(destination.base_url),
        record_url=fill(destination.record_url),
        search_url=fill(destination.search_url),
    )


def check_together(definitions: list[Definition]) -> list[Problem]:
    """What must hold between definitions: steps' actions, the values these need, what a source starts."""
    problems = Problems()
    destinations = {one.slug: one for one in definitions if isinstance(one, DestinationDefinition)}
    workflows = {one.slug: one for one in definitions if isinstance(one, WorkflowDefinition)}
    for workflow in workflows.values():
        _check_steps(workflow, destinations, problems)
    for source in definitions:
        if isinstance(source, SourceDefinition) and source.starts:
            _check_starts(source, workflows, problems)
    return problems.found


def _check_steps(
    workflow: WorkflowDefinition, destinations: Mapping[str, DestinationDefinition], problems: Problems
) -> None:
    for index, step in enumerate(workflow.steps):
        path = f"workflow.{workflow.slug}.steps[{index}]"
        destination = destinations.get(step.destination)
        if destination is None:
            problems.add(f"{path}.destination", f"names {step.destination}, which {_listed(destinations)}")
            continue
        action = destination.actions.get(step.action)
        if action is None:
            problems.add(f"{path}.action", f"names {step.action}, which {_listed(destination.actions)}")
            continue
        _check_values(workflow, index, action, path, problems)


def _check_values(
    workflow: WorkflowDefinition, index: int, action: ActionDefinition, path: str, problems: Problems
) -> None:
    """Every value that the action's templates name is there when this step is reached."""
    earlier = {step.name for step in workflow.steps[:index]}
    known = {
        "params": {param.name for param in workflow.params},
        "content": {param.name for param in workflow.content},
        "steps": earlier,
        "step": {"identity"},
        "operation": {"id"},
    }
    request = action.request
    search = (action.search.path, action.search.query) if action.search else ()
    for used in placeholders((request.path, request.query, request.headers, request.body, search)):
        root, name = used.path[0], used.path[1] if len(used.path) > 1 else ""
        if name not in known.get(root, set()):
            problems.add(f"{path}.action", f"needs {used.name}, which {_listed(known.get(root, set()))}")
        elif root == "steps" and used.path[2:] != ("reference",):
            problems.add(f"{path}.action", f"needs {used.name}; of an earlier step only .reference is known")


def _check_starts(
    source: SourceDefinition, workflows: Mapping[str, WorkflowDefinition], problems: Problems
) -> None:
    path, workflow = f"source.{source.slug}", workflows.get(source.starts)
    if workflow is None:
        problems.add(f"{path}.starts", f"names {source.starts}, which {_listed(workflows)}")
        return
    known = {param.name: param for param in workflow.params}
    mapped = {name for name, _ in source.params}
    for name in sorted(mapped - set(known)):
        problems.add(f"{path}.params.{name}", f"is not a param of {workflow.slug}")
    for name in sorted(known):
        if known[name].required and name not in mapped:
            problems.add(f"{path}.params.{name}", f"is missing: {workflow.slug} needs it")


def _listed(known: Any) -> str:
    return f"is not one of {', '.join(sorted(known))}" if known else "is not known: there are none"
