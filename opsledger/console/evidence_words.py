"""What one piece of evidence says, in the words that people chose it by."""

from __future__ import annotations

from opsledger.console.wording.answers import label
from opsledger.ledger.queries.timeline import EvidenceLine
from opsledger.rules.answers import Answer

_ANSWERS = frozenset(answer.value for answer in Answer)


def sentence_of(line: EvidenceLine) -> str:
    """Its sentence. A person's answer is kept by its name, and shown as the decision panel offers it."""
    said = line.says.replace("_", " ")
    if line.kind == "statement" and line.says in _ANSWERS and line.sentence.endswith(f": {said}"):
        return line.sentence.removesuffix(said) + label(Answer(line.says))
    return line.sentence or said
