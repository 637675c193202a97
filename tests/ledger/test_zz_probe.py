from __future__ import annotations
from datetime import timedelta
import threading
import pytest
from django.core.management import call_command
from django.utils import timezone
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine import bulk as engine, sweep
from opsledger.ledger.actions.lists import keep_list, begin_happened
from opsledger.ledger.actions.propose import Thought, open_proposal
from opsledger.ledger.actions.settle import Decision, By, settle_assign
from opsledger.ledger.models import Hold, Proposal, Step, BulkItem
from opsledger.ledger.queries import lists
from opsledger.ledger.queries.bulk import groups_of, remaining
from opsledger.rules.answers import Answer
from opsledger.rules.bulk import Verb
from opsledger.rules.content import AuthorKind
from tests.bulk import begun, counts, ran, results, selected
from tests.console.scenes import Scenes
from uuid import uuid4


def look(team, kept):
    one = lists.list_of(kept.pk, [team])
    return lists.look(one, remaining(groups_of(one.selection_id)))


def line(hold, ref):
    return f"{ref},{Step.objects.get(pk=hold.step_id).identity}"


def test_list_with_proposal_and_escalation(scenes: Scenes):
    maria = scenes.member("Maria", Role.OWNER)
    omar = scenes.member("Omar", Role.OPERATOR)
    holds = [scenes.hold(scenes.unknown()) for _ in range(4)]
    by = by_person(scenes.owner)
    p = open_proposal(
        holds[0].pk,
        Decision(Answer.HAPPENED, "seen", holds[0].version, reference="T-9"),
        by_person(omar),
        Thought(AuthorKind.PERSON),
    )
    sel = selected(holds, by)
    kept = keep_list(
        sel, ("reference,identity\n" + "\n".join(line(h, f"T-{i}") for i, h in enumerate(holds))).encode(), by
    )
    seen = look(scenes.desk.team.pk, kept)
    print(seen.matched, seen.fits)
    run = begin_happened(seen, seen.shown, "their list", by, once=uuid4()).run
    # owner gone between
    Hold.objects.filter(pk=holds[1].pk).update(owner=maria)
    from opsledger.accounts import actions

    actions.set_roles(maria, scenes.desk.team, [])
    sweep.run_once()
    engine.carry(run.pk, Verb.HAPPENED, 30)
    print(results(run))
    run.refresh_from_db()
    print(counts(run))
    print([(x.ended_how, x.ended_by) for x in Proposal.objects.all()])
    call_command("verify_ledger")


def test_two_lists_one_reference(scenes: Scenes):
    holds = [scenes.hold(scenes.unknown()) for _ in range(2)]
    by = by_person(scenes.owner)
    runs = []
    for h in holds:
        sel = selected([h], by)
        kept = keep_list(sel, ("reference,identity\n" + line(h, "T-same")).encode(), by)
        seen = look(scenes.desk.team.pk, kept)
        runs.append(begin_happened(seen, seen.shown, "their list", by, once=uuid4()).run)
    gate = threading.Barrier(2)
    errors = []

    def go(r):
        from django.db import connection

        try:
            gate.wait()
            engine.carry(r.pk, Verb.HAPPENED, 30)
        except BaseException as e:
            errors.append(e)
        finally:
            connection.close()

    ts = [threading.Thread(target=go, args=(r,)) for r in runs]
    [t.start() for t in ts]
    [t.join() for t in ts]
    print(errors, [results(r) for r in runs])
    for r in runs:
        r.refresh_from_db()
        print(r.state, counts(r))
    call_command("verify_ledger")


def test_next_check_passed(scenes: Scenes):
    hold = scenes.hold(scenes.unknown())
    by = by_person(scenes.owner)
    run = begun(
        selected([hold], by),
        Verb.NEXT_CHECK,
        by,
        reason="x",
        facts={"next_check_at": (timezone.now() - timedelta(hours=1)).isoformat()},
    )
    engine.carry(run.pk, Verb.NEXT_CHECK, 30)
    print(results(run))
    hold.refresh_from_db()
    print(hold.due_at, hold.version)
    call_command("verify_ledger")


def test_names(scenes: Scenes):
    from opsledger.accounts import actions

    for bad in ["a\nb", "a\r\nBcc: x@y", "x\u2028y", "  "]:
        try:
            actions.change_team(scenes.desk.team, name=bad, fallback_owner=scenes.owner)
            print("TAKEN", repr(bad))
        except actions.Refused as e:
            print("refused", repr(bad), e)
