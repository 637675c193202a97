"""Law 7 on the wire: exactly what was approved arrives, once; what was edited and what was not are never both sent."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import psycopg
import pytest
from content_cast import Cast, hold_of, make_cast

from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import ApprovedRequest, Revision, StepRequest
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind
from opsledger.rules.rendering import request_digest
from tests.desk import AUTOMATION, LETTER, Desk, step_identity


@pytest.fixture
def cast(desk: Desk) -> Cast:
    return make_cast(desk)


def edit(cast: Cast, text: str = "Edited.") -> None:
    """An automation brings another text."""
    cast.desk.propose(AUTOMATION, kind=AuthorKind.AUTOMATION, author="editor", text=text)


def tick_twice(desk: Desk) -> None:
    """Every scheduler, twice."""
    for _ in range(2):
        desk.hurry()
        desk.sweep()
        desk.send()
        desk.look()


def arrived(desk: Desk, opened: Opened, number: int = 1) -> list[dict[str, Any]]:
    return desk.sandbox.requests(identity=step_identity(opened.id, number), method="POST")


def test_nothing_is_sent_before_the_approval_and_exactly_the_approved_bytes_after_it(
    desk: Desk, cast: Cast
) -> None:
    opened = desk.letter()
    tick_twice(desk)
    assert arrived(desk, opened) == []

    cast.approve(cast.newest(), cast.anna)
    tick_twice(desk)

    (request,) = arrived(desk, opened)
    approved = ApprovedRequest.objects.get(step=desk.step(opened))
    frozen = StepRequest.objects.get(step=desk.step(opened))
    assert frozen.content_digest == approved.request_digest
    assert request["body_sha256"] == _sha256(bytes(frozen.body))
    assert json.loads(bytes(frozen.body))["text"] == LETTER["text"]
    assert len(desk.sandbox.effects(identity=step_identity(opened.id, 1))) == 1


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def test_the_edited_letter_is_sent_and_the_original_never(desk: Desk, cast: Cast) -> None:
    """A1: edit, approve, and let every scheduler tick twice."""
    opened = [desk.letter() for _ in range(2)]
    cast.approve(cast.newest(), cast.anna)
    edit(cast)

    tick_twice(desk)
    assert [arrived(desk, one) for one in opened] == [[], []]
    cast.approve(cast.newest(), cast.bert)
    tick_twice(desk)

    for one in opened:
        (request,) = arrived(desk, one)
        frozen = StepRequest.objects.get(step=desk.step(one), revision=2)
        assert json.loads(bytes(frozen.body))["text"] == "Edited."
        assert request["body_sha256"] == _sha256(bytes(frozen.body))
    assert set(Revision.objects.values_list("kind", flat=True)) == {"moved"}


def test_what_was_sent_is_not_sent_again_when_the_text_is_edited(desk: Desk, cast: Cast) -> None:
    opened = desk.letter()
    cast.approve(cast.newest(), cast.anna)
    desk.sandbox.script("lose_reply_after_acting", 1, method="POST")
    desk.send()
    assert desk.step(opened).state == "unknown"

    edit(cast)
    cast.approve(cast.newest(), cast.bert)
    tick_twice(desk)

    assert len(arrived(desk, opened)) == 1
    assert (desk.step(opened).revision, desk.step(opened).content_number) == (1, 1)


def test_regenerating_voids_the_approval(desk: Desk, cast: Cast) -> None:
    opened = desk.letter()
    cast.approve(cast.newest(), cast.anna)
    desk.propose(AUTOMATION, kind=AuthorKind.MODEL, author="draft-writer-2")  # word for word the same

    tick_twice(desk)

    assert arrived(desk, opened) == []
    assert hold_of(opened).reason == "approval_needed"
    assert ApprovedRequest.objects.filter(voided_at=None).count() == 0


@pytest.mark.parametrize("changed", ["body", "approved_digest"])
def test_what_is_not_what_was_approved_never_leaves(
    desk: Desk, cast: Cast, database_urls: Any, changed: str
) -> None:
    """Somebody with the run of the database changes the frozen request and all its digests but the approved one."""
    opened = desk.letter()
    cast.approve(cast.newest(), cast.anna)
    frozen = StepRequest.objects.get(step=desk.step(opened))
    body = (
        bytes(frozen.body).replace(b"on its way", b"cancelled") if changed == "body" else bytes(frozen.body)
    )
    digest = request_digest(frozen.method, frozen.url, json.loads(frozen.headers), body)
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute("UPDATE ledger_steprequest SET body = %s, digest = %s", [body, digest])
        superuser.execute("UPDATE ledger_step SET request_digest = %s", [digest])
        if changed == "approved_digest":
            superuser.execute("UPDATE ledger_step SET approved_digest = repeat('0', 64)")

    desk.send()

    assert arrived(desk, opened) == []
    assert hold_of(opened).reason == "integrity_alarm"


def test_edit_refused_edit_done(desk: Desk, cast: Cast) -> None:
    """P4: each edit is a revision of its own, and the last one's success is the step's."""
    opened = desk.open()
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("invalid", 2, method="POST", identity=identity)
    desk.send()
    for queue in ("launch-phone", "launch-mail"):
        hold = hold_of(opened)
        assert hold.reason == "rejected_by_destination"
        settle_hold(
            hold.pk,
            Decision(Answer.REVISE, "another queue", hold.version, params={"queue": queue}),
            cast.anna,
        )
        tick_twice(desk)
        cast.approve_revision(opened, cast.bert)
        tick_twice(desk)

    step = desk.step(opened)
    assert (step.state, step.revision, step.attempt_count) == ("confirmed", 3, 3)
    requests = arrived(desk, opened)
    assert len({one["key"] for one in requests}) == len(requests) == 3
    assert len(desk.sandbox.effects(identity=identity)) == 1
    frozen = StepRequest.objects.get(step=step, revision=3)
    assert json.loads(bytes(frozen.body))["queue"] == "launch-mail"
    assert requests[-1]["body_sha256"] == _sha256(bytes(frozen.body))
