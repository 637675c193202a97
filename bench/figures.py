"""Figures, their ratios, and the table that they are printed as."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Goal:
    """What a ratio is to reach, and what it must never miss. `low`: less is better."""

    wanted: float
    never: float
    low: bool = False

    def judged(self, value: float) -> str:
        reached = value <= self.wanted if self.low else value >= self.wanted
        kept = value <= self.never if self.low else value >= self.never
        return "reached" if reached else "missed" if kept else "too low" if not self.low else "too high"

    def words(self) -> str:
        sign = "<=" if self.low else ">="
        return f"{sign} {self.wanted:g} ({self.never:g})"


@dataclass(frozen=True)
class Line:
    """One line of the table: ours, what it is held against, and the ratio of both where there is one."""

    name: str
    ours: float
    unit: str
    against: str = ""
    theirs: float | None = None
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    def cells(self) -> list[str]:
        value = self.ratio if self.theirs is not None else self.ours
        judged = self.goal.judged(value) if self.goal and value is not None else ""
        return [
            self.name,
            f"{_number(self.ours)} {self.unit}",
            f"{_number(self.theirs)} {self.unit}, {self.against}" if self.theirs is not None else "",
            f"{self.ratio:.2f}" if self.ratio is not None else "",
            self.goal.words() if self.goal else "",
            " ".join(part for part in (judged, self.note) if part),
        ]


@dataclass
class Rounds:
    """Measurements taken in turn, several times over, so that a machine's moods meet all of them alike."""

    count: int
    taken: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, **what: Callable[[], float]) -> None:
        for _ in range(self.count):
            for name, one in what.items():
                self.taken.setdefault(name, []).append(one())

    def __getitem__(self, name: str) -> float:
        return median(self.taken[name])


def table(lines: Sequence[Line]) -> str:
    """Markdown, aligned so that it reads in a terminal as well."""
    rows = [["what", "ours", "held against", "ratio", "goal (never)", ""], *(line.cells() for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    shown = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return "\n".join([shown[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *shown[1:]])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
