"""What a person may not do is refused by the server, not offered by the page, and explained. Other teams do not exist."""

from __future__ import annotations

import html as markup

import pytest
from people import client_of, person
from scenes import Scenes, hold_path, path_of

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Membership, Person
from opsledger.accounts.roles import Role
from opsledger.console import urls
from opsledger.console.forms import by_person
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assignment import NewRule, add_rule
from opsledger.ledger.actions.lists import keep_list
from opsledger.ledger.actions.propose import Thought, open_proposal
from opsledger.ledger.actions.saved_views import save_view
from opsledger.ledger.actions.settle import Decision
from opsledger.ledger.models import ContentVersion, Definition, Evidence, Hold
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from opsledger.rules.bulk import Verb
from opsledger.rules.content import AuthorKind
from tests.bulk import begun, selected
from tests.desk import AUTOMATION
from tests.many_holds import an_incident


@pytest.fixture
def people(scenes: Scenes) -> dict[Role, Person]:
    return {role: scenes.member(role.value.capitalize(), role) for role in Role}


def addresses(scenes: Scenes) -> dict[str, tuple[str, str, dict[str, str], set[Role]]]:
    """Every write of the work pages: address, what it is about, what is posted, and who may."""
    opened = scenes.unknown()
    answered = scenes.unknown()
    scenes.settle(answered, Answer.HAPPENED, reference="T-1")
    hold, stop, event = scenes.hold(opened), scenes.stopped("mail"), scenes.event_conflict()
    crm = public("dst", Definition.objects.get(team=scenes.desk.team, slug="crm").pk)
    evidence = public("ev", Evidence.objects.filter(operation_id=opened.id).first().pk)  # type: ignore[union-attr]
    operators, owners, admin = {Role.OPERATOR, Role.OWNER}, {Role.OWNER}, {Role.ADMIN}
    version, reason = {"version": "1"}, {"reason": "because"}
    absent = version | reason | {"answer": "absent", "then": "end", "checked_how": "x"}
    later = {"version": "0", "answer": "unknown", "next_check": "60", **reason}
    mended = {"version": "0", "rate": "1", **reason}
    letter = scenes.desk.letter()
    content = f"/approvals/{public('cv', ContentVersion.objects.get(team=scenes.desk.team).pk)}/"
    changed = f"/approvals/requests/{public('stp', scenes.desk.step(letter).pk)}/"
    replay = f"/replays/{public('rpl', scenes.replay().pk)}/"
    incident = an_incident(scenes.desk)
    group = f"/incidents/{public('inc', incident.pk)}/"
    shown = {"newest": public("hold", Hold.objects.filter(incident=incident).order_by("id").last().pk)}  # type: ignore[union-attr]
    settle, ticked = hold_path(hold, "settle"), {"hold": f"{public('hold', hold.pk)}~{hold.version}"}
    made = selected([hold], by_person(scenes.owner))
    selection = f"/selections/{public('sel', made.pk)}/"
    run = f"/selections/runs/{public('run', begun(made, Verb.TAKE, by_person(scenes.owner)).pk)}/"
    listed = keep_list(made, b"T-1\n", by_person(scenes.owner))
    list_path = f"{selection}list/{public('lst', listed.pk)}/"
    by = by_person(scenes.owner)
    rule = f"/settings/rules/{public('rule', add_rule(scenes.desk.team.pk, NewRule(scenes.owner.pk), by))}/"
    view = f"/views/{public('view', save_view(scenes.desk.team.pk, None, 'Late', 'view=mine', scenes.owner.pk))}/"
    automation = open_proposal(
        hold.pk,
        Decision(Answer.CLOSE_UNKNOWN, "It is gone.", hold.version),
        AUTOMATION,
        Thought(AuthorKind.MODEL, "reader"),
    )
    proposal = public("prop", automation.id)
    return {
        "settle": (settle, "hold", absent, owners),
        "close": (settle, "hold", version | reason | {"answer": "close"}, owners),
        "still unknown": (settle, "hold", later, operators),
        "look up": (hold_path(hold, "look-up"), "hold", {"reference": "T-1"}, operators),
        "propose": (hold_path(hold, "propose"), "hold", absent, operators),
        "accept a proposal": (f"/proposals/{proposal}/accept", "proposal", {"version": "0"}, owners),
        "dismiss a proposal": (f"/proposals/{proposal}/dismiss", "proposal", {"reason": " "}, owners),
        "assign": (hold_path(hold, "assign"), "hold", {"owner": "none"}, operators | admin),
        "note on a hold": (hold_path(hold, "note"), "hold", {"text": " "}, operators),
        "check a hold": (hold_path(hold, "check"), "hold", {}, operators),
        "note": (f"{path_of(opened)}notes", "operation", {"text": " "}, operators),
        "check": (f"{path_of(opened)}steps/1/check", "operation", {}, operators),
        "cancel": (f"{path_of(opened)}cancel", "operation", {"version": "0", **reason}, owners),
        "withdraw": (f"{path_of(answered)}steps/1/withdraw", "operation", {"version": "0", **reason}, owners),
        "reveal": (f"{path_of(opened)}reveal", "operation", {}, owners),
        "reveal evidence": (f"{path_of(opened)}evidence/{evidence}/reveal", "operation", {}, owners),
        "settle event": (hold_path(event, "settle"), "event", {"version": "0", "answer": "first_stands", **reason}, owners),
        "reveal event": (hold_path(event, "reveal"), "event", {}, owners),
        "decide over content": (f"{content}decide", "content", version | {"answer": "reject", "reason": " "}, owners),
        "reveal content": (f"{content}reveal", "content", {}, owners),
        "propose content": (f"{content}propose/version", "content", {"field.subject": "x" * 500}, operators),
        "reveal to edit": (f"{content}propose/reveal", "content", {}, owners),
        "approve a request": (f"{changed}decide", "content", {"revision": "7"}, owners),
        "reveal a request": (f"{changed}reveal", "content", {}, owners),
        "pause": (f"/destinations/{crm}/pause", "destination", {"reason": " "}, operators),
        "resume": (f"/destinations/holds/{public('hold', stop.pk)}/resume", "destination", mended, owners | admin),
        "choose what waits": (f"/destinations/{crm}/waiting/ticked", "destination", {}, owners),
        "choose all that waits": (f"/destinations/{crm}/waiting/all", "destination", {}, owners),
        "pause replay": (f"{replay}pause", "replay", {"version": "0", **reason}, owners),
        "resume replay": (f"{replay}resume", "replay", {"version": "0", **reason}, owners),
        "abort replay": (f"{replay}abort", "replay", {"version": "0", **reason}, owners),
        "take a group": (f"{group}take", "incident", shown, operators | admin),
        "check a group": (f"{group}check", "incident", shown, operators),
        "select a group": (f"{group}select", "incident", shown, operators | admin),
        "note on an incident": (f"{group}note", "incident", {"text": " "}, operators),
        "rename a view": (f"{view}rename/", "view", {"name": " "}, operators | admin),
        "move a view": (f"{view}move/", "view", {"to": "up"}, operators | admin),
        "change a rule": (rule, "rule", {"version": "0"}, owners | admin),
        "move a rule": (f"{rule}move/", "rule", {"version": "0"}, owners | admin),
        "remove a rule": (f"{rule}remove/", "rule", {"version": "0"}, owners | admin),
        "assign several": ("/inbox/assign/", "inbox", {"owner": "none", **ticked}, operators | admin),
        "check several": ("/inbox/check/", "inbox", ticked, operators),
        "select several": ("/selections/ticked/", "inbox", ticked, operators | admin),
        "select a view": ("/selections/view/", "inbox", {"seen": ""}, operators | admin),
        "begin a bulk run": (f"{selection}runs/", "bulk", {"verb": "assign", "owner": "none"}, operators | admin),
        "keep a list": (f"{selection}list/keep", "bulk", {"list": "T-1"}, owners),
        "read a list": (f"{list_path}read", "bulk", {}, owners),
        "apply a list": (f"{list_path}apply", "bulk", reason, owners),
        "keep a statement": (f"{selection}statement/keep", "bulk", {"words": "no"}, owners),
        "abort a bulk run": (f"{run}abort", "bulk", {"version": "0", **reason}, operators | admin),
    }  # fmt: skip


def test_each_write_is_refused_to_those_who_may_not_and_says_which_role_it_takes(
    scenes: Scenes, people: dict[Role, Person]
) -> None:
    clients = {role: client_of(who) for role, who in people.items()}
    writes = addresses(scenes)
    for name, (path, _about, data, allowed) in writes.items():
        for role in set(Role) - allowed:
            before = Entry.objects.count()
            response = clients[role].post(path, data)
            assert response.status_code == 403, (name, role)
            page = markup.unescape(response.content.decode())
            assert "you need the role" in page, (name, role)
            assert "Nothing was done" in page
            assert Entry.objects.count() == before, (name, role)
    for name, (path, _about, data, allowed) in writes.items():
        for role in sorted(allowed):
            assert clients[role].post(path, data).status_code in {200, 303, 409, 422}, (name, role)


def test_each_write_by_an_outsider_finds_nothing(scenes: Scenes) -> None:
    outsider = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=outsider, also=[Role.ADMIN])
    client = client_of(outsider)
    for name, (path, about, data, _allowed) in addresses(scenes).items():
        before = Entry.objects.count()
        response = client.post(path, data)
        if about == "inbox":
            assert response.status_code == 303, name
        else:
            assert response.status_code == 404, name
        assert Entry.objects.count() == before, name


def test_each_page_of_another_team_finds_nothing(scenes: Scenes) -> None:
    opened, hold = scenes.unknown("spring-launch:req-8841"), scenes.event_conflict()
    evidence = Evidence.objects.get(operation_id=opened.id)
    outsider = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=outsider)
    client = client_of(outsider)
    for path in (
        path_of(opened),
        "/operations/spring-launch:req-8841/",
        f"{path_of(opened)}evidence-file",
        f"{path_of(opened)}evidence/{public('ev', evidence.pk)}/",
        hold_path(hold, ""),
    ):
        assert client.get(path).status_code == 404, path
    for path in ("/", "/operations/", "/operations/?q=spring-launch", "/destinations/", "/audit/"):
        page = client.get(path).content.decode()
        assert "8841" not in page.replace("q=spring", ""), path
        assert "crm_classic" not in page, path


def test_writes_take_only_posts_and_pages_only_gets(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    for name, (path, *_rest) in addresses(scenes).items():
        if name == "change a rule":  # its page is at the same address
            assert client.get(path).status_code == 200
        elif not path.startswith("/holds/") or path.endswith("settle"):
            assert client.get(path).status_code == 405, name
    for path in ("/", "/operations/", "/destinations/", "/audit/"):
        assert client.post(path).status_code == 405, path
    assert Hold.objects.filter(closed_at__isnull=True).exists()


def test_what_a_viewer_may_not_do_is_not_on_the_page_which_says_why(scenes: Scenes) -> None:
    opened = scenes.unknown()
    viewer = client_of(scenes.member("Vera", Role.VIEWER))
    page = markup.unescape(viewer.get(path_of(opened)).content.decode())
    for offered in ("settle", "look-up", "notes", "cancel", "reveal", "check", "assign"):
        assert f'/{offered}"' not in page, offered
    assert "To settle a hold, you need the role owner in Desk; you have viewer." in page
    assert "Test owner can." in page
    inbox = markup.unescape(viewer.get("/").content.decode())
    assert 'type="checkbox" name="hold"' not in inbox
    assert "To assign holds, you need the role" in inbox


def test_an_operator_gives_still_unknown_and_proposes_the_rest(scenes: Scenes) -> None:
    import re

    opened = scenes.unknown()
    page = client_of(scenes.member("Omar", Role.OPERATOR)).get(path_of(opened)).content.decode()
    assert re.findall(r'name="answer" value="(\w+)"', page) == ["happened", "absent", "unknown", "close"]
    proposing = re.findall(r'<button class="btn p if (\w+)" formaction="[^"]+/propose"', page)
    assert proposing == ["happened", "absent", "close"]
    assert "To settle a hold, you need the role owner" in markup.unescape(page)


def test_roles_are_those_of_the_team_that_the_operation_belongs_to(scenes: Scenes) -> None:
    """An owner of the chosen team who only views in the operation’s team may look, and may not settle."""
    opened = scenes.unknown()
    rita = person("Rita")
    add_team(slug="aaa", name="Aaa", fallback_owner=rita)  # the first by name: chosen
    Membership.objects.create(person=rita, team=scenes.desk.team, role=Role.VIEWER.value)
    client = client_of(rita)
    assert "you have viewer" in client.get(path_of(opened)).content.decode()
    hold = scenes.hold(opened)
    data = {
        "answer": "absent",
        "then": "end",
        "checked_how": "x",
        "reason": "y",
        "version": str(hold.version),
    }
    assert client.post(hold_path(hold, "settle"), data).status_code == 403


def test_every_address_of_the_work_pages_is_covered_here(scenes: Scenes) -> None:
    """A new write without a row in the table above is found out."""
    names = {
        pattern.name
        for pattern in urls.urlpatterns
        if "<" in str(pattern.pattern)
        or "inbox/" in str(pattern.pattern)
        or "selections/" in str(pattern.pattern)
    }
    pages = {"incident", "operation", "evidence", "evidence_file", "hold", "hold_watch", "inbox_news", "approval",
             "approval_of_hold", "approval_of_request", "propose", "replay", "replay_progress", "replay_report",
             "bulk_runs", "selection", "bulk_run", "bulk_run_progress", "bulk_run_file", "list_form", "reference_list",
             "reference_list_file", "statement_form", "statement", "statement_file", "waiting"}  # fmt: skip
    of_settings = (
        "person",
        "token",
        "new_password",
        "absence",
        "channel",
    )  # covered by the tests of their pages
    settings = {name for name in names if name and any(word in name for word in of_settings)}
    writes = {"settle_hold", "propose_answer", "accept_proposal", "dismiss_proposal",
              "look_up_reference", "assign_hold", "note_hold", "check_hold", "reveal_event", "add_note",
              "check_step", "cancel", "withdraw", "reveal", "reveal_evidence", "pause_destination", "resume_destination",
              "select_waiting", "select_all_waiting",
              "inbox_assign", "inbox_check", "decide_approval", "reveal_approval", "propose_version", "reveal_text",
              "decide_request", "reveal_request", "pause_replay", "resume_replay", "abort_replay",
              "note_incident", "take_incident", "check_incident", "select_incident",
              "select_ticked", "select_view", "begin_bulk_run", "abort_bulk_run",
              "keep_list", "read_list", "apply_list", "keep_statement",
              "rename_view", "move_view", "rule", "move_rule", "remove_rule"}  # fmt: skip
    elsewhere = {"remove_view", "presence"}  # in test_saved_views and test_presence
    assert names - settings == pages | writes | elsewhere
