"""What one destination answers must never keep the answers of others from being recorded (I1, I2 on the way back)."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest

from opsledger.engine import dispatch, reconcile
from tests.desk import WIRE
from tests.processes.house import House, definitions

NUL, HALF = "T-\u0000", "T-\ud83d"


@contextlib.contextmanager
def peer(references: dict[str, str]) -> Iterator[str]:
    """A destination that names each record as it is told to."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            identity = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["external_id"]
            body = json.dumps({"id": references.get(identity, f"T-{identity}")}).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("reference", [NUL, HALF], ids=["nul", "half a surrogate pair"])
def test_a_reference_that_no_table_can_hold_takes_no_other_reply_with_it(
    house: House, reference: str
) -> None:
    references: dict[str, str] = {}
    with peer(references) as url:
        house.load([one for one in definitions(url) if one.slug == "crm_classic"])
        poisoned, *neighbours = house.open("classic_follow_up", 6)
        references[house.identity(poisoned)] = reference

        dispatch.run_once(wire=WIRE, threads=8, claim_for_seconds=0.2)

    assert [house.state(one) for one in neighbours] == ["confirmed"] * 5
    assert house.state(poisoned) == "unknown"
    (attempt,) = house.attempts(poisoned)
    assert (attempt["outcome"], attempt["known_by"]) == ("unknown", "reply")
    assert house.value("SELECT count(*) FROM ledger_evidence WHERE attempt_id = %s", attempt["id"]) == 1


@pytest.mark.parametrize("subject", [NUL, HALF], ids=["nul", "half a surrogate pair"])
def test_a_found_record_with_a_text_that_no_table_can_hold_takes_no_other_lookup_with_it(
    house: House, subject: str
) -> None:
    poisoned, *neighbours = house.open("classic_follow_up", 6)
    for one in neighbours:
        house.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=house.identity(one))
    house.sandbox.script("lose_reply_before_acting", 1, method="POST", identity=house.identity(poisoned))
    dispatch.run_once(wire=WIRE, threads=8, claim_for_seconds=0.2)
    assert house.states() == {"unknown": 6}
    record = {"subject": subject, "external_id": house.identity(poisoned)}
    with urlopen(
        Request(
            f"{house.sandbox.url}/crm/tasks",
            json.dumps(record).encode(),
            {"Content-Type": "application/json"},
        )
    ) as reply:
        assert reply.status == 201

    reconcile.run_once(wire=WIRE, threads=8, look_for_seconds=0.2)

    assert [house.state(one) for one in neighbours] == ["confirmed"] * 5
    holds = house.rows(
        "SELECT reason FROM ledger_hold WHERE closed_at IS NULL AND operation_id = %s", poisoned.id
    )
    assert [row["reason"] for row in holds] == ["record_differs"]
