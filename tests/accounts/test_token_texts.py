"""A bearer token: shown once, kept as a hash, found quickly, ended at once."""

import re
from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.utils import timezone
from people import Cast

from opsledger.accounts import actions, tokens
from opsledger.accounts.models import ApiToken
from opsledger.accounts.roles import Permission, Role


def _later(days: int = 30) -> datetime:
    return timezone.now() + timedelta(days=days)


def _flow(cast: Cast, **more: object) -> actions.NewToken:
    wanted: dict[str, object] = {"team": cast.launch, "name": "order flow", "scopes": ["record", "read"]}
    return actions.create_token(**(wanted | more))  # type: ignore[arg-type]


def test_a_token_is_found_by_its_text_and_the_text_is_not_kept(cast: Cast) -> None:
    made = _flow(cast)
    assert re.fullmatch(r"opl_[A-Za-z0-9_-]{43}", made.text)
    assert tokens.find(made.text) == tokens.find(made.text.encode()) == made.token
    stored = ApiToken.objects.values_list().get(pk=made.token.pk)
    assert not any(made.text in str(value) or made.text[4:] in str(value) for value in stored)
    assert len(ApiToken.objects.get().text_sha256) == 32


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "opl_",
        "opl_" + "a" * 43,
        "opl_" + "a" * 42 + "é",
        b"opl_" + b"\xff" * 43,
        "x" * 100_000,
        b"\x00",
        "opl_\n",
    ],
    ids=["empty", "prefix", "unknown", "not ascii", "not utf-8", "long", "nul", "line break"],
)
def test_anything_else_is_no_token(cast: Cast, wrong: str | bytes) -> None:
    _flow(cast)
    assert tokens.find(wrong) is None


def test_a_token_with_something_behind_it_is_no_token(cast: Cast) -> None:
    text = _flow(cast).text
    assert tokens.find(text + "\n") is None
    assert tokens.find(" " + text) is None
    assert tokens.find(text.upper()) is None


def test_a_revoked_token_stops_here_at_once(cast: Cast, django_capture_on_commit_callbacks: object) -> None:
    made, neighbour = _flow(cast), _flow(cast, name="other flow")
    assert tokens.find(made.text)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        assert actions.revoke_token(made.token)
    assert tokens.find(made.text) is None
    assert tokens.find(neighbour.text)
    assert not actions.revoke_token(made.token)


def test_a_token_revoked_elsewhere_stops_within_the_caches_seconds(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(tokens.time, "monotonic", lambda: clock[0])
    made = _flow(cast)
    assert tokens.find(made.text)
    ApiToken.objects.update(revoked_at=timezone.now())
    clock[0] += tokens.CACHE_SECONDS + 0.1
    assert tokens.CACHE_SECONDS <= 5
    assert tokens.find(made.text) is None


def test_a_hot_token_costs_no_query(cast: Cast, django_assert_num_queries: object) -> None:
    made = _flow(cast)
    tokens.find(made.text)
    with django_assert_num_queries(0):  # type: ignore[operator]
        found = tokens.find(made.text)
        assert found is not None
        assert found.team.slug == "launch"


def test_the_last_use_is_noted_once_a_minute(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(tokens.time, "monotonic", lambda: clock[0])
    made, unused = _flow(cast), _flow(cast, name="unused")
    tokens.find(made.text)
    first = ApiToken.objects.get(pk=made.token.pk).last_used_at
    assert first is not None
    clock[0] += 59
    tokens.find(made.text)
    assert ApiToken.objects.get(pk=made.token.pk).last_used_at == first

    ApiToken.objects.filter(pk=made.token.pk).update(last_used_at=first - timedelta(seconds=61))
    clock[0] += 2
    tokens.find(made.text)
    again = ApiToken.objects.get(pk=made.token.pk).last_used_at
    assert again is not None
    assert again > first - timedelta(seconds=61)
    assert ApiToken.objects.get(pk=unused.token.pk).last_used_at is None


def test_an_expired_token_is_no_token(cast: Cast) -> None:
    made = _flow(cast, expires_at=_later())
    assert tokens.find(made.text)
    tokens.forget_all()
    ApiToken.objects.update(
        created_at=timezone.now() - timedelta(days=2), expires_at=timezone.now() - timedelta(days=1)
    )
    assert tokens.find(made.text) is None


def test_a_personal_token_ends_with_the_person(cast: Cast) -> None:
    made = _flow(cast, person=cast.omar, scopes=["read"], expires_at=_later())
    assert tokens.find(made.text)
    tokens.forget_all()
    type(cast.omar).objects.filter(pk=cast.omar.pk).update(is_active=False)
    assert tokens.find(made.text) is None


def test_the_cache_does_not_grow_without_end(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "CACHED_TOKENS_MAX", 2)
    texts = [_flow(cast, name=f"flow {number}").text for number in range(5)]
    assert all(tokens.find(text) for text in texts)
    assert len(tokens._kept) <= 2


@pytest.mark.parametrize(
    ("scopes", "role", "permission", "allowed"),
    [
        (["decide"], Role.OWNER, Permission.SETTLE, True),
        (["decide"], Role.OPERATOR, Permission.SETTLE, False),
        (["read"], Role.OWNER, Permission.SETTLE, False),
        (["decide"], Role.OWNER, Permission.VIEW, False),
        (["read"], Role.VIEWER, Permission.VIEW, True),
    ],
)
def test_a_personal_token_does_what_scope_and_role_both_allow(
    cast: Cast, scopes: list[str], role: Role, permission: Permission, allowed: bool
) -> None:
    actions.set_roles(cast.omar, cast.launch, [role])
    made = _flow(cast, person=cast.omar, scopes=scopes, expires_at=_later())
    assert tokens.token_allows(made.token, permission) is allowed


def test_an_automations_token_does_what_its_scopes_say(cast: Cast) -> None:
    token = _flow(cast, scopes=["record"]).token
    assert tokens.token_allows(token, Permission.RECORD)
    assert not tokens.token_allows(token, Permission.VIEW)
    assert not tokens.token_allows(token, Permission.SETTLE)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["decide"]}, "scopes"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"name": "  "}, "name"),
        ({"expires_at": datetime.fromisoformat("2020-01-01T00:00:00+00:00")}, "expires_at"),
    ],
    ids=["no scope", "a person's scope", "unknown scope", "no name", "in the past"],
)
def test_a_token_that_makes_no_sense_is_refused(cast: Cast, wrong: dict[str, object], field: str) -> None:
    with pytest.raises(actions.Refused) as refused:
        _flow(cast, **wrong)
    assert refused.value.field == field
    assert not ApiToken.objects.exists()


def test_a_personal_token_expires_and_belongs_to_a_member(cast: Cast) -> None:
    with pytest.raises(actions.Refused, match="expires"):
        _flow(cast, person=cast.omar, scopes=["read"])
    with pytest.raises(actions.Refused, match="no role"):
        _flow(cast, person=cast.rita, scopes=["read"], expires_at=_later())


def test_a_name_is_free_again_after_revocation(cast: Cast) -> None:
    made = _flow(cast)
    with pytest.raises(actions.Refused, match="already"):
        _flow(cast)
    actions.revoke_token(made.token)
    assert _flow(cast).token.name == made.token.name


BROKEN_ROWS = {
    "token_has_a_person_iff_personal": {"kind": "personal", "expires_at": _later()},
    "token_scopes_fit_its_kind": {"scopes": ["decide"]},
    "token_has_a_scope": {"scopes": []},
    "token_has_a_name": {"name": ""},
    "token_expires_after_it_was_made": {"expires_at": datetime.fromisoformat("2020-01-01T00:00:00+00:00")},
}


@pytest.mark.parametrize("constraint", BROKEN_ROWS)
def test_the_database_refuses(cast: Cast, constraint: str) -> None:
    _flow(cast)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        ApiToken.objects.update(**BROKEN_ROWS[constraint])


def test_the_database_refuses_an_automation_with_a_person_and_a_personal_one_without_end(cast: Cast) -> None:
    made = _flow(cast, person=cast.omar, scopes=["read"], expires_at=_later())
    for change, constraint in (
        ({"kind": "automation"}, "token_has_a_person_iff_personal"),
        ({"expires_at": None}, "personal_token_expires"),
    ):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            ApiToken.objects.filter(pk=made.token.pk).update(**change)


def test_the_command_prints_the_token_once(cast: Cast) -> None:
    out, err = StringIO(), StringIO()
    call_command(
        "create_token", "flow", "--team=launch", "--scope=record", "--scope=read", stdout=out, stderr=err
    )
    found = tokens.find(out.getvalue().strip())
    assert found is not None
    assert (found.name, found.team, found.scopes) == ("flow", cast.launch, ["read", "record"])
    assert out.getvalue().strip() not in err.getvalue()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--team=nowhere", "--scope=read"], "There is no team “nowhere”. Teams: returns, launch."),
        (["--team=launch", "--scope=decide"], "not a scope of a token of this kind"),
        (["--team=launch", "--scope=read", "--person=ghost@example.test"], "There is no person"),
        (["--team=launch", "--scope=read", "--days=0"], "--days is a number"),
    ],
)
def test_the_command_says_what_is_wrong(cast: Cast, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=re.escape(said)):
        call_command("create_token", "flow", *arguments)


def test_the_first_person_and_team_come_from_a_command(db: None) -> None:
    out = StringIO()
    call_command(
        "create_person",
        "first@example.test",
        "--name=First",
        "--team=ops",
        "--team-name=Operations",
        "--role=admin",
        stdout=out,
        stderr=StringIO(),
    )
    from opsledger.accounts.models import Person, Team
    from opsledger.accounts.roles import roles_of

    first = Person.objects.get()
    assert first.check_password(out.getvalue().strip())
    assert first.must_change_password
    assert roles_of(first, Team.objects.get()) == {Role.ADMIN, Role.OWNER}


def test_a_person_for_an_unknown_team_is_not_made(db: None) -> None:
    from opsledger.accounts.models import Person

    with pytest.raises(CommandError, match="--team-name makes it"):
        call_command("create_person", "x@example.test", "--name=X", "--team=none", "--role=viewer")
    assert not Person.objects.exists()
