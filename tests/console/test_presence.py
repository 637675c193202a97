"""Presence: who reads the same page, from Redis only, within the team only, and without a word where Redis is away."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from people import client_of, person
from scenes import Scenes, path_of

from opsledger.accounts.actions import add_team, deactivate_person
from opsledger.accounts.models import Membership, Person
from opsledger.accounts.roles import Role
from opsledger.console import presence
from opsledger.console.presence import QUIET_SECONDS, TTL_SECONDS, Presence
from opsledger.journal.models import Entry
from opsledger.ledger.models import ContentVersion
from opsledger.lib.ids import new_id, public

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "presence"}


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def readers(broker_url: str, clock: Clock) -> Iterator[Presence]:
    made = Presence(broker_url, clock=clock)
    yield made
    made.close()


@pytest.fixture
def installed(readers: Presence, monkeypatch: pytest.MonkeyPatch) -> Presence:
    monkeypatch.setattr(presence, "_installed", readers)
    return readers


def beat(who: Person, path: str) -> str:
    response = client_of(who).post(path, **HTMX)
    assert response.status_code == 200, response.content
    return response.content.decode()


# At Redis


def test_each_is_told_of_the_others_on_the_same_page_and_team_only(readers: Presence) -> None:
    team, other_team, maria, jon, ann = (new_id() for _ in range(5))
    assert readers.beat(team, "operation:op_1", maria) == []
    assert readers.beat(team, "operation:op_1", maria) == []  # one's own second tab
    assert readers.beat(team, "operation:op_1", jon) == [maria]
    assert readers.beat(team, "operation:op_1", ann) == sorted([maria, jon], key=str)
    assert readers.beat(team, "operation:op_2", ann) == []
    assert readers.beat(other_team, "operation:op_1", ann) == []


def test_who_says_nothing_for_forty_seconds_is_gone(readers: Presence, clock: Clock, broker_url: str) -> None:
    team, maria, jon = new_id(), new_id(), new_id()
    readers.beat(team, "operation:op_1", maria)
    clock.now += TTL_SECONDS - 1
    assert readers.beat(team, "operation:op_1", jon) == [maria]
    clock.now += 2
    assert readers.beat(team, "operation:op_1", jon) == []
    client = redis.from_url(broker_url)
    assert (
        0 < client.ttl(f"presence:{team}:operation:op_1") <= TTL_SECONDS
    )  # the last one leaves nothing behind
    client.close()


def test_a_dead_redis_shows_nobody_and_is_left_alone_for_a_while(clock: Clock) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"redis://127.0.0.1:{taken.getsockname()[1]}/0"  # accepts, and never answers
        dead, asked = Presence(address, clock=clock), []
        real = dead._told
        dead._told = lambda *given: asked.append(1) or real(*given)  # type: ignore[method-assign]
        team, maria = new_id(), new_id()
        assert dead.beat(team, "operation:op_1", maria) == []
        assert len(asked) == 1
        clock.now += QUIET_SECONDS - 1
        assert dead.beat(team, "operation:op_1", maria) == []
        assert len(asked) == 1
        clock.now += 2
        assert dead.beat(team, "operation:op_1", maria) == []
        assert len(asked) == 2
        dead.close()


def test_redis_that_comes_back_is_used_again(clock: Clock, broker_url: str) -> None:
    made = Presence("redis://127.0.0.1:1/0", clock=clock)
    team, maria, jon = new_id(), new_id(), new_id()
    assert made.beat(team, "operation:op_1", maria) == []
    made.close()
    made._url = broker_url
    clock.now += QUIET_SECONDS + 1
    made.beat(team, "operation:op_1", maria)
    assert made.beat(team, "operation:op_1", jon) == [maria]
    made.close()


# The page


def test_a_page_is_told_who_reads_it_too_by_name_and_initials(scenes: Scenes, installed: Presence) -> None:
    opened = scenes.unknown()
    path = f"/presence/operation/{public('op', opened.id)}/"
    maria, vera = scenes.member("Maria Santos", Role.OPERATOR), scenes.member("Vera", Role.VIEWER)
    assert f'data-presence="{path}"' in client_of(maria).get(path_of(opened)).content.decode()
    others = [scenes.member(name, Role.OPERATOR) for name in ("Ann", "Bob")]
    entries = Entry.objects.count()
    assert "reading" not in beat(maria, path)
    html = beat(vera, path)
    assert ">MS</span>" in html
    assert "<b>Maria Santos</b> is reading this too" in html
    assert "<b>Maria Santos</b> and <b>Vera</b> are reading this too" in beat(scenes.owner, path)
    for reader in others:
        beat(reader, path)
    html = beat(scenes.owner, path)
    assert "<b>Ann</b>, <b>Bob</b>, <b>Maria Santos</b> and 1 more are reading this too" in html
    assert Entry.objects.count() == entries


def test_pages_of_approvals_and_replays_have_it_too(scenes: Scenes, installed: Presence) -> None:
    letter = scenes.desk.letter()
    version = ContentVersion.objects.get(team=scenes.desk.team)
    replay = scenes.replay()
    maria = scenes.member("Maria", Role.OPERATOR)
    for page, kind, thing in (
        (f"/approvals/{public('cv', version.pk)}/", "version", public("cv", version.pk)),
        (f"/replays/{public('rpl', replay.pk)}/", "replay", public("rpl", replay.pk)),
        (f"/approvals/requests/{public('stp', scenes.desk.step(letter).pk)}/", "request",
         public("stp", scenes.desk.step(letter).pk)),
    ):  # fmt: skip
        path = f"/presence/{kind}/{thing}/"
        assert f'data-presence="{path}"' in client_of(maria).get(page).content.decode()
        beat(maria, path)
        assert "<b>Maria</b> is reading this too" in beat(scenes.owner, path)


def test_other_teams_neither_see_it_nor_can_say_they_read(scenes: Scenes, installed: Presence) -> None:
    opened = scenes.unknown()
    path = f"/presence/operation/{public('op', opened.id)}/"
    rita = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=rita, also=[Role.ADMIN])
    beat(scenes.owner, path)
    assert client_of(rita).post(path, **HTMX).status_code == 404
    maria = scenes.member("Maria", Role.OPERATOR)
    html = beat(maria, path)
    assert "Rita" not in html
    assert "Test owner" in html


def test_who_left_the_team_or_was_deactivated_is_not_named(scenes: Scenes, installed: Presence) -> None:
    path = f"/presence/operation/{public('op', scenes.unknown().id)}/"
    maria, jon, ann = (scenes.member(name, Role.OPERATOR) for name in ("Maria", "Jon", "Ann"))
    for one in (maria, jon, ann):
        beat(one, path)
    deactivate_person(maria)
    Membership.objects.filter(person=jon).delete()
    assert "<b>Ann</b> is reading this too" in beat(scenes.owner, path)


def test_somebody_of_two_teams_is_seen_where_the_page_belongs(scenes: Scenes, installed: Presence) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    other = add_team(slug="other", name="Other", fallback_owner=maria)
    path = f"/presence/operation/{public('op', scenes.unknown().id)}/"
    client = client_of(maria)
    client.post("/settings/team/", {"team": str(other.pk)})
    client.post(path, **HTMX)
    assert "<b>Maria</b> is reading this too" in beat(scenes.owner, path)


@pytest.mark.parametrize(
    "path", ["nonsense/op_1", "operation/nonsense", "operation/cv_" + "0" * 26, "replay/rpl_1"]
)
def test_a_page_that_there_is_not_is_not_found(scenes: Scenes, path: str, installed: Presence) -> None:
    assert client_of(scenes.owner).post(f"/presence/{path}/", **HTMX).status_code == 404


def test_only_a_post_says_that_somebody_reads(scenes: Scenes, installed: Presence) -> None:
    path = f"/presence/operation/{public('op', scenes.unknown().id)}/"
    client = client_of(scenes.owner)
    assert client.get(path).status_code == 405
    assert client.post(path).status_code == 204  # no part of a page was asked for


def test_pages_work_where_redis_is_away(
    scenes: Scenes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = Presence("redis://127.0.0.1:1/0", clock=clock)
    monkeypatch.setattr(presence, "_installed", dead)
    opened = scenes.unknown()
    assert beat(scenes.owner, f"/presence/operation/{public('op', opened.id)}/").strip() == ""
    assert client_of(scenes.owner).get(path_of(opened)).status_code == 200
    dead.close()


def test_many_threads_share_one_connection_pool_without_errors(readers: Presence) -> None:
    team, people, failed = new_id(), [new_id() for _ in range(12)], []
    barrier = threading.Barrier(len(people))

    def run(who: Any) -> None:
        barrier.wait(10)
        try:
            readers.beat(team, "operation:op_1", who)
        except Exception as why:
            failed.append(why)

    threads = [threading.Thread(target=run, args=[who]) for who in people]
    for one in threads:
        one.start()
    for one in threads:
        one.join(10)
    assert failed == []
    assert len(readers.beat(team, "operation:op_1", new_id())) == len(people)


# In a browser


@pytest.mark.browser
def test_two_people_see_each_other_within_a_beat(scenes: Scenes, open_page: Any, installed: Presence) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    path = path_of(scenes.unknown())
    first = open_page(maria, path)
    second = open_page(scenes.owner, path)
    second.get_by_text("Maria is reading this too").wait_for()
    with first.expect_response("**/presence/**"):
        first.evaluate(
            "document.dispatchEvent(new Event('visibilitychange'))"
        )  # as when the tab is looked at again
    first.get_by_text("Test owner is reading this too").wait_for()
