"""Short secrets at rest: sealed with a key that is derived from the installation's own, one for each purpose."""

from __future__ import annotations

import base64
import hashlib
import hmac

from cryptography.fernet import Fernet, InvalidToken


class SealBroken(ValueError):
    """The text was sealed with another key, or changed."""


def seal(text: str, key: str, purpose: str) -> bytes:
    return _box(key, purpose).encrypt(text.encode())


def unseal(sealed: bytes, key: str, purpose: str) -> str:
    try:
        return _box(key, purpose).decrypt(sealed).decode()
    except InvalidToken as why:
        raise SealBroken("sealed with another key") from why


def _box(key: str, purpose: str) -> Fernet:
    derived = hmac.digest(key.encode(), b"opsledger sealed: " + purpose.encode(), hashlib.sha256)
    return Fernet(base64.urlsafe_b64encode(derived))
