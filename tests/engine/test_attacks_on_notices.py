"""Attacks on what leaves the house as a notice: addresses that mean more than they seem to, and people who are gone."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsledger.accounts import actions
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.destinations.transport import AddressGuard
from opsledger.engine.bounded import REPLY_BYTES_MAX
from opsledger.engine.messages import Message
from opsledger.engine.notices import send_to_service
from opsledger.engine.services import BadAddress, instantiate, read_address
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.mailings import Tried, claim_mailings, open_mailings, record_mailing
from opsledger.ledger.actions.telling import ask_for_test, remove_channel
from opsledger.ledger.models import Mailing, Notice
from opsledger.rules.notice_words import MailingState
from tests.console.scenes import Scenes, desk, sandbox, scenes
from tests.engine.test_sent_notices import HERE, channel, give, let_pass, mail, turn, web
from tests.sinks import MailSink, WebSink, web_sink

__all__ = ["desk", "mail", "sandbox", "scenes", "web"]

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


# Answers without end


MANY = 64 * 1024 * 1024
BOMB = gzip.compress(b" " * MANY, 9)
# What a service answers: status, answer, how often, headers; and what is said of the message.
ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "long": ({"answer": b" " * 65536, "answers": 1000}, "unknown"),
    "long, with a refusal": ({"status": 404, "answer": b" " * 65536, "answers": 1000}, "unknown"),
    "long, beside a redirect": (
        {"status": 307, "location": "/", "answer": b" " * 65536, "answers": 1000},
        "unknown",
    ),
    "longer than it says": (
        {"answer": b" " * 65536, "answers": 1000, "answer_headers": {"Content-Length": "1000000000000"}},
        "unknown",
    ),
    "small, and large when unpacked": (
        {"answer": BOMB, "answer_headers": {"Content-Encoding": "gzip"}},
        "unknown",
    ),
    "as long as is read": ({"answer": b" " * REPLY_BYTES_MAX}, "sent"),
}


@pytest.mark.parametrize(("answer", "state"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_read_up_to_a_limit(
    scenes: Scenes, web: WebSink, answer: dict[str, Any], state: str
) -> None:
    for name, value in answer.items():
        setattr(web, name, value)
    tracemalloc.start()
    try:
        tried = send_to_service(f"json://127.0.0.1:{web.port}/", Message("Desk", "Two holds."), HERE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert tried.state == state
    assert state == "sent" or "too large" in tried.said
    assert peak < 40 * 1024 * 1024
    assert len(web.bodies) == 1


def test_a_mail_server_that_talks_without_end_is_left(scenes: Scenes, mail: MailSink) -> None:
    mail.says = "chatter"
    address = (
        f"mailto://user:hunter2@127.0.0.1:{mail.port}?from=desk@ops.example&to=ops@mail.example&mode=insecure"
    )
    tried = send_to_service(address, Message("Desk", "Two holds."), HERE)
    assert (tried.state, mail.mails) == ("unknown", [])
    assert "too large" in tried.said
    assert mail.lines < 200_000


# What the environment says


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("allowed", [True, False], ids=["an allowed address", "a private address"])
def test_no_proxy_of_the_environment_comes_between(
    scenes: Scenes, web: WebSink, monkeypatch: pytest.MonkeyPatch, name: str, allowed: bool
) -> None:
    """Behind a proxy the guard would see the proxy's address alone."""
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    with web_sink() as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        guard = HERE if allowed else AddressGuard()
        tried = send_to_service(f"json://127.0.0.1:{web.port}/", Message("Desk", "Two holds."), guard)
        assert (tried.state, len(web.bodies)) == (("sent", 1) if allowed else ("failed", 0))
        assert proxy.bodies == []


def test_no_password_of_the_machine_is_given_to_a_service(
    scenes: Scenes, web: WebSink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login root password hunter2\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert (
        send_to_service(f"json://127.0.0.1:{web.port}/", Message("Desk", "Two holds."), HERE).state == "sent"
    )
    assert "Authorization" not in web.headers[0]


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
