"""Teams and people by what somebody calls them on a command line, where bytes may stand that are no text."""

from __future__ import annotations

from opsledger.accounts.models import Person, Team
from opsledger.rules.reading import can_be_kept


def team_of(slug: str) -> Team | None:
    """The team of this short name."""
    return Team.objects.filter(slug=slug).first() if can_be_kept(slug) else None


def person_of(email: str) -> Person | None:
    """Whoever signs in with this address, however it is spelt in capitals."""
    return Person.objects.filter(email=email.strip().lower()).first() if can_be_kept(email) else None
