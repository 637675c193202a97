"""Whatever stands behind a command's options, it says what is wrong with it, and nothing was changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from opsledger.accounts.actions import add_person, add_team
from opsledger.accounts.models import ApiToken, Person
from opsledger.journal.models import Entry
from opsledger.ledger.models import SendingSwitch

NO_TEXT = "\udcff"  # a byte that is no UTF-8, as Python takes it from a command line
PERSON = ["create_person", "ann@example.test", "--name", "Ann", "--role", "owner", "--team"]
TOKEN = ["create_token", "n8n", "--scope", "record", "--team"]
UNTIL, SINCE = ["after_restore", "--until"], ["verify_ledger", "--since"]


@pytest.fixture
def team(transactional_db: None) -> None:
    owner = add_person(email="owner@example.test", display_name="Olga")
    add_team(slug="desk", name="Desk", fallback_owner=owner)
    SendingSwitch.objects.update(sending=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param([*UNTIL, "2026-02-30T00:00:00Z"], "--until must be", id="until a day that is none"),
        pytest.param([*UNTIL, "2026-13-01T00:00:00Z"], "--until must be", id="until a month that is none"),
        pytest.param(
            [*UNTIL, "2026-11-30T00:00:00+25:00"], "--until must be", id="until a zone that is none"
        ),
        pytest.param([*UNTIL, "2026-11-30T00:00:00"], "--until must be", id="until a time without its zone"),
        pytest.param([*SINCE, "2026-02-30T00:00:00Z"], "--since must be", id="since a day that is none"),
        pytest.param([*SINCE, "2026-11-30T24:00:00Z"], "--since must be", id="since an hour that is none"),
        pytest.param([*SINCE, NO_TEXT], "--since must be", id="since what is no text"),
        pytest.param(["sending", "off", "--reason", "x" * 4_001], "longer than 4000", id="a long reason"),
        pytest.param([*PERSON, NO_TEXT], "There is no team", id="a person of a team that is no text"),
        pytest.param([*TOKEN, NO_TEXT], "There is no team", id="a token of a team that is no text"),
        pytest.param([*TOKEN, "desk", "--person", NO_TEXT], "There is no person", id="a token of no text"),
        pytest.param(["load_definitions", ".", "--team", NO_TEXT], "There is no team", id="load for no text"),
    ],
)
def test_what_can_not_be_is_said_and_nothing_is_changed(team: None, words: list[str], said: str) -> None:
    before = Entry.objects.count(), Person.objects.count(), ApiToken.objects.count()

    with pytest.raises(CommandError, match=said):
        call_command(*words)

    assert (Entry.objects.count(), Person.objects.count(), ApiToken.objects.count()) == before
    assert not SendingSwitch.objects.get().sending


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "[" * 5_000 + "]" * 5_000, "nested too deeply"),
        ("\ufeff[workflow.x]", "Invalid statement"),
        ('[workflow.x]\ntitle = "a\\u0000b"', r"workflow\.x\.title: holds NUL"),
        (
            '[workflow.x]\nparams = [{ "a\\u0000b" = 1 }]',
            r"workflow\.x\.params\[0\]: has a name that holds NUL",
        ),
        ("", "nothing is defined"),
        (None, "nothing is defined"),
    ],
    ids=[
        "too deep",
        "a mark at its beginning",
        "NUL in a text",
        "NUL in a name",
        "an empty file",
        "an empty folder",
    ],
)
def test_files_that_define_nothing_to_keep_are_no_success(
    team: None, tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path if text is None else tmp_path / "one.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CommandError, match=said) as refused:
        call_command("load_definitions", str(path), "--team", "desk")
    assert str(tmp_path) in str(refused.value)
