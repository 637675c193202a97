"""procrastinate: jobs that do nothing.

`python procrastinate_jobs.py prepare URL COUNT TEXT` makes the tables and the jobs,
`python procrastinate_jobs.py work URL CONCURRENCY` is one worker, until nothing is left.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

last_at = 0.0
done = 0


async def nothing(number: int, text: str) -> None:
    global last_at, done
    done += 1
    last_at = time.time()


def prepare(url: str, count: int, text: str) -> None:
    app = App(connector=SyncPsycopgConnector(conninfo=url))
    task = app.task(name="nothing")(nothing)
    with app.open():
        app.schema_manager.apply_schema()
        for first in range(0, count, 500):
            jobs = [{"number": number, "text": text} for number in range(first, min(first + 500, count))]
            task.batch_defer(*jobs)
    print(json.dumps({"jobs": count}), flush=True)


async def work(url: str, concurrency: int) -> None:
    app = App(connector=PsycopgConnector(conninfo=url, max_size=concurrency + 4))
    app.task(name="nothing")(nothing)
    async with app.open_async():
        await app.job_manager.check_connection_async()
        print("ready", flush=True)
        sys.stdin.readline()
        begun = time.time()
        await app.run_worker_async(wait=False, concurrency=concurrency, install_signal_handlers=False)
    print(json.dumps({"jobs": done, "begun": begun, "ended": last_at}), flush=True)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        asyncio.run(work(sys.argv[2], int(sys.argv[3])))
