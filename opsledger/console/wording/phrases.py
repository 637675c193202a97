"""Words that many sentences share: enumerations and spans."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext


def lasted(seconds: float) -> str:
    """How long a send took: “1.2 s”; what rounds to nothing is said to be short, not to be nothing."""
    if seconds < 0.05:
        return _("less than 0.1 s")
    return _("%(seconds)s s") % {"seconds": f"{seconds:.1f}"}


def listed(words: tuple[str, ...] | list[str], last_by: str = "and") -> str:
    """“a”, “a and b”, “a, b or c”; from the sixth on they are counted."""
    if len(words) > 6:
        return _("%(some)s and %(count)s more") % {"some": ", ".join(words[:5]), "count": len(words) - 5}
    if len(words) < 2:
        return "".join(words)
    template = _("%(some)s or %(last)s") if last_by == "or" else _("%(some)s and %(last)s")
    return template % {"some": ", ".join(words[:-1]), "last": words[-1]}


def listed_are(labels: tuple[str, ...]) -> str:
    """“the due date is”, “the due date and the queue are”."""
    words = [_("the %(field)s") % {"field": _inside(label)} for label in labels]
    return ngettext("%(words)s is", "%(words)s are", len(words)) % {"words": listed(words)}


def _inside(label: str) -> str:
    """A label inside a sentence: without its capital, unless the word is written in capitals."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]
