"""Reading definition files: every error names the file and the field, and all of them are told at once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from opsledger.rules.definitions import (
    DestinationDefinition,
    SourceDefinition,
    WorkflowDefinition,
    check_together,
    read_definitions,
    with_environment,
)
from opsledger.rules.destination_checks import refuse_action
from opsledger.rules.protection import refuse_profile
from opsledger.rules.sendable import parse_url
from opsledger.sources.registry import check_source

AnyDefinition = DestinationDefinition | WorkflowDefinition | SourceDefinition


class BadDefinitions(ValueError):
    """Files that can't be loaded. `problems` are lines `file: field: what is wrong`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_files(paths: Sequence[Path]) -> list[AnyDefinition]:
    """All definitions of these files and folders, with `${NAME}` in addresses taken from the environment; none is wrong."""
    problems: list[str] = []
    found: dict[tuple[type, str], tuple[Path, AnyDefinition]] = {}
    for path in _files(paths, problems):
        for one in _read(path, problems):
            key = (type(one), one.slug)
            if key in found:
                problems.append(f"{path}: {one.slug} is defined in {found[key][0]} already")
            found[key] = (path, one)
    definitions = [one for _, one in found.values()]
    if not definitions and not problems:
        problems.append(f"{', '.join(map(str, paths))}: nothing is defined there")
    problems += [f"{field}: {message}" for field, message in check_together(definitions)]
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
    except RecursionError:
        problems.append(f"{path}: it is nested too deeply")
        return []
    unkept = list(_unkept(document))
    if unkept:  # nothing else of it is read: no database holds it
        problems += [f"{path}: {where}" for where in unkept]
        return []
    definitions, wrong = read_definitions(document)
    problems += [f"{path}: {field}: {message}" for field, message in wrong]
    return [_resolved(path, one, problems) for one in definitions]


def _unkept(value: object, place: str = "") -> Iterator[str]:
    """Where a NUL stands, which TOML can write and no database can keep."""
    if isinstance(value, str) and "\0" in value:
        yield f"{place}: holds NUL, which can't be kept"
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _unkept(one, f"{place}[{number}]")
    elif isinstance(value, dict):
        for name, one in value.items():
            if "\0" in name:
                yield f"{place}: has a name that holds NUL, which can't be kept"
            else:
                yield from _unkept(one, f"{place}.{name}" if place else name)


def _resolved(path: Path, one: AnyDefinition, problems: list[str]) -> AnyDefinition:
    if isinstance(one, SourceDefinition):
        problems += [f"{path}: {field}: {message}" for field, message in check_source(one)]
    if not isinstance(one, DestinationDefinition):
        return one
    for name, action in one.actions.items():
        where = f"{path}: destination.{one.slug}.actions.{name}"
        problems += [f"{where}: {why}" for why in (*refuse_profile(action.profile), *refuse_action(action))]
    unset: list[str] = []

    def read(name: str) -> str:
        value = os.environ.get(name, "")
        if not value:
            unset.append(name)
        return value

    filled = with_environment(one, read)
    problems += [
        f"{path}: destination.{one.slug}: the variable {name} is not set" for name in dict.fromkeys(unset)
    ]
    if not unset:
        problems += [
            f"{path}: destination.{one.slug}.base_url: {why}" for why in _unreachable(filled.base_url)
        ]
    return filled


def _unreachable(base_url: str) -> list[str]:
    try:
        parse_url(base_url)
    except ValueError as why:
        return [str(why)]
    return []
