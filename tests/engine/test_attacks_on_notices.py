"""Attacks on what leaves the house as a notice: addresses that mean more than they seem to, and people who are gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from opsledger.accounts import actions
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.engine.services import BadAddress, instantiate, read_address
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.mailings import Tried, claim_mailings, open_mailings, record_mailing
from opsledger.ledger.actions.telling import ask_for_test, remove_channel
from opsledger.ledger.models import Mailing, Notice
from opsledger.rules.notice_words import MailingState
from tests.console.scenes import Scenes, desk, sandbox, scenes
from tests.engine.test_sent_notices import channel, give, let_pass, mail, turn
from tests.sinks import MailSink

__all__ = ["desk", "mail", "sandbox", "scenes"]

FLOW = f"workflow://flows.example:443/{'a' * 32}/{'b' * 43}/"


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A file of the machine's own that a service could be told of."""
    file = tmp_path / "card.json"
    file.write_text(json.dumps({"type": "message", "attachments": [{"secret": "of this machine"}]}))
    return file


@pytest.mark.parametrize(
    "address",
    [
        FLOW + "?template={file}",
        FLOW + "#?template={file}",
        FLOW + "?to=x;template={file}",
        FLOW + "?to=x&;template={file}",
        FLOW + "?Template={file}",
        FLOW + "?%74emplate={file}",
        "tgram://123456789:abcdefg_hijklmnop/12315544/#?template={file}",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops?template={file}",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js/#?template={file}",
        "ntfy://topic/#?attach=file://{file}",
        "json://hook.example/#?verify=no",
        "json://hook.example/?method=POST;verify=no",
    ],
)
def test_no_spelling_of_an_option_gets_past_the_list_of_those_that_are_taken(
    card: Path, address: str
) -> None:
    """Apprise finds options where the usual reading of an address finds none: behind `;` and `#`."""
    with pytest.raises(BadAddress) as why:
        instantiate(address.format(file=card))
    assert str(card) not in str(why.value)


@pytest.mark.parametrize(
    "address",
    [
        "json://hook.example/?+X-Team=a%0d%0aX-Admin:%20yes",
        "mailto://user:hunter2@mail.example?name=Desk%0d%0aBcc:%20all@mail.example",
        "mailto://user:hunter2@mail.example?to=ops@mail.example&from=a%0aBcc:all@mail.example",
        "json://hook.example/?+X-Team%0d%0aX-Admin=yes",
    ],
)
def test_an_end_of_line_is_in_no_option_of_an_address(address: str) -> None:
    with pytest.raises(BadAddress) as why:
        read_address(address)
    assert "hunter2" not in str(why.value)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (
            "json://hook.example/path?+X-Team=ops",
            "hook.example",
        ),  # a header, as the webhook's wiki page writes it
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops", "slack.com"),
        (FLOW, "flows.example"),
        ("json://hook.example:8443/?method=PUT", "hook.example"),
    ],
)
def test_what_an_address_may_say_is_still_taken(address: str, host: str) -> None:
    assert read_address(address).host == host


# People who are gone by then


@pytest.fixture
def maria(scenes: Scenes) -> Person:
    return scenes.member("Maria", Role.OWNER)


def deactivated(scenes: Scenes, who: Person) -> None:
    actions.deactivate_person(who)


def left_the_team(scenes: Scenes, who: Person) -> None:
    actions.set_roles(who, scenes.desk.team, [])


@pytest.mark.parametrize("lose", [deactivated, left_the_team])
@pytest.mark.parametrize("gathered", [False, True], ids=["waiting", "in a message"])
def test_no_mail_leaves_to_somebody_who_is_gone(
    scenes: Scenes, maria: Person, mail: MailSink, lose: Callable[[Scenes, Person], None], gathered: bool
) -> None:
    give(scenes, maria)
    let_pass()
    if gathered:
        assert open_mailings(10) == 1
    lose(scenes, maria)
    for _ in range(4):
        turn()
        let_pass()
    assert mail.mails == []
    assert not Notice.objects.filter(person=maria, send_at__isnull=False).exists()
    assert {row.state for row in Mailing.objects.all()} == ({"failed"} if gathered else set())


def test_mail_to_those_who_are_there_goes_on(scenes: Scenes, maria: Person, mail: MailSink) -> None:
    jon = scenes.member("Jon", Role.OWNER)
    give(scenes, maria)
    give(scenes, jon)
    actions.deactivate_person(maria)
    let_pass()
    turn()
    assert [one["To"] for one in mail.mails] == [jon.email]


def test_a_message_whose_channel_is_removed_between_two_tries_says_so(scenes: Scenes) -> None:
    row = channel(scenes, "json://hook.example/")
    by = By(f"person:{scenes.owner.pk}", "Test owner", scenes.owner.pk)
    test = ask_for_test(row.pk, scenes.desk.team)
    assert test is not None
    Mailing.objects.filter(pk=test.pk).update(is_test=False)  # which has more than one try
    (claimed,) = claim_mailings(1)
    remove_channel(row.pk, scenes.desk.team, by)
    record_mailing(claimed, Tried(MailingState.FAILED, "The service refused it (503)."))
    let_pass()
    turn()
    told = Mailing.objects.get()
    assert (told.state, told.tries, told.said) == ("failed", 1, "The channel was removed.")
