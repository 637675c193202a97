"""Reading definition files: every error names the file and the field, and all of them are told at once."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opsledger.rules.definitions import (
    DestinationDefinition,
    SourceDefinition,
    WorkflowDefinition,
    read_definitions,
)

AnyDefinition = DestinationDefinition | WorkflowDefinition | SourceDefinition
_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


class BadDefinitions(ValueError):
    """Files that can't be loaded. `problems` are lines `file: field: what is wrong`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_files(paths: Sequence[Path]) -> list[AnyDefinition]:
    """All definitions of these files and folders, with `${NAME}` in addresses taken from the environment."""
    problems: list[str] = []
    found: dict[tuple[type, str], tuple[Path, AnyDefinition]] = {}
    for path in _files(paths, problems):
        for one in _read(path, problems):
            key = (type(one), one.slug)
            if key in found:
                problems.append(f"{path}: {one.slug} is defined in {found[key][0]} already")
            found[key] = (path, one)
    definitions = [one for _, one in found.values()]
    problems += _loose_ends(definitions)
    if problems:
        raise BadDefinitions(problems)
    return definitions


def _files(paths: Sequence[Path], problems: list[str]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.glob("*.toml"))
        elif path.exists():
            files.append(path)
        else:
            problems.append(f"{path}: there is no such file or folder")
    return files


def _read(path: Path, problems: list[str]) -> list[AnyDefinition]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as why:
        problems.append(f"{path}: {why}")
        return []
    definitions, wrong = read_definitions(document)
    problems += [f"{path}: {field}: {message}" for field, message in wrong]
    return [_resolved(path, one, problems) for one in definitions]


def _resolved(path: Path, one: AnyDefinition, problems: list[str]) -> AnyDefinition:
    if not isinstance(one, DestinationDefinition):
        return one
    problems += [
        f"{path}: destination.{one.slug}.base_url: the variable {name} is not set"
        for name in _VARIABLE.findall(one.base_url)
        if not os.environ.get(name)
    ]
    return replace(one, base_url=_VARIABLE.sub(lambda found: os.environ.get(found[1], ""), one.base_url))


def _loose_ends(definitions: Sequence[AnyDefinition]) -> list[str]:
    """Workflows that name a destination or action of these files that is not there. Others may be loaded already."""
    destinations = {one.slug: one for one in definitions if isinstance(one, DestinationDefinition)}
    problems = []
    for one in definitions:
        if not isinstance(one, WorkflowDefinition):
            continue
        for step in one.steps:
            at = destinations.get(step.destination)
            if at is not None and step.action not in at.actions:
                problems.append(
                    f"workflow.{one.slug}.{step.name}: {step.destination} has no action “{step.action}”"
                )
    return problems
