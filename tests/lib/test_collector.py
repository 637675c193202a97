from __future__ import annotations

import gc

import pytest

from opsledger.lib import collector


def test_the_collector_runs_again_when_the_last_pause_ends() -> None:
    with collector.put_off():
        with collector.put_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), collector.put_off():
        raise ValueError("broken")
    assert gc.isenabled()
