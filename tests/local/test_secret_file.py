"""Secrets in files: one for all who ask, readable for their owner only."""

from __future__ import annotations

import stat
import threading

from opsledger.lib.secret_file import read_or_make


def test_a_secret_is_made_once_and_read_ever_after(tmp_path):
    path = tmp_path / "deep" / "secret"
    first = read_or_make(path)
    assert len(first) >= 43
    assert read_or_make(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make(tmp_path / "other") != first


def test_all_who_ask_at_once_get_the_same_secret_and_no_scrap_is_left(tmp_path):
    path, found = tmp_path / "secret", []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.append(read_or_make(path))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {path.read_text()}
    assert list(tmp_path.iterdir()) == [path]
