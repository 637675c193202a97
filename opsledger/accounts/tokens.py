"""From a bearer token's text to the token: by hash, quickly, and forgotten soon after a revocation."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from opsledger.accounts.models import ApiToken
from opsledger.accounts.permissions import Permission, allowed, granted_by
from opsledger.accounts.roles import roles_of

PREFIX = "opl_"
_TEXT = re.compile(r"opl_[A-Za-z0-9_-]{43}", re.ASCII)
CACHE_SECONDS = 5.0
CACHED_TOKENS_MAX = 1_000
LAST_USED_STEP_SECONDS = 60


def new_text() -> str:
    """A new token's text: 256 random bits after the prefix."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("ascii")).digest()


@dataclass(slots=True)
class _Kept:
    token: ApiToken
    until: float  # on the monotonic clock
    touched: float


_kept: dict[bytes, _Kept] = {}
_lock = threading.Lock()


def find(raw: str | bytes) -> ApiToken | None:
    """The live token with this text, with its team and person; None for anything else.

    Secrets are never compared: the text is hashed, and the hash is looked up. A found token is kept for
    CACHE_SECONDS in this process, so a revocation elsewhere takes effect within that time. Notes the use at
    most once a minute. Call it outside a transaction: the note would lock the token's row until the commit.
    """
    text = _readable(raw)
    if text is None:
        return None
    key, now = digest(text), time.monotonic()
    kept = _kept.get(key)
    if kept is None or kept.until <= now:
        token = _live(key)
        if token is None:
            _kept.pop(key, None)
            return None
        kept = _keep(key, token, now, kept.touched if kept else None)
    if now - kept.touched >= LAST_USED_STEP_SECONDS:
        kept.touched = now
        _note_use(kept.token)
    return kept.token


def forget_all() -> None:
    """Empties this process's cache; after a revocation here, and in tests."""
    with _lock:
        _kept.clear()


def token_allows(token: ApiToken, permission: Permission) -> bool:
    """Whether the token's scopes, its kind and, for a personal one, the person's roles now all allow it."""
    if permission not in granted_by(token.scopes):
        return False
    roles = roles_of(token.person, token.team_id) if token.person is not None else ()
    return allowed(roles, permission, token.via)


def _readable(raw: str | bytes) -> str | None:
    if isinstance(raw, bytes):
        try:
            raw = raw.decode("ascii")
        except UnicodeDecodeError:
            return None
    return raw if _TEXT.fullmatch(raw) else None


def _live(key: bytes) -> ApiToken | None:
    alive = Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))
    whose = Q(person__isnull=True) | Q(person__is_active=True)
    found = ApiToken.objects.select_related("team", "person").filter(alive, whose, text_sha256=key)
    return found.first()


def _keep(key: bytes, token: ApiToken, now: float, touched: float | None) -> _Kept:
    kept = _Kept(token, now + CACHE_SECONDS, now - LAST_USED_STEP_SECONDS if touched is None else touched)
    with _lock:
        if len(_kept) >= CACHED_TOKENS_MAX:
            _kept.clear()
        _kept[key] = kept
    return kept


def _note_use(token: ApiToken) -> None:
    old = Q(last_used_at__isnull=True) | Q(last_used_at__lt=Now() - timedelta(seconds=LAST_USED_STEP_SECONDS))
    ApiToken.objects.filter(old, pk=token.pk).update(last_used_at=Now())
