"""Who may do what: the table in code is the table of the contract."""

import pytest

from opsledger.accounts.permissions import (
    AUTOMATION_SCOPES,
    GRANTED_TO,
    PERSONAL_SCOPES,
    SCOPE_GRANTS,
    WORDS,
    Scope,
    granted_by,
)
from opsledger.accounts.roles import Permission, Role, Via, allowed

# Columns: viewer, operator, owner, admin.
TABLE = """
view                yes yes yes yes
assign              -   yes yes yes
note                -   yes yes -
still_unknown       -   yes yes -
check_now           -   yes yes -
propose             -   yes yes -
pause_destination   -   yes yes -
settle              -   -   yes -
withdraw            -   -   yes -
close_unknown       -   -   yes -
cancel              -   -   yes -
approve_content     -   -   yes -
plan_replay         -   -   yes -
start_replay        -   -   yes -
reveal              -   -   yes -
resume_destination  -   -   yes yes
administer          -   -   -   yes
enable_recovery     -   -   yes -
read_audit          yes yes yes yes
share_view          -   yes yes yes
set_rules           -   -   yes yes
record              -   -   -   -
claim               -   -   -   -
report              -   -   -   -
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]
DECISIONS = ["settle", "approve_content", "cancel", "start_replay", "enable_recovery"]


def test_the_table_has_every_permission_once() -> None:
    assert [row[0] for row in ROWS] == [permission.value for permission in sorted(Permission, key=_place)]
    assert set(GRANTED_TO) == set(WORDS) == set(Permission)


def _place(permission: Permission) -> int:
    return [row[0] for row in ROWS].index(permission.value)


@pytest.mark.parametrize("via", [Via.SESSION, Via.PERSONAL])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_role_gives_exactly_what_the_contract_says(row: list[str], via: Via) -> None:
    given = {role: "yes" if allowed([role], Permission(row[0]), via) else "-" for role in Role}
    assert list(given.values()) == row[1:]


def test_several_roles_give_what_any_of_them_gives() -> None:
    assert allowed({Role.VIEWER, Role.OWNER}, Permission.SETTLE)
    assert not allowed({Role.VIEWER, Role.ADMIN}, Permission.SETTLE)


def test_nobody_without_a_role_may_do_anything() -> None:
    assert not any(allowed([], permission) for permission in Permission)


@pytest.mark.parametrize("permission", DECISIONS)
def test_a_decision_needs_a_person(permission: str) -> None:
    assert not allowed(list(Role), Permission(permission), Via.AUTOMATION)
    assert allowed([Role.OWNER], Permission(permission), Via.PERSONAL)


def test_an_automation_records_claims_reports_proposes_and_reads() -> None:
    may = {permission.value for permission in Permission if allowed([], permission, Via.AUTOMATION)}
    assert may == {"record", "claim", "report", "propose", "view"}


def test_every_permission_has_a_scope_that_lets_it_through() -> None:
    assert granted_by(list(Scope)) == set(Permission)


def test_a_scope_of_automations_lets_no_decision_through() -> None:
    assert granted_by(AUTOMATION_SCOPES).isdisjoint(Permission(name) for name in DECISIONS)
    assert set(SCOPE_GRANTS) == set(AUTOMATION_SCOPES) | set(PERSONAL_SCOPES)
