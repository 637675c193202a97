"""The console's addresses, by page."""

from django.urls import path

from opsledger.console.views import (
    accounts,
    answer_proposals,
    approval_requests,
    approvals,
    audit,
    destinations,
    holds,
    inbox,
    operation,
    operations,
    proposals,
    replays,
    settings,
)

urlpatterns = [
    # the inbox
    path("", inbox.inbox_page, name="inbox"),
    path("inbox/news/", inbox.inbox_news, name="inbox_news"),
    path("inbox/assign/", inbox.assign, name="inbox_assign"),
    path("inbox/check/", inbox.check_now, name="inbox_check"),
    # one hold
    path("holds/<str:hold>/", holds.hold_page, name="hold"),
    path("holds/<str:hold>/settle", holds.settle, name="settle_hold"),
    path("holds/<str:hold>/propose", answer_proposals.propose, name="propose_answer"),
    path("proposals/<str:proposal>/accept", answer_proposals.accept, name="accept_proposal"),
    path("proposals/<str:proposal>/dismiss", answer_proposals.dismiss, name="dismiss_proposal"),
    path("holds/<str:hold>/look-up", holds.look_up, name="look_up_reference"),
    path("holds/<str:hold>/watch", holds.watch, name="hold_watch"),
    path("holds/<str:hold>/assign", holds.assign, name="assign_hold"),
    path("holds/<str:hold>/reveal", holds.reveal_event, name="reveal_event"),
    path("holds/<str:hold>/note", holds.note, name="note_hold"),
    path("holds/<str:hold>/check", holds.check, name="check_hold"),
    # operations
    path("operations/", operations.operations_page, name="operations"),
    path("operations/<str:operation>/", operation.operation_page, name="operation"),
    path("operations/<str:operation>/notes", operation.add_note, name="add_note"),
    path("operations/<str:operation>/cancel", operation.cancel, name="cancel"),
    path("operations/<str:operation>/reveal", operation.reveal, name="reveal"),
    path("operations/<str:operation>/evidence-file", operation.evidence_download, name="evidence_file"),
    path("operations/<str:operation>/steps/<int:step>/check", operation.check_step, name="check_step"),
    path("operations/<str:operation>/steps/<int:step>/withdraw", operation.withdraw, name="withdraw"),
    path("operations/<str:operation>/evidence/<str:evidence>/", operation.evidence_page, name="evidence"),
    path(
        "operations/<str:operation>/evidence/<str:evidence>/reveal",
        operation.reveal_evidence,
        name="reveal_evidence",
    ),
    # approvals
    path("approvals/", approvals.approvals_page, name="approvals"),
    path("approvals/holds/<str:hold>/", approvals.approval_of_hold, name="approval_of_hold"),
    path("approvals/requests/<str:step>/", approval_requests.request_page, name="approval_of_request"),
    path("approvals/requests/<str:step>/decide", approval_requests.decide_request, name="decide_request"),
    path("approvals/requests/<str:step>/reveal", approval_requests.reveal_request, name="reveal_request"),
    path("approvals/<str:version>/", approvals.approval_page, name="approval"),
    path("approvals/<str:version>/decide", approvals.decide, name="decide_approval"),
    path("approvals/<str:version>/reveal", approvals.reveal, name="reveal_approval"),
    path("approvals/<str:version>/propose/", proposals.propose_page, name="propose"),
    path("approvals/<str:version>/propose/reveal", proposals.reveal_text, name="reveal_text"),
    path("approvals/<str:version>/propose/version", proposals.propose, name="propose_version"),
    # replays
    path("replays/", replays.replays_page, name="replays"),
    path("replays/plan/", replays.plan_page, name="plan_replay"),
    path("replays/plan/holds", replays.plan_of_holds, name="plan_replay_of_holds"),
    path("replays/plan/file", replays.plan_file, name="plan_file"),
    path("replays/start", replays.start, name="start_replay"),
    path("replays/<str:replay>/", replays.replay_page, name="replay"),
    path("replays/<str:replay>/progress", replays.progress, name="replay_progress"),
    path("replays/<str:replay>/report.csv", replays.report, name="replay_report"),
    path("replays/<str:replay>/pause", replays.pause, name="pause_replay"),
    path("replays/<str:replay>/resume", replays.resume, name="resume_replay"),
    path("replays/<str:replay>/abort", replays.abort, name="abort_replay"),
    # destinations and the journal
    path("destinations/", destinations.destinations_page, name="destinations"),
    path("destinations/<str:destination>/pause", destinations.pause, name="pause_destination"),
    path("destinations/holds/<str:hold>/resume", destinations.resume, name="resume_destination"),
    path("audit/", audit.audit_page, name="audit"),
    # signing in
    path("accounts/login/", accounts.sign_in, name="login"),
    path("accounts/logout/", accounts.sign_out, name="logout"),
    path("accounts/session/", accounts.session_state, name="session_state"),
    # settings
    path("settings/", settings.index, name="settings"),
    path("settings/profile/", settings.profile, name="profile"),
    path("settings/password/", accounts.password, name="password"),
    path("settings/theme/", settings.choose_theme, name="choose_theme"),
    path("settings/team/", settings.choose_team, name="choose_team"),
    path("settings/permissions/", settings.my_permissions, name="my_permissions"),
    path("settings/people/", settings.people, name="people"),
    path("settings/people/add/", settings.add_person, name="add_person"),
    path("settings/people/<uuid:person_id>/", settings.person, name="person"),
    path(
        "settings/people/<uuid:person_id>/deactivate/", settings.deactivate_person, name="deactivate_person"
    ),
    path(
        "settings/people/<uuid:person_id>/reactivate/", settings.reactivate_person, name="reactivate_person"
    ),
    path("settings/people/<uuid:person_id>/password/", settings.new_password, name="new_password"),
    path("settings/teams/", settings.teams, name="teams"),
    path("settings/teams/change/", settings.change_team, name="change_team"),
    path("settings/teams/add/", settings.add_team, name="add_team"),
    path("settings/tokens/", settings.tokens, name="tokens"),
    path("settings/tokens/add/", settings.add_token, name="add_token"),
    path("settings/tokens/<uuid:token_id>/revoke/", settings.revoke_token, name="revoke_token"),
    path("states/", settings.states, name="states"),
]
