"""A demo that is stopped while it is laid out has switched sending off, and nothing else would switch it on."""

from io import StringIO

import pytest
from django.core.management import call_command

from opsledger.demo.management.commands import play_demo
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import SendingSwitch
from tests.desk import Desk


@pytest.mark.parametrize(
    ("by", "sends", "said"),
    [
        (play_demo.BY, True, "stopped while it was laid out"),
        ("command:root", False, "played before"),
    ],
    ids=["by the demo", "by somebody else"],
)
def test_sending_that_is_off_when_the_demo_starts_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, by: str, sends: bool, said: str
) -> None:
    monkeypatch.setattr(play_demo, "TEAM", desk.team.slug)
    desk.open()
    switch_sending(False, reason="for a while", by=by)
    out = StringIO()

    call_command("play_demo", stdout=out)

    assert SendingSwitch.objects.get(pk=1).sending is sends
    assert said in out.getvalue()
