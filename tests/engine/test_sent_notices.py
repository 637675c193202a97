"""Notices leave by mail and by services: batched, guarded, recorded before they are sent, tried so often at most."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.destinations.transport import AddressGuard
from opsledger.engine import notices, sweep, tasks
from opsledger.engine.celery_settings import BELLS
from opsledger.engine.services import BadAddress, read_address
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.mailings import (
    Tried,
    claim_mailings,
    open_mailings,
    record_mailing,
    record_mailing_leases_ended,
)
from opsledger.ledger.actions.telling import add_channel, ask_for_test, mute_mail, remove_channel
from opsledger.ledger.models import Channel, Hold, Mailing, Notice
from opsledger.lib.ids import public
from opsledger.rules.notice_words import MailingState, NoticeKind
from tests.console.scenes import Scenes, desk, sandbox, scenes
from tests.sinks import MailSink, WebSink, mail_sink, web_sink

__all__ = ["desk", "sandbox", "scenes"]
SYSTEM = By("token:00000000-0000-0000-0000-000000000003", "flow")
HERE = AddressGuard.of(["127.0.0.0/8"])
EVERYTHING = [kind.value for kind in NoticeKind]


@pytest.fixture
def mail(settings: Any) -> Iterator[MailSink]:
    with mail_sink() as sink:
        settings.MAIL_ON = True
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.DEFAULT_FROM_EMAIL = "Desk <desk@ops.example>"
        yield sink


@pytest.fixture
def web() -> Iterator[WebSink]:
    with web_sink() as sink:
        yield sink


@pytest.fixture
def maria(scenes: Scenes) -> Person:
    return scenes.member("Maria", Role.OWNER)


def channel(scenes: Scenes, address: str, **more: Any) -> Channel:
    shown = read_address(address)
    by = By(f"person:{scenes.owner.pk}", "Test owner", scenes.owner.pk)
    return add_channel(
        scenes.desk.team, "Alerts", scheme=shown.scheme, host=shown.host, by=by,
        **{"sealed": notices.sealed_address(address), "kinds": EVERYTHING, "every_minutes": 5} | more,
    )  # fmt: skip


def give(scenes: Scenes, who: Person, count: int = 1) -> list[Hold]:
    """Holds that somebody else gives to the person, each by itself."""
    known = set(Hold.objects.values_list("pk", flat=True))
    for _ in range(count):
        scenes.unknown()
    given = list(Hold.objects.exclude(pk__in=known))
    for hold in given:
        settle_assign([hold.pk], who.pk, SYSTEM)
    return given


def let_pass(minutes: int = 60) -> None:
    gone = timedelta(minutes=minutes)
    for notice in Notice.objects.filter(send_at__isnull=False):
        Notice.objects.filter(pk=notice.pk).update(send_at=notice.send_at - gone)
    for row in Mailing.objects.filter(try_at__isnull=False):
        Mailing.objects.filter(pk=row.pk).update(try_at=row.try_at - gone)
    for row in Mailing.objects.filter(lease_ends_at__isnull=False):
        Mailing.objects.filter(pk=row.pk).update(lease_ends_at=row.lease_ends_at - gone)


def turn(**more: Any) -> notices.Told:
    return notices.run_once(HERE, **more)


# Mail


def test_what_comes_within_the_minutes_is_one_mail(scenes: Scenes, maria: Person, mail: MailSink) -> None:
    given = give(scenes, maria, 3)
    turn()
    assert mail.mails == []

    let_pass()
    turn()
    turn()

    [sent] = mail.mails
    text = sent.get_content()
    assert (sent["To"], sent["From"]) == (maria.email, "Desk <desk@ops.example>")
    assert sent["Subject"] == "Desk: Assigned to you (3)"
    assert text.count("outcome unknown at crm_classic in classic_follow_up op_") == 3
    for hold in given:
        assert f"http://localhost:8000/operations/{public('op', hold.operation_id)}/" in text
    assert Mailing.objects.get().state == "sent"
    assert Notice.objects.filter(mailing__isnull=True).count() == 0


def test_the_bell_sends_what_is_due(scenes: Scenes, maria: Person, mail: MailSink) -> None:
    assert BELLS["notices"] < notices.SEND_SECONDS
    give(scenes, maria)
    let_pass()
    tasks.notices()
    assert [one["To"] for one in mail.mails] == [maria.email]


def test_a_mail_holds_no_parameter_and_no_title(scenes: Scenes, maria: Person, mail: MailSink) -> None:
    [hold] = give(scenes, maria)
    let_pass()
    turn()
    text = mail.mails[0].as_string()
    for secret in ("Alder Works", "ACC-4417", hold.title, hold.operation_text_id):
        assert secret
        assert secret not in text


def test_an_escalation_leaves_at_once_and_takes_along_what_waits(
    scenes: Scenes, maria: Person, mail: MailSink
) -> None:
    give(scenes, scenes.owner)
    [hold] = give(scenes, maria)
    past = timezone.now() - timedelta(days=2)
    Hold.objects.filter(pk=hold.pk).update(due_at=past, reminded_at=past, escalate_at=past)
    sweep.run_once()
    turn()

    [sent] = [one for one in mail.mails if one["To"] == scenes.owner.email]
    assert sent["Subject"] == "Desk: Came to you because nobody acted (2)"
    assert "Assigned to you: 1" in sent.get_content()
    assert [one["To"] for one in mail.mails] == [scenes.owner.email]  # Maria's waits for others


def test_what_was_read_or_is_over_is_not_sent(scenes: Scenes, maria: Person, mail: MailSink) -> None:
    read, over, neighbour = give(scenes, maria, 3)
    Notice.objects.filter(hold=read).update(read_at=timezone.now())
    Hold.objects.filter(pk=over.pk).update(closed_at=timezone.now(), closed_by="evidence")
    let_pass()
    turn()
    [sent] = mail.mails
    assert public("op", neighbour.operation_id) in sent.get_content()
    assert public("op", read.operation_id) not in sent.get_content()
    assert public("op", over.operation_id) not in sent.get_content()


def test_a_mute_ends_and_the_page_goes_on_meanwhile(scenes: Scenes, maria: Person, mail: MailSink) -> None:
    give(scenes, maria)
    mute_mail(maria, 2)
    let_pass()
    turn()
    assert mail.mails == []
    assert Notice.objects.get(person=maria).read_at is None
    assert Notice.objects.get(person=maria).send_at > timezone.now() + timedelta(days=1)

    from opsledger.ledger.models import NoticeChoice

    past = timezone.now() - timedelta(hours=1)
    NoticeChoice.objects.update(muted_at=past - timedelta(days=1), muted_until=past)
    let_pass(60 * 48 + 60)
    turn()
    assert len(mail.mails) == 1


@pytest.mark.parametrize(
    ("says", "state", "in_doubt", "words"),
    [
        ("refuse", "waiting", False, "takes no mail for this address (550)"),
        ("hang_up", "waiting", True, "hung up"),
        ("silent", "waiting", True, "not known"),
    ],
)
def test_a_try_that_fails_says_why_and_comes_again(
    scenes: Scenes, maria: Person, mail: MailSink, says: str, state: str, in_doubt: bool, words: str
) -> None:
    mail.says = says
    give(scenes, maria)
    let_pass()
    turn(send_seconds=0.5)
    row = Mailing.objects.get()
    assert (row.state, row.in_doubt, row.tries) == (state, in_doubt, 1)
    assert words in row.said


def test_no_more_than_three_tries_and_the_last_one_is_not_hidden(
    scenes: Scenes, maria: Person, mail: MailSink
) -> None:
    mail.says = "hang_up"
    give(scenes, maria)
    for _ in range(5):
        let_pass()
        turn()
    row = Mailing.objects.get()
    assert (row.state, row.tries, len(mail.mails)) == ("unknown", 3, 3)
    assert len({one["Message-ID"] for one in mail.mails}) == 1
    assert ["may have had this message before" in one.get_content() for one in mail.mails] == [
        False,
        True,
        True,
    ]


def test_a_worker_that_dies_while_sending_leaves_it_not_known(
    scenes: Scenes, maria: Person, mail: MailSink
) -> None:
    give(scenes, maria)
    let_pass()
    open_mailings(10)
    [claimed] = claim_mailings(10)  # and now the worker is killed
    assert claim_mailings(10) == []
    assert record_mailing_leases_ended(10) == 0

    let_pass()
    assert record_mailing_leases_ended(10) == 1
    row = Mailing.objects.get()
    assert (row.state, row.in_doubt) == ("waiting", True)

    assert record_mailing(claimed, Tried(MailingState.FAILED, "late")) is False
    assert Mailing.objects.get().said == "The worker stopped while it was sending this."
    let_pass()
    [again] = claim_mailings(10)
    assert record_mailing(claimed, Tried(MailingState.FAILED, "late")) is False
    assert (Mailing.objects.get().state, Mailing.objects.get().tries) == ("sending", 2)
    record_mailing(again, Tried(MailingState.UNKNOWN, "It broke off."))
    assert record_mailing(claimed, Tried(MailingState.SENT, "late")) is False
    assert Mailing.objects.get().state == "sent"  # late truth is kept


def test_without_a_mail_server_nothing_waits_to_be_sent(scenes: Scenes, maria: Person) -> None:
    give(scenes, maria)
    assert Notice.objects.get(person=maria).send_at is None


# Services


def test_a_channel_is_told_what_it_listens_to(scenes: Scenes, maria: Person, web: WebSink) -> None:
    channel(scenes, f"json://127.0.0.1:{web.port}/hook", kinds=["assigned"])
    [hold] = give(scenes, maria)
    let_pass()
    turn()
    [body] = web.bodies
    assert body["title"] == "Desk: Opened with an owner, or assigned"
    assert public("op", hold.operation_id) in body["message"]
    assert hold.title not in body["message"]


def test_another_teams_channel_hears_nothing(scenes: Scenes, maria: Person, web: WebSink) -> None:
    from tests.people import make_cast

    row = channel(scenes, f"json://127.0.0.1:{web.port}/")
    Channel.objects.filter(pk=row.pk).update(team=make_cast().returns)
    give(scenes, maria)
    let_pass()
    turn()
    assert web.bodies == []


@pytest.mark.parametrize("allowed", [True, False])
def test_a_private_address_is_called_only_where_it_is_allowed(
    scenes: Scenes, web: WebSink, allowed: bool
) -> None:
    row = channel(scenes, f"json://localhost:{web.port}/")
    ask_for_test(row.pk, scenes.desk.team)
    notices.run_once(HERE if allowed else AddressGuard())
    tried = Mailing.objects.get()
    assert (tried.state, len(web.bodies)) == (("sent", 1) if allowed else ("failed", 0))
    assert allowed or "private" in tried.said


def test_a_redirect_is_not_followed(scenes: Scenes, web: WebSink) -> None:
    with web_sink() as other:
        web.status, web.location = 307, f"http://127.0.0.1:{other.port}/"
        row = channel(scenes, f"json://127.0.0.1:{web.port}/")
        ask_for_test(row.pk, scenes.desk.team)
        turn()
        assert (len(web.bodies), other.bodies) == (1, [])
    assert Mailing.objects.get().state == "failed"


def test_a_refusal_says_its_status_and_nothing_of_the_address(
    scenes: Scenes, web: WebSink, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    web.status = 404
    row = channel(scenes, f"json://user:hunter2@127.0.0.1:{web.port}/secret-path")
    ask_for_test(row.pk, scenes.desk.team)
    turn()
    said = Mailing.objects.get().said
    assert said == "The service refused it (404)."
    assert "secret-path" in web.paths[0]
    printed = capfd.readouterr()
    assert "secret-path" not in caplog.text + printed.out + printed.err
    assert "hunter2" not in caplog.text + printed.out + printed.err


def test_a_service_that_drips_does_not_hold_the_worker(scenes: Scenes, web: WebSink) -> None:
    web.drips = True
    row = channel(scenes, f"json://127.0.0.1:{web.port}/")
    ask_for_test(row.pk, scenes.desk.team)
    turn(send_seconds=0.5)
    tried = Mailing.objects.get()
    assert (tried.state, tried.said) == (
        "unknown",
        "No answer came in time; whether it arrived is not known.",
    )


def test_the_address_is_sealed_and_another_key_does_not_open_it(
    scenes: Scenes, web: WebSink, settings: Any
) -> None:
    row = channel(scenes, f"json://user:hunter2@127.0.0.1:{web.port}/")
    assert b"hunter2" not in bytes(row.sealed)
    ask_for_test(row.pk, scenes.desk.team)
    settings.SECRET_KEY = "another" * 10
    turn()
    assert Mailing.objects.get().state == "failed"
    assert "Add it again" in Mailing.objects.get().said
    assert web.bodies == []


def test_a_removed_channel_is_not_told_what_waited_and_its_secret_is_gone(
    scenes: Scenes, maria: Person, web: WebSink
) -> None:
    row = channel(scenes, f"json://127.0.0.1:{web.port}/")
    give(scenes, maria)
    assert remove_channel(row.pk, scenes.desk.team, SYSTEM) is True
    assert remove_channel(row.pk, scenes.desk.team, SYSTEM) is False
    let_pass()
    turn()
    assert web.bodies == []
    assert bytes(Channel.objects.get().sealed) == b""


@pytest.mark.parametrize(
    ("address", "scheme", "host"),
    [
        ("jsons://user:hunter2@hook.example/path", "jsons", "hook.example"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "slack", "slack.com"),
        (
            "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
            "slack",
            "slack.com",
        ),
        ("ntfys://topic-that-is-secret", "ntfys", "ntfy.sh"),
        ("tgram://123456789:abcdefg_hijklmnop/12315544/", "tgram", "api.telegram.org"),
        ("mailtos://user:hunter2@mail.example?to=ops@mail.example", "mailtos", "mail.example"),
        ("mmosts://chat.example/3ccdd113474722377935511fc85d3dd4", "mmosts", "chat.example"),
    ],
)
def test_of_an_address_only_scheme_and_host_are_shown(address: str, scheme: str, host: str) -> None:
    shown = read_address(address)
    assert (shown.scheme, shown.host) == (scheme, host)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nonsense",
        "file:///etc/passwd",
        "windows://",
        "syslog://local",
        "https://example.com/hook",
        "slack://",
        "json://hook.example/?retry=9",
        "json://hook.example/?redirect=yes",
        "jsons://hook.example/?verify=no",
        "workflows://prod.example:443/a1b2c3/signature?template=/etc/passwd",
        "json://" + "x" * 3000,
        "json://hook.example/\nX: y",
    ],
)
def test_other_addresses_are_refused_and_the_refusal_repeats_nothing_of_them(address: str) -> None:
    with pytest.raises(BadAddress) as why:
        read_address(address)
    assert "passwd" not in str(why.value)
    assert "hook.example" not in str(why.value)
