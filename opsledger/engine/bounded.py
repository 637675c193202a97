"""What a library that calls by itself takes along and brings back: nothing of the environment, and a reply up to a limit.

Apprise speaks HTTP through `requests` and mail through `smtplib`, and offers no place to say either. So both are told here,
once per process that sends notices, and only for what is called under `bounded`: no proxy and no credential of the
environment or of `.netrc`, and no more than REPLY_BYTES_MAX of an answer, counted as it is unpacked.
"""

from __future__ import annotations

import os
import smtplib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REPLY_BYTES_MAX = 64 * 1024  # of one HTTP answer, or of one conversation with a mail server
CHUNK_BYTES = 4096


class _Heard(threading.local):
    under: bool = False
    too_large: bool = False


_heard = _Heard()
_installing = threading.Lock()
_installed = False


@contextmanager
def bounded() -> Iterator[_Heard]:
    """What this thread calls is bounded. `.too_large` tells whether an answer was larger than the limit."""
    _install()
    _heard.under, _heard.too_large = True, False
    try:
        yield _heard
    finally:
        _heard.under = False


def _install() -> None:
    global _installed
    with _installing:
        if not _installed:
            _install_http()
            _install_mail()
            _installed = True


def _too_large() -> str:
    """Noted for whoever called; the sentence is the library's, which tells it to nobody."""
    _heard.too_large = True
    return f"the answer is larger than {REPLY_BYTES_MAX} bytes"


def _install_http() -> None:
    """`requests.post` and its like make a session of this class for each call."""
    import requests  # as large as Apprise, and loaded with it alone
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        """Reads here, before anything else does: also what stands beside a redirect."""

        def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            reply = super().send(request, *args, **{**kwargs, "stream": True, "proxies": {}})
            reply._content = _read(reply)
            reply._content_consumed = True
            return reply

    class Session(requests.Session):
        def __init__(self) -> None:
            super().__init__()
            if _heard.under:
                self.trust_env = False
                self.mount("http://", Adapter())
                self.mount("https://", Adapter())

        def merge_environment_settings(
            self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
        ) -> Any:
            """Which authorities are trusted beside the public ones, the environment may still say."""
            if _heard.under and verify is True:
                verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
            return super().merge_environment_settings(url, proxies, stream, verify, cert)

    requests.sessions.Session = requests.Session = Session  # type: ignore[misc]


def _read(reply: Any) -> bytes:
    """The body, unpacked; beyond the limit the connection is closed, and Apprise is told that it failed."""
    from requests import RequestException

    found = bytearray()
    try:
        for chunk in reply.iter_content(CHUNK_BYTES):
            found += chunk
            if len(found) > REPLY_BYTES_MAX:
                raise RequestException(_too_large())
    finally:
        reply.close()
    return bytes(found)


class _Counted:
    """The answers of a mail server, line by line."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, REPLY_BYTES_MAX

    def readline(self, size: int) -> bytes:
        line: bytes = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(_too_large())
        return line

    def close(self) -> None:
        self._file.close()


def _install_mail() -> None:
    plain = smtplib.SMTP.getreply

    def getreply(self: Any) -> Any:
        if _heard.under:
            if self.file is None:
                self.file = self.sock.makefile("rb")
            if not isinstance(self.file, _Counted):
                self.file = _Counted(self.file)
        return plain(self)

    smtplib.SMTP.getreply = getreply  # type: ignore[method-assign]
