"""The console's addresses, by page."""

from django.urls import path

from opsledger.console.views import accounts, settings

urlpatterns = [
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
