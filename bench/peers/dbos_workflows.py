"""DBOS: workflows of two steps that do nothing. `python dbos_workflows.py URL SECONDS THREADS`."""

from __future__ import annotations

import json
import sys
import threading
import time

from dbos import DBOS, DBOSConfig


@DBOS.step()
def first(number: int) -> str:
    return f"T-{number}"


@DBOS.step()
def second(reference: str) -> str:
    return f"{reference}-2"


@DBOS.workflow()
def two_steps(number: int, text: str) -> str:
    return second(first(number))


def main(url: str, seconds: float, threads: int, text: str) -> None:
    config: DBOSConfig = {
        "name": "bench", "system_database_url": url, "log_level": "ERROR", "sys_db_pool_size": max(20, threads),
    }  # fmt: skip
    DBOS(config=config)
    DBOS.launch()
    for number in range(20):  # connections, caches, plans
        two_steps(-number, text)
    done = [0] * threads
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    until = begun + seconds

    def client(place: int) -> None:
        while time.perf_counter() < until:
            two_steps(done[place], text)
            done[place] += 1

    clients = [threading.Thread(target=client, args=(place,)) for place in range(threads)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    print(json.dumps({"workflows": sum(done), "seconds": time.perf_counter() - begun}), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
