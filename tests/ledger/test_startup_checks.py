"""What is said of the database before anything starts: by `check --database default`, and by `migrate --database owner`."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.db import connections

from opsledger.journal import checks


def said(alias: str) -> list[str]:
    return [str(one.id) for one in run_checks(tags=["database"], databases=[alias])]


@pytest.mark.parametrize("alias", ["default", "owner"])
@pytest.mark.django_db(databases=["default", "owner"])
def test_a_postgresql_that_is_too_old_is_told_whichever_role_asks(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(alias) == []
    monkeypatch.setattr(checks, "POSTGRES_VERSION_MIN", 990_000)
    assert said(alias) == ["journal.E001"]


@pytest.mark.parametrize("alias", ["default", "owner"])
@pytest.mark.django_db(databases=["default", "owner"])
def test_one_role_for_both_is_told_of(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checks, "connections", {"default": connections["owner"], "owner": connections["owner"]}
    )
    assert said(alias) == ["journal.W001"]
