"""The journal of the team: newest first, filtered, page by page."""

from __future__ import annotations

import html as markup
import re
from datetime import timedelta

import pytest
from django.utils import timezone
from people import client_of
from scenes import Scenes, path_of

from opsledger.accounts.roles import Role
from opsledger.journal.models import Entry, VerifyCheckpoint
from opsledger.journal.verify import WHOLE
from opsledger.ledger.queries import audit
from opsledger.rules.answers import Answer


def words(page: str) -> list[str]:
    return [word.strip() for word in re.findall(r'<th scope="row">([^<]+)', page)]


def page_of(scenes: Scenes, query: str = "") -> str:
    response = client_of(scenes.member(f"V{timezone.now():%f}", Role.VIEWER)).get(f"/audit/?{query}")
    assert response.status_code == 200
    return markup.unescape(response.content.decode())


def test_entries_are_newest_first_with_their_subject_and_author(scenes: Scenes) -> None:
    opened = scenes.unknown("spring-launch:req-8841")
    scenes.settle(opened, Answer.HAPPENED, reference="T-1")
    page = page_of(scenes)
    told = [one for one in words(page) if one != "Role granted"]  # to whoever reads the page
    assert told[:4] == ["Hold answered", "Attempt ended", "Attempt opened", "Operation recorded"]
    assert f'href="{path_of(opened)}"' in page
    assert "spring-launch:req-8841" in page
    assert "Test owner" in page
    assert "It happened" in page


def test_an_event_is_found_by_its_exact_id(scenes: Scenes) -> None:
    scenes.event_conflict("evt 1&owner=none#2")
    assert "/operations/?q=evt+1%26owner%3Dnone%232" in page_of(scenes)


def test_a_kind_and_an_author_narrow_it(scenes: Scenes) -> None:
    opened = scenes.unknown()
    scenes.settle(opened, Answer.HAPPENED, reference="T-1")
    scenes.stopped()
    assert set(words(page_of(scenes, "kind=answered"))) == {"Hold answered"}
    assert words(page_of(scenes, f"actor=person:{scenes.owner.pk}")) == ["Sending stopped", "Hold answered"]
    assert set(words(page_of(scenes, "actor=worker"))) == {"Attempt opened"}
    assert "No entry of this kind" in page_of(scenes, "kind=revealed")


def test_every_entry_comes_once_page_by_page_and_window_by_window(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FIRST_WINDOW_SECONDS", 0.001)
    monkeypatch.setattr(audit, "GROWTH", 2.0)
    for _ in range(4):
        scenes.unknown()
    wanted = audit.Wanted(scenes.desk.team.pk)
    for size in (3, 4, 5, 7):
        seen, before = [], None
        while True:
            page = audit.page_of(wanted, before=before, size=size)
            seen += [(line.subject_id, line.seq) for line in page.lines]
            if page.following is None:
                break
            before = page.following
        assert len(seen) == len(set(seen)) == Entry.objects.count(), size


def test_what_happened_long_before_is_found_in_a_growing_window(scenes: Scenes) -> None:
    """The team’s beginning bounds the search; an older page begins where the last one ended."""
    scenes.unknown()
    team = scenes.desk.team
    type(team).objects.filter(pk=team.pk).update(created_at=timezone.now() - timedelta(days=800))
    page = audit.page_of(audit.Wanted(team.pk, kind="revealed"))
    assert page.lines == []
    assert page.looked_back_to is not None
    last = audit.page_of(audit.Wanted(team.pk, kind="revealed"), before=page.following)
    assert last.lines == []


def test_verification_is_shown_as_it_stands(scenes: Scenes) -> None:
    assert "have not been verified here yet" in page_of(scenes)
    now = timezone.now()
    VerifyCheckpoint.objects.create(name="a part of it", started_at=now, finished_at=now)
    assert "have not been verified here yet" in page_of(scenes)
    whole = VerifyCheckpoint.objects.create(name=WHOLE, started_at=now)
    assert "A verification has been running since" in page_of(scenes)
    whole.finished_at, whole.faults_count = now, 0
    whole.save(update_fields=["finished_at", "faults_count"])
    page = page_of(scenes)
    assert "The whole ledger was last verified" in page
    assert "running since" not in page
    whole.started_at, whole.faults_count = now + timedelta(seconds=1), 2
    whole.save(update_fields=["started_at", "faults_count"])
    page = page_of(scenes)
    assert "found 2 subjects that do not hold" in page
    assert "last verified" not in page
    assert "A verification has been running since" in page


def test_a_link_that_cannot_be_read_says_so(scenes: Scenes) -> None:
    assert client_of(scenes.owner).get("/audit/?before=nonsense").status_code == 400


@pytest.mark.parametrize(
    ("at", "seq"),
    [
        pytest.param("2026-01-01T00:00:00+00:00", "9" * 5_000, id="a number that nothing converts"),
        pytest.param("2026-01-01T00:00:00+00:00", "\u0663", id="a digit of another script"),
        pytest.param("0001-01-01T00:00:00+23:59", "1", id="before the first year"),
        pytest.param("9999-12-31T23:59:59-23:59", "1", id="after the last year"),
        pytest.param("2026-01-01T00:00:00", "1", id="no zone"),
    ],
)
def test_a_link_to_older_entries_that_can_not_be_read_says_so(scenes: Scenes, at: str, seq: str) -> None:
    client = client_of(scenes.owner, raise_request_exception=False)
    response = client.get("/audit/", {"before": f"{at}~{scenes.owner.pk}~{seq}"})
    assert response.status_code == 400
    assert "This link to older entries can’t be read" in markup.unescape(response.content.decode())


def test_nothing_is_older_than_the_team(scenes: Scenes) -> None:
    scenes.unknown("spring-launch:req-8841")
    page = page_of(scenes, f"before=0001-01-01T00:00:00%2B00:00~{scenes.owner.pk}~4294967296")
    assert "spring-launch:req-8841" not in page
    assert "Older" not in page
