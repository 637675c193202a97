"""The only writers of people, teams, memberships and tokens.

Each action is one transaction. It locks the people's rows before the teams' rows, each in the order of their
ids, so that naming a fallback owner and deactivating that person can't cross.
"""

from __future__ import annotations

import secrets
import zoneinfo
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email, validate_slug
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from opsledger.accounts import tokens
from opsledger.accounts.models import ApiToken, Membership, Person, Team, Theme
from opsledger.accounts.permissions import AUTOMATION_SCOPES, PERSONAL_SCOPES, Role, Scope, Via
from opsledger.accounts.roles import roles_of
from opsledger.journal.actor import current_actor
from opsledger.journal.append import Line, append, body


class Refused(Exception):
    """The change was not made. The message says why and what to do, for people; `field` names the input."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


# People


def add_person(
    *, email: str, display_name: str, password: str | None = None, time_zone: str = "UTC"
) -> Person:
    """A new person. Without a password nobody can sign in until `set_temporary_password` was called."""
    person = Person(
        email=_email(email), display_name=_name(display_name, "display_name"), time_zone=_zone(time_zone)
    )
    if password is None:
        person.set_unusable_password()
    else:
        check_password_strength(person, password)
        person.set_password(password)
    try:
        with transaction.atomic():
            person.save(force_insert=True)
    except IntegrityError as why:
        raise Refused(
            _("There is already a person with the address %(email)s.") % {"email": person.email}, "email"
        ) from why
    return person


@transaction.atomic
def set_temporary_password(person: Person) -> str:
    """A new random password, returned once, to be changed at the next sign-in. Ends the person's sessions."""
    text = "-".join(secrets.token_hex(2) for _part in range(5))
    person.set_password(text)
    person.must_change_password = True
    person.save(update_fields=["password", "must_change_password"])
    _note(_teams_of(person), "temporary_password_set", person=person)
    return text


@transaction.atomic
def set_own_password(person: Person, password: str) -> None:
    check_password_strength(person, password)
    person.set_password(password)
    person.must_change_password = False
    person.save(update_fields=["password", "must_change_password"])


def check_password_strength(person: Person, password: str) -> None:
    try:
        validate_password(password, person)
    except ValidationError as why:
        raise Refused(" ".join(why.messages), "password") from why


def change_profile(
    person: Person, *, display_name: str, time_zone: str, theme: str, shortcuts_on: bool
) -> None:
    person.display_name, person.time_zone = _name(display_name, "display_name"), _zone(time_zone)
    person.theme, person.shortcuts_on = _theme(theme), shortcuts_on
    person.save(update_fields=["display_name", "time_zone", "theme", "shortcuts_on"])


def choose_theme(person: Person, theme: str) -> None:
    person.theme = _theme(theme)
    person.save(update_fields=["theme"])


@transaction.atomic
def deactivate_person(person: Person) -> None:
    """Ends sign-in, sessions and tokens of a person; the name stays on what was decided.

    1. Locks the person, then the person's teams.
    2. Refused while the person is a team's fallback owner or its last admin: a successor comes first.
    3. Revokes the person's tokens.
    """
    _locked_people([person.pk])
    teams = _locked_teams_of(person)
    name = person.display_name
    for team in teams:
        if team.fallback_owner_id == person.pk:
            raise Refused(
                _("%(name)s is the fallback owner of %(team)s. Name a successor there first.")
                % {"name": name, "team": team.name}
            )
        if _is_last_admin(person, team):
            raise Refused(_last_admin(person, team))
    Person.objects.filter(pk=person.pk, is_active=True).update(is_active=False)
    ApiToken.objects.filter(person=person, revoked_at__isnull=True).update(revoked_at=Now())
    person.is_active = False
    _note(teams, "person_deactivated", person=person)
    transaction.on_commit(tokens.forget_all)


@transaction.atomic
def reactivate_person(person: Person) -> None:
    if Person.objects.filter(pk=person.pk, is_active=False).update(is_active=True):
        _note(_teams_of(person), "person_reactivated", person=person)
    person.is_active = True


# Teams


@transaction.atomic
def add_team(*, slug: str, name: str, fallback_owner: Person, also: Collection[Role] = ()) -> Team:
    """A new team. Its fallback owner gets the role owner, and the roles in `also`."""
    owner = _active(_locked_people([fallback_owner.pk])[0])
    try:
        with transaction.atomic():
            team = Team.objects.create(slug=_slug(slug), name=_name(name, "name"), fallback_owner=owner)
    except IntegrityError as why:
        raise Refused(_("There is already a team “%(slug)s”.") % {"slug": slug}, "slug") from why
    _note([team], "team_added", fallback_owner=str(owner.pk))
    for role in (Role.OWNER, *also):
        _grant(owner, team, role)
    return team


@transaction.atomic
def change_team(team: Team, *, name: str, fallback_owner: Person) -> UUID:
    """Name and fallback owner, who must be active and have the role owner in the team. Returns who was it before."""
    person = _active(_locked_people([fallback_owner.pk])[0])
    locked = _locked_team(team)
    if Role.OWNER not in roles_of(person, team):
        raise Refused(
            _("%(name)s does not have the role owner in %(team)s. Give it first.")
            % {"name": person.display_name, "team": team.name},
            "fallback_owner",
        )
    former = locked.fallback_owner_id
    locked.name, locked.fallback_owner = _name(name, "name"), person
    locked.save(update_fields=["name", "fallback_owner"])
    _note([locked], "team_changed", fallback_owner=str(person.pk))
    team.name, team.fallback_owner = locked.name, person
    return former


# Roles


@transaction.atomic
def add_member(
    *, email: str, display_name: str, team: Team, roles: Collection[Role]
) -> tuple[Person, str | None]:
    """Somebody new, with a temporary password to show once; or somebody known, who keeps theirs."""
    if not roles:
        raise Refused(_("Choose at least one role."), "roles")
    person, text = Person.objects.filter(email=_email(email)).first(), None
    if person is None:
        person = add_person(email=email, display_name=display_name)
        text = set_temporary_password(person)
    for role in roles:
        grant_role(person, team, role)
    return person, text


@transaction.atomic
def grant_role(person: Person, team: Team, role: Role) -> None:
    """Gives a role; giving it twice changes nothing."""
    _active(_locked_people([person.pk])[0])
    _grant(person, team, role)


@transaction.atomic
def set_roles(person: Person, team: Team, roles: Collection[Role]) -> None:
    """The person's roles in the team, exactly these; none removes the person from the team.

    Refused when the team's fallback owner would no longer be an owner, or no active admin would be left.
    """
    _locked_people([person.pk])
    locked, wanted = _locked_team(team), {Role(role) for role in roles}
    if locked.fallback_owner_id == person.pk and Role.OWNER not in wanted:
        raise Refused(
            _("%(name)s is the fallback owner of %(team)s, so stays an owner. Name a successor first.")
            % {"name": person.display_name, "team": team.name}
        )
    if Role.ADMIN not in wanted and _is_last_admin(person, team):
        raise Refused(_last_admin(person, team))
    lost = Membership.objects.filter(person=person, team=team).exclude(role__in=[r.value for r in wanted])
    taken = sorted(lost.values_list("role", flat=True))
    lost.delete()
    if taken:
        _note([team], "roles_taken", person=person, roles=taken)
    for role in sorted(wanted):
        _grant(person, team, role)
    transaction.on_commit(tokens.forget_all)


def _grant(person: Person, team: Team, role: Role) -> None:
    had = Membership.objects.filter(person=person, team=team, role=role.value).exists()
    Membership.objects.bulk_create(
        [Membership(person=person, team=team, role=role.value)], ignore_conflicts=True
    )
    if not had:
        _note([team], "role_granted", person=person, roles=[role.value])


def _last_admin(person: Person, team: Team) -> str:
    return _("%(name)s is the last admin of %(team)s. Make somebody else an admin first.") % {
        "name": person.display_name,
        "team": team.name,
    }


def _is_last_admin(person: Person, team: Team) -> bool:
    admins = Membership.objects.filter(team=team, role=Role.ADMIN.value, person__is_active=True)
    return admins.filter(person=person).exists() and not admins.exclude(person=person).exists()


# Tokens


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token and its text. The text exists here only: show it once."""

    token: ApiToken
    text: str


def create_token(
    *,
    team: Team,
    name: str,
    scopes: Collection[Scope | str],
    person: Person | None = None,
    expires_at: datetime | None = None,
) -> NewToken:
    """An automation's token, or with `person` that person's own, which has to expire."""
    text, kind = tokens.new_text(), Via.PERSONAL if person else Via.AUTOMATION
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused(_("The token would have expired already."), "expires_at")
    if person is not None and expires_at is None:
        raise Refused(_("A personal token needs a date on which it expires."), "expires_at")
    if person is not None and not roles_of(person, team):
        raise Refused(
            _("%(name)s has no role in %(team)s.") % {"name": person.display_name, "team": team.name},
            "person",
        )
    token = ApiToken(
        team=team,
        name=_name(name, "name"),
        kind=kind.value,
        person=person,
        scopes=_scopes(scopes, kind),
        text_sha256=tokens.digest(text),
        expires_at=expires_at,
    )
    try:
        with transaction.atomic():
            token.save(force_insert=True)
            _note([team], "token_made", token=str(token.pk), token_kind=kind.value, scopes=token.scopes)
    except IntegrityError as why:
        raise Refused(
            _("%(team)s already has a live token named “%(name)s”. Choose another name.")
            % {"team": team.name, "name": name},
            "name",
        ) from why
    return NewToken(token, text)


@transaction.atomic
def revoke_token(token: ApiToken) -> bool:
    """Ends a token for good; False when it was revoked before. Other processes follow within five seconds."""
    changed = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if changed:
        _note([token.team], "token_revoked", token=str(token.pk))
    transaction.on_commit(tokens.forget_all)
    return bool(changed)


def _scopes(scopes: Collection[Scope | str], kind: Via) -> list[str]:
    fitting = PERSONAL_SCOPES if kind is Via.PERSONAL else AUTOMATION_SCOPES
    wrong = sorted(str(scope) for scope in scopes if scope not in {s.value for s in fitting})
    if wrong:
        names = ", ".join(scope.value for scope in fitting)
        raise Refused(
            _("%(wrong)s: not a scope of a token of this kind. Choose from: %(names)s.")
            % {"wrong": ", ".join(wrong), "names": names},
            "scopes",
        )
    if not scopes:
        raise Refused(_("Choose at least one scope."), "scopes")
    return [scope.value for scope in fitting if scope in set(scopes)]


# Journal: one line per team that a change touches; ids only, names and addresses stay outside


def _note(teams: Collection[Team], kind: str, *, person: Person | None = None, **facts: object) -> None:
    about = {"person": str(person.pk)} if person else {}
    line, actor = body({**about, **facts}), current_actor()
    append(Line("team", team.pk, kind, actor, line) for team in teams)


def _teams_of(person: Person) -> list[Team]:
    return list(Team.objects.filter(memberships__person=person).distinct().order_by("pk"))


# What is given must be usable


def _locked_people(ids: Collection[UUID]) -> list[Person]:
    return list(Person.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk"))


def _locked_teams_of(person: Person) -> list[Team]:
    """The teams where the person has a role or is the fallback owner, locked in the order of their ids."""
    here = Q(pk__in=Membership.objects.filter(person=person).values("team")) | Q(fallback_owner=person)
    return list(Team.objects.select_for_update(no_key=True).filter(here).order_by("pk"))


def _locked_team(team: Team) -> Team:
    return Team.objects.select_for_update(no_key=True).get(pk=team.pk)


def _active(person: Person) -> Person:
    if not person.is_active:
        raise Refused(_("%(name)s is deactivated.") % {"name": person.display_name})
    return person


def _email(text: str) -> str:
    address = text.strip().lower()
    try:
        validate_email(address)
    except ValidationError as why:
        raise Refused(_("“%(text)s” is not an e-mail address.") % {"text": text}, "email") from why
    if len(address) > 254:
        raise Refused(_("The e-mail address is longer than 254 characters."), "email")
    return address


def _name(text: str, field: str) -> str:
    name = " ".join(text.split())
    if not name or len(name) > 80 or not name.isprintable():
        raise Refused(_("A name has 1 to 80 printable characters."), field)
    return name


def _slug(text: str) -> str:
    try:
        validate_slug(text)
    except ValidationError as why:
        raise Refused(_("The short name is made of letters, digits, “-” and “_”."), "slug") from why
    if len(text) > 50:
        raise Refused(_("The short name is longer than 50 characters."), "slug")
    return text


def _zone(text: str) -> str:
    if text not in zoneinfo.available_timezones():
        raise Refused(
            _("“%(text)s” is not a time zone that this machine knows, such as Europe/Paris.")
            % {"text": text},
            "time_zone",
        )
    return text


def _theme(text: str) -> str:
    if text not in Theme.values:
        raise Refused(_("A theme is system, light or dark."), "theme")
    return text
