"""A small house for the supervisor: `python small_house.py CHECKOUT` runs `up` with programs of a few lines.

PostgreSQL, broker, processes and signals are real. The web program answers `/readyz`, and `/end` by ending.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opsledger.local.options import Options
from opsledger.local.programs import Plan, Program
from opsledger.local.supervisor import up

WEB = """
import http.server, os, signal, subprocess, sys
asleep = "import time; time.sleep(600)"
grandchild = subprocess.Popen([sys.executable, "-c", asleep, sys.argv[2], "grandchild"])
def end(*words):
    grandchild.kill()
    os._exit(0)
signal.signal(signal.SIGTERM, end)
class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/end":
            os._exit(7)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(repr(sorted(os.environ)).encode())
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Web).serve_forever()
"""
WORKER = """
import os, signal, sys, time, redis
redis.from_url(os.environ["REDIS_URL"]).ping()
if "STUBBORN" in os.environ:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("works", flush=True)
time.sleep(600)
"""
MIGRATE = """
import os, psycopg
with psycopg.connect(os.environ["DATABASE_OWNER_URL"]) as owner:
    owner.execute("CREATE TABLE IF NOT EXISTS django_migrations (applied timestamptz DEFAULT now())")
    owner.execute("INSERT INTO django_migrations DEFAULT VALUES")
    owner.execute("GRANT SELECT ON django_migrations TO opsledger_app")
print("migrated", flush=True)
"""
PREPARE = """
import os, psycopg
assert "DATABASE_OWNER_URL" not in os.environ
with psycopg.connect(os.environ["DATABASE_URL"]) as app:
    print("Sign in after", app.execute("SELECT count(*) FROM django_migrations").fetchone()[0], "migrations")
"""


def program(name: str, code: str, *words: str, env: dict[str, str] | None = None) -> Program:
    return Program(name, (sys.executable, "-c", code, *words), env or {})


def lasting(options: Options, sandbox_port: int) -> list[Program]:
    return [
        program("web", WEB, str(options.port), str(options.checkout)),
        program("worker", WORKER, str(options.checkout), "worker"),
    ]


PLAN = Plan(
    migrate=lambda owner_url: program("migrate", MIGRATE, env={"DATABASE_OWNER_URL": owner_url}),
    collect_static=program("collectstatic", "print('collected')"),
    prepare_demo=program("prepare_demo", os.environ.get("PREPARE", PREPARE)),
    lasting=lasting,
    play_demo=program("play_demo", "print('played')"),
)

if __name__ == "__main__":
    sys.exit(up(Path(sys.argv[1]), plan=PLAN))
