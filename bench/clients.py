"""Clients of the HTTP API: `python -m bench.clients PORT TOKEN CLIENTS SECONDS OPERATIONS_PER_REQUEST`.

Raw sockets that stay open, and requests that are put together from parts made beforehand: on the same two cores every
microsecond of a client is taken from the server.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field

from bench.payload import params
from bench.signals import answer, ready

TIMEOUT_SECONDS = 30


@dataclass
class Client:
    port: int
    token: str
    per_request: int
    run: str
    seconds: list[float] = field(default_factory=list)  # of each request
    began_at: float = 0.0

    def work(self, until: float) -> None:
        head, item = self._parts()
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = 0
            while True:
                begun = time.perf_counter()
                if begun >= until:
                    return
                body = self._body(item, number)
                connection.sendall(head % len(body) + body)
                self._expect(connection)
                number += self.per_request
                self.seconds.append(time.perf_counter() - begun)

    def _parts(self) -> tuple[bytes, bytes]:
        path = "/api/v1/operations" if self.per_request == 1 else "/api/v1/operations/batch"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        item = json.dumps({"operation_id": "@", "workflow": "two_steps", "params": params(4417)})
        return head.replace("%", "%%").encode() + b"%d\r\n\r\n", item.encode()

    def _body(self, item: bytes, number: int) -> bytes:
        front, back = item.split(b"@")
        name = f"http:{self.run}:".encode()
        if self.per_request == 1:
            return b"%b%b%d%b" % (front, name, number, back)
        items = [b"%b%b%d%b" % (front, name, number + n, back) for n in range(self.per_request)]
        return b'{"items":[' + b",".join(items) + b"]}"

    def _expect(self, connection: socket.socket) -> None:
        """Reads one reply; anything but a success ends the measurement."""
        received = b""
        while b"\r\n\r\n" not in received:
            received += _more(connection)
        head, _, body = received.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        while len(body) < length:
            body += _more(connection)
        wanted = b" 201 " if self.per_request == 1 else b" 200 "
        if wanted not in head[:20] or (
            self.per_request > 1
            and body.count(b'"status":201') + body.count(b'"status": 201') != self.per_request
        ):
            raise SystemExit(f"the API answered {head[:200]!r} {body[:500]!r}")


def _more(connection: socket.socket) -> bytes:
    part = connection.recv(262_144)
    if not part:
        raise SystemExit("the server closed the connection")
    return part


def main(port: int, token: str, clients_count: int, seconds: float, per_request: int) -> None:
    run = uuid.uuid4().hex[:8]
    clients = [Client(port, token, per_request, f"{run}-{number}") for number in range(clients_count)]
    for one in clients:  # connections of the web to its database, plans, caches
        one.work(time.perf_counter() + 0.3)
        one.seconds.clear()
        one.run += "b"
    ready()
    begun = time.perf_counter()
    threads = [threading.Thread(target=one.work, args=(begun + seconds,)) for one in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    times = sorted(second for one in clients for second in one.seconds)
    answer(
        operations=len(times) * per_request,
        seconds=took,
        median_ms=1000 * times[len(times) // 2],
        p99_ms=1000 * times[len(times) * 99 // 100],
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
