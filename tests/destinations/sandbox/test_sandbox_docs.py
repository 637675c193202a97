"""docs/sandbox.md says what the tables in code say."""

from __future__ import annotations

import json
from pathlib import Path

from opsledger.destinations.sandbox.behaviours import DESCRIPTIONS
from opsledger.destinations.sandbox.modes import KEY_MODES, MODE_FOR_REPLAY, OPTIONS

LINES = (Path(__file__).resolve().parents[3] / "docs/sandbox.md").read_text().splitlines()


def row(first: str) -> list[str]:
    """The one table row that begins with this name."""
    (line,) = [line for line in LINES if line.startswith(f"| `{first}` |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_every_behaviour_is_described_as_it_is() -> None:
    for behaviour, described in DESCRIPTIONS.items():
        sentence, acts, fits, options = row(behaviour)
        assert (sentence, acts, fits) == (described.sentence, described.acts, described.fits)
        said = [f"`{one.name}` ({json.dumps(one.default)}): {one.sentence}" for one in described.options]
        assert options == "; ".join(said)


def test_every_setting_and_key_mode_is_described_as_it_is() -> None:
    for option in OPTIONS:
        assert row(option.name)[1] == option.sentence
    for mode, sentence in KEY_MODES.items():
        words = [f"`{word}`" for word, played in MODE_FOR_REPLAY.items() if played is mode]
        assert row(mode) == [sentence, ", ".join(words)]
