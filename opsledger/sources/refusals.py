"""What is refused at the door, with the word under which it is counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing of the delivery was recorded. `reason` is one word for counting, `sentence` is for the sender."""

    reason: str
    status: int
    sentence: str
