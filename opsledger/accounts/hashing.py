"""How passwords are hashed: as Django does, on whichever core is free."""

from __future__ import annotations

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from opsledger.lib import one_core


class FreeHasher(PBKDF2PasswordHasher):
    """PBKDF2 computes for a quarter of a second without Python's one lock; the core of all requests is no place for it."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with one_core.anywhere():
            encoded: str = super().encode(password, salt, iterations)
        return encoded
