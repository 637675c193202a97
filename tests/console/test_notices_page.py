"""What one is told: the bell, the list, mail and channels. Links are inert, other teams see nothing of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.apps import apps
from django.utils import timezone
from people import client_of, make_cast
from scenes import Scenes

from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.destinations.transport import AddressGuard
from opsledger.engine import notices, sweep
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.models import Channel, Hold, Mailing, Notice, NoticeChoice
from opsledger.lib.ids import public
from opsledger.rules.notice_words import NoticeKind
from tests.sinks import MailSink, mail_sink

SYSTEM = By("token:00000000-0000-0000-0000-000000000003", "flow")
ADD = "/settings/notifications/channels/add/"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


@pytest.fixture
def maria(scenes: Scenes) -> Person:
    return scenes.member("Maria", Role.OWNER)


@pytest.fixture
def adam(scenes: Scenes) -> Person:
    return scenes.member("Ada", Role.ADMIN)


def given(scenes: Scenes, who: Person, count: int = 1) -> list[Notice]:
    for _ in range(count):
        scenes.unknown()
        settle_assign([Hold.objects.latest("id").pk], who.pk, SYSTEM)
    return list(Notice.objects.filter(person=who).order_by("-id"))


def text_of(who: Person, path: str) -> str:
    return unescape(client_of(who).get(path).content.decode())


def test_the_bell_counts_what_is_unread_in_this_team(scenes: Scenes, maria: Person, adam: Person) -> None:
    given(scenes, maria, 2)
    assert "Notices, 2 unread" in text_of(maria, "/")
    assert "unread" not in text_of(adam, "/")


def test_the_list_names_the_operation_and_leads_to_it(scenes: Scenes, maria: Person) -> None:
    [notice] = given(scenes, maria)
    page = text_of(maria, "/notices/")
    assert f'href="/operations/{public("op", notice.hold.operation_id)}/"' in page
    assert "Assigned to you" in page
    assert "Outcome unknown · at crm_classic · in classic_follow_up" in page


def test_reading_the_list_reads_no_notice_marking_does(scenes: Scenes, maria: Person) -> None:
    newest, older = given(scenes, maria, 2)
    client = client_of(maria)
    client.get("/notices/")
    assert Notice.objects.filter(read_at__isnull=True).count() == 2

    assert client.post("/notices/read", {"notice": public("ntc", older.pk)}).status_code == 303
    assert Notice.objects.get(pk=older.pk).read_at is not None
    assert Notice.objects.get(pk=newest.pk).read_at is None


def test_mark_all_leaves_what_came_since(scenes: Scenes, maria: Person) -> None:
    [seen] = given(scenes, maria)
    given(scenes, maria)
    client_of(maria).post("/notices/read", {"up_to": public("ntc", seen.pk)})
    assert Notice.objects.filter(read_at__isnull=True).count() == 1


def test_nobody_marks_or_sees_another_persons_notice(scenes: Scenes, maria: Person, adam: Person) -> None:
    [notice] = given(scenes, maria)
    for other in (adam, make_cast().rita):
        client_of(other).post("/notices/read", {"notice": public("ntc", notice.pk)})
        assert public("op", notice.hold.operation_id) not in text_of(other, "/notices/")
    assert Notice.objects.get(pk=notice.pk).read_at is None


def test_older_ones_are_behind_a_link_and_a_broken_link_says_so(scenes: Scenes, maria: Person) -> None:
    now = timezone.now()
    Notice.objects.bulk_create(
        Notice(team=scenes.desk.team, person=maria, kind="replay_ended", made_at=now) for _ in range(60)
    )
    client = client_of(maria)
    page = client.get("/notices/").content.decode()
    assert page.count("Mark read") == 50
    older = re.search(r'href="(\?before=[^"]+)"', page)
    assert older is not None
    assert client.get(f"/notices/{older[1]}").content.decode().count("Mark read") == 10
    assert client.get("/notices/?before=nonsense").status_code == 400
    assert client.post("/notices/read", {}).status_code == 400


# Links in messages


@pytest.fixture
def mail(settings: Any) -> Iterator[MailSink]:
    with mail_sink() as sink:
        settings.MAIL_ON = True
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", sink.port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        yield sink


def everything() -> dict[str, list[Any]]:
    """All rows but those of sessions, which signing in writes."""
    models = [one for one in apps.get_models() if one._meta.app_label in {"accounts", "ledger", "journal"}]
    return {
        one._meta.label: sorted(map(repr, one._default_manager.values_list()))
        for one in models
        if not one._meta.proxy
    }


def test_a_get_of_any_link_in_a_message_changes_nothing(
    scenes: Scenes, maria: Person, mail: MailSink
) -> None:
    given(scenes, maria)
    scenes.unknown()
    hold = Hold.objects.latest("id")
    past = timezone.now() - timedelta(days=3)
    Hold.objects.filter(pk=hold.pk).update(owner=maria, due_at=past)
    sweep.run_once()
    Notice.objects.filter(send_at__isnull=False).update(send_at=past)
    notices.run_once(AddressGuard.of(["127.0.0.0/8"]))
    text = "".join(one.get_content() for one in mail.mails)
    links = set(re.findall(r"http://localhost:8000(/\S*)", text))
    assert {"/notices/", "/settings/notifications/"} < links
    assert any(link.startswith("/operations/") for link in links)

    client = client_of(maria)
    before = everything()
    for link in sorted(links):
        assert client.get(link, follow=True).status_code == 200, link
        assert client.head(link).status_code in {200, 302, 303, 405}, link
        assert everything() == before, link
    for link in links:  # and for somebody who is not signed in
        assert urlsplit(scenes_client().get(link).headers["Location"]).path == "/accounts/login/"
    assert everything() == before


def scenes_client() -> Any:
    from django.test import Client

    return Client()


# How one is told


def test_without_a_mail_server_the_page_says_so(scenes: Scenes, maria: Person) -> None:
    assert "This installation sends no mail" in text_of(maria, "/settings/notifications/")


@pytest.mark.parametrize(
    ("minutes", "status"), [("1", 303), ("60", 303), ("0", 422), ("61", 422), ("x", 422)]
)
def test_mail_comes_within_the_hour(scenes: Scenes, maria: Person, minutes: str, status: int) -> None:
    form = {"mail_on": "on", "every_minutes": minutes}
    assert client_of(maria).post("/settings/notifications/mail/", form).status_code == status
    assert NoticeChoice.objects.filter(person=maria).exists() is (status == 303)


@pytest.mark.parametrize(("days", "status"), [("1", 303), ("7", 303), ("8", 422), ("0", 422), ("", 422)])
def test_a_mute_has_an_end_within_seven_days(scenes: Scenes, maria: Person, days: str, status: int) -> None:
    client = client_of(maria)
    assert client.post("/settings/notifications/mute/", {"days": days}).status_code == status
    choice = NoticeChoice.objects.filter(person=maria).first()
    assert (choice is not None) is (status == 303)
    if choice:
        assert choice.muted_until <= timezone.now() + timedelta(days=7)
        client.post("/settings/notifications/mute/", {"unmute": "1"})
        assert NoticeChoice.objects.get().muted_until is None


def channel_form(**more: Any) -> dict[str, Any]:
    return {"name": "Alerts", "address": SLACK, "kinds": ["reminder"], "every_minutes": "5"} | more


def test_an_admin_adds_a_channel_whose_address_is_never_shown_again(scenes: Scenes, adam: Person) -> None:
    client = client_of(adam)
    assert client.post(ADD, channel_form()).status_code == 303
    channel = Channel.objects.get()
    assert (channel.scheme, channel.host, channel.kinds) == ("slack", "slack.com", ["reminder"])
    page = client.get("/settings/notifications/").content.decode()
    assert "slack://slack.com" in page
    for secret in ("T1JJ3T3L2", "A1BRTD4JD", "TIiajkdnlazkcOXrIdevi7FQ"):
        assert secret not in page
        assert secret.encode() not in bytes(channel.sealed)
        assert secret not in "".join(Entry.objects.values_list("body", flat=True))
    line = Entry.objects.get(subject_id=scenes.desk.team.pk, kind="channel_added")
    assert line.actor == f"person:{adam.pk}"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"address": "nonsense"}, "The address must begin with"),
        ({"address": f"{SLACK}?template=/etc/passwd"}, "options that are not taken here"),
        ({"name": " "}, "A name has 1 to 80"),
        ({"kinds": []}, "Choose at least one thing"),
        ({"every_minutes": "61"}, "Choose 1 to 60 minutes"),
    ],
)
def test_a_channel_that_can_not_be_is_refused_with_the_reason(
    scenes: Scenes, adam: Person, more: dict[str, Any], said: str
) -> None:
    answer = client_of(adam).post(ADD, channel_form(**more))
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert said in page or more == {"every_minutes": "61"}
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in page
    assert not Channel.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.OWNER])
def test_only_an_admin_adds_tests_and_removes(scenes: Scenes, adam: Person, role: Role) -> None:
    client_of(adam).post(ADD, channel_form())
    path = f"/settings/notifications/channels/{public('chn', Channel.objects.get().pk)}"
    other = client_of(scenes.member("Other", role))
    for wanted in (ADD, f"{path}/test", f"{path}/remove"):
        assert other.post(wanted, channel_form(name="Mine")).status_code == 403
    assert "Alerts" in other.get("/settings/notifications/").content.decode()
    assert Channel.objects.get().removed_at is None
    assert not Mailing.objects.exists()


def test_a_channel_of_another_team_does_not_exist(scenes: Scenes, adam: Person) -> None:
    client_of(adam).post(ADD, channel_form())
    rita = client_of(make_cast().rita)
    path = f"/settings/notifications/channels/{public('chn', Channel.objects.get().pk)}"
    for wanted in (f"{path}/test", f"{path}/remove"):
        assert rita.post(wanted).status_code == 404
    assert "Alerts" not in rita.get("/settings/notifications/").content.decode()


def test_a_test_is_written_down_once_and_its_end_is_on_the_page(scenes: Scenes, adam: Person) -> None:
    client = client_of(adam)
    client.post(ADD, channel_form(address="json://127.0.0.1:9/"))
    path = f"/settings/notifications/channels/{public('chn', Channel.objects.get().pk)}/test"
    client.post(path)
    client.post(path)
    assert Mailing.objects.get().is_test

    notices.run_once(AddressGuard())
    page = unescape(client.get("/settings/notifications/").content.decode())
    assert "The address is a private one." in page


@pytest.mark.parametrize("kind", list(NoticeKind))
def test_every_kind_has_its_words(kind: NoticeKind) -> None:
    from opsledger.console.views.notices import KINDS
    from opsledger.engine.messages import _HEADINGS

    assert kind in KINDS
    assert kind in _HEADINGS
