"""Each process's threads keep to one core, which no other process has; everything else moves as before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher

from opsledger.accounts.hashing import FreeHasher
from opsledger.lib import one_core
from opsledger.lib.one_core import on_one_core

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
several_cores = pytest.mark.skipif(
    len(CORES) < 2, reason="needs a system that keeps threads on one of several cores"
)

# A process that serves one request, says on which cores it did, and stays until its input ends.
PROCESS = """
import os, sys
from opsledger.lib.one_core import on_one_core
on_one_core(lambda environ, start: [], names=sys.argv[1])({}, None)
print(*sorted(os.sched_getaffinity(0)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def names() -> str:
    """Of this test alone: whatever else runs on this machine holds cores under the product's own."""
    return f"opsledger-test/{uuid.uuid4().hex}"


def asked_in_a_thread(app: Any, *, times: int = 1) -> list[set[int]]:
    """On which cores each thread may run that has asked the application so often."""
    found: list[set[int]] = []

    def ask() -> None:
        for _ in range(times):
            app({}, None)
        found.append(os.sched_getaffinity(0))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@contextmanager
def another_process(names: str) -> Iterator[set[int]]:
    """The cores on which another process answers, as long as it is there."""
    command = [sys.executable, "-c", PROCESS, names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield {int(word) for word in process.stdout.readline().split()}
        finally:
            process.kill()


@several_cores
def test_threads_that_answer_keep_to_one_core_and_others_move(names: str) -> None:
    before = os.sched_getaffinity(0)
    app = on_one_core(lambda environ, start: [], names=names)
    kept = asked_in_a_thread(app, times=2)
    assert len(kept[0]) == 1 and kept == [kept[0]] * 3
    assert os.sched_getaffinity(0) == before


@several_cores
@pytest.mark.parametrize("kept", [True, False], ids=["a thread that keeps to a core", "any other thread"])
def test_a_password_is_hashed_wherever_there_is_room(
    names: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[set[int]] = []

    def hashed(*words: object) -> str:
        found.append(os.sched_getaffinity(0))
        return ""

    def answer(environ: Any, start: Any) -> list[bytes]:
        before = os.sched_getaffinity(0)
        FreeHasher().encode("a password", "salt")
        assert os.sched_getaffinity(0) == before
        return []

    monkeypatch.setattr(PBKDF2PasswordHasher, "encode", hashed)
    asked_in_a_thread(on_one_core(answer, names=names) if kept else answer)
    assert found == [set(CORES)] * 3


@several_cores
def test_each_process_has_a_core_of_its_own(names: str) -> None:
    with another_process(names) as first, another_process(names) as second:
        assert first == {CORES[0]} and second == {CORES[1]}


@several_cores
def test_the_core_of_a_process_that_was_killed_is_free_again(names: str) -> None:
    with another_process(names) as first:
        assert first == {CORES[0]}
    with another_process(names) as next_one:
        assert next_one == {CORES[0]}


@several_cores
def test_a_process_that_finds_no_core_free_moves_as_before(names: str) -> None:
    held = [one_core._hold(f"\0{names}/{core}") for core in CORES]
    assert all(held)
    with another_process(names) as moving:
        assert moving == set(CORES)


@several_cores
def test_a_system_that_does_not_allow_it_answers_all_the_same(
    names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(number: int, cores: set[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refused)
    assert asked_in_a_thread(on_one_core(lambda environ, start: [], names=names)) == [set(CORES)] * 3


def test_nothing_is_chosen_where_there_is_one_core_or_no_such_call(
    names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda number: {0}, raising=False)
    assert one_core._core_of_this_process(f"{names}/one") is None
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert one_core._core_of_this_process(f"{names}/none") is None
