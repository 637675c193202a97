"""Definition files with what the environment gives them."""

from __future__ import annotations

import pytest

from opsledger.engine.loading import BadDefinitions, read_files
from tests.desk import DEFINITIONS

NO_ADDRESS = {
    "no scheme": "crm.example",
    "a name and a password": "http://me:pw@crm.example",
    "a fragment": "http://crm.example/#a",
    "a host of two dots": "http://crm..example",
    "a blank": "http://crm.example/a b",
    "port 0": "http://crm.example:0",
}


@pytest.mark.parametrize("address", NO_ADDRESS.values(), ids=NO_ADDRESS.keys())
def test_an_address_that_nothing_can_be_sent_to_is_refused_when_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("SANDBOX_URL", address)
    with pytest.raises(BadDefinitions) as why:
        read_files([DEFINITIONS])
    assert [
        line
        for line in why.value.problems
        if "crm.toml: destination.crm.base_url: the URL" in line or "port 0" in line
    ]
    assert not [line for line in why.value.problems if "pw" in line]
