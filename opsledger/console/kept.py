"""What is kept is English, whatever language its page is read in: others read it later, and in theirs."""

from __future__ import annotations

from contextlib import AbstractContextManager

from django.conf import settings
from django.utils import translation


def in_kept_words() -> AbstractContextManager[None]:
    """Texts that are made inside go into the database: the words of a selection, the scope of a replay."""
    return translation.override(settings.LANGUAGE_CODE)
