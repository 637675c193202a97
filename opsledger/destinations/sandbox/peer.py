"""The peer on its socket: a thread per connection, each request recorded before anything is done with it."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import socket
import threading
import time
from contextlib import suppress
from typing import Self

from . import control, pages
from .behaviours import Behaviour
from .documents import is_unicode
from .later import Later
from .perform import Exchange, Options, perform, unauthorised_reply
from .refusal import Refused
from .script import Choice
from .store import Forgotten
from .wire import ClientLeft, Reply, Request, Wire, refusal_reply
from .world import World

CONNECTIONS_MAX = 512
STOP_SECONDS = 10.0

log = logging.getLogger("opsledger.sandbox")


class PeerUnavailable(Exception):
    """The peer can't listen there."""


class SandboxPeer:
    """`SandboxPeer(port=0).start()` listens until `stop()`; `url` is where. Also a context manager.

    `state` is a SQLite file, or ":memory:". `seed` turns random behaviour on. With `token`, every request
    needs it as a bearer token; people may give it as the password of basic authentication.
    """

    def __init__(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        state: str = ":memory:",
        seed: int | None = None,
        token: str | None = None,
    ) -> None:
        self._address = (host, port)
        self._token = token
        self._state = state
        self._seed = seed
        self._stopping = threading.Event()
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._talks: dict[threading.Thread, Wire] = {}
        self._talks_lock = threading.Lock()
        self.failures: list[Exception] = []
        self.url = ""

    def start(self) -> Self:
        """Open the state, listen, and begin. Raises StateUnusable or PeerUnavailable."""
        self.world = World(self._state, self._seed)
        try:
            self._listener = _listen(*self._address)
        except PeerUnavailable:
            self.world.store.close()
            raise
        host, port = self._listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._later = Later(self.world, self.failures)
        self._later.start()
        self._acceptor = threading.Thread(target=self._accept, name="sandbox-accept", daemon=True)
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """Stop accepting, end every connection, keep what was committed. May be called twice.

        What is being written is finished; a request that has not acted by then does not act. Late acts wait
        in the state file for the next start.
        """
        if not self.url or self._stopping.is_set():
            return
        self._stopping.set()
        self.world.clock.stop()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._interrupt()
        self._acceptor.join(STOP_SECONDS)
        self._listener.close()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._interrupt():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._later.join(STOP_SECONDS)
        self.world.store.close()

    def __enter__(self) -> Self:
        return self if self.url else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _interrupt(self) -> list[threading.Thread]:
        with self._talks_lock:
            for wire in self._talks.values():
                wire.interrupt()
            return list(self._talks)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            self._places.acquire()
            try:
                sock, _ = self._listener.accept()
            except OSError:
                self._places.release()
                self._stopping.wait(0.02)  # out of descriptors, or stopped
                continue
            wire = Wire(sock)
            thread = threading.Thread(target=self._talk, args=(wire,), name="sandbox-talk", daemon=True)
            with self._talks_lock:
                self._talks[thread] = wire
            thread.start()

    def _talk(self, wire: Wire) -> None:
        try:
            while not self._stopping.is_set() and self._take_one(wire):
                pass
        except (ClientLeft, Forgotten):
            pass
        except Exception as failure:
            log.exception("A connection ended by a fault of the peer")
            self.failures.append(failure)
        finally:
            with self._talks_lock:
                wire.close()
                self._talks.pop(threading.current_thread(), None)
            self._places.release()

    def _take_one(self, wire: Wire) -> bool:
        """Read one request and do with it what is due. Returns whether another may follow."""
        try:
            request = wire.read_head()
        except Refused as refused:
            return self._refuse(wire, Request("?", "?", "?", "", 1, []), refused, "malformed")
        if request is None:
            return False
        if request.path.startswith(control.PREFIX) or pages.is_page(request.path):
            return self._show(wire, request)
        early = self._choose_early(request)
        if early is not None:
            return self._perform(wire, request, *early)
        try:
            wire.read_body(request)
        except ClientLeft:
            self.world.record(request, "incomplete", {})
            raise
        except Refused as refused:
            return self._refuse(wire, request, refused, "malformed")
        self.world.desk.identify(request)
        if not self._may(request):
            number = self.world.record(request, "unauthorised", {})
            return self._exchange(wire, request, number).send(unauthorised_reply())
        return self._perform(wire, request, *self.world.choose(request))

    def _choose_early(self, request: Request) -> Choice | None:
        request.key = request.value("idempotency-key") or None
        return self.world.script.choose(request, early=True)

    def _perform(self, wire: Wire, request: Request, behaviour: Behaviour, options: Options) -> bool:
        number = self.world.record(request, behaviour, options)
        return perform(self._exchange(wire, request, number), behaviour, options)

    def _exchange(self, wire: Wire, request: Request, number: int) -> Exchange:
        return Exchange(wire, self.world.desk, self.world.clock, self._stopping, number, request)

    def _refuse(self, wire: Wire, request: Request, refused: Refused, behaviour: str) -> bool:
        """Record and answer what can't be read, and close: what follows on the connection means nothing."""
        number = self.world.record(request, behaviour, {})
        self.world.store.note_status(number, refused.status)
        wire.send(refusal_reply(refused).encode(close=True))
        wire.drain(1.0)
        return False

    def _show(self, wire: Wire, request: Request) -> bool:
        """Pages and control are no part of the played system: they are not recorded."""
        keep = request.keeps_alive
        try:
            wire.read_body(request)
            reply = self._shown(request)
        except Refused as refused:
            reply, keep = refusal_reply(refused), keep and request.complete
        wire.send(reply.encode(close=not keep, without_body=request.method == "HEAD"))
        return keep

    def _shown(self, request: Request) -> Reply:
        if not pages.is_open(request.path) and not self._may(request):
            reply = unauthorised_reply()
            basic = ("WWW-Authenticate", 'Basic realm="sandbox", charset="UTF-8"')
            return Reply(reply.status, reply.body, (*reply.headers, basic))
        show = control.answer if request.path.startswith(control.PREFIX) else pages.answer
        return show(self.world, request)

    def _may(self, request: Request) -> bool:
        if self._token is None:
            return True
        scheme, _, given = request.value("authorization").partition(" ")
        if scheme.lower() == "basic":
            given = _password(given)
        elif scheme.lower() != "bearer":
            return False
        return is_unicode(given) and hmac.compare_digest(given.encode(), self._token.encode())


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1_024)
    except OSError as wrong:
        raise PeerUnavailable(
            f"The sandbox peer can't listen on {host}:{port}: {wrong.strerror or wrong}."
        ) from wrong
