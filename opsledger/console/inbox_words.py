"""What a list of holds is narrowed to, as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.utils.translation import gettext as _

from opsledger.accounts.models import Person
from opsledger.console.vocabulary import shown


def chosen_words(chosen: Mapping[str, str], people: Iterable[Person]) -> list[str]:
    """One word for each thing that was chosen. `people`: those of the team."""
    words = dict(chosen)
    if "reason" in chosen:
        words["reason"] = shown(chosen["reason"], "hold").word
    if chosen.get("owner") == "none":
        words["owner"] = _("Unowned")
    elif "owner" in chosen:
        names = {str(one.pk): one.display_name for one in people}
        words["owner"] = names.get(chosen["owner"], _("Somebody who left"))
    return list(words.values())
