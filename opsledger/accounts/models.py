"""People, teams, who has which role where, and API tokens. Written by `actions` only."""

from __future__ import annotations

import zoneinfo

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now
from django.utils.translation import gettext_lazy

from opsledger.accounts.permissions import AUTOMATION_SCOPES, PERSONAL_SCOPES, Role, Scope, Via
from opsledger.lib.ids import new_id


class Theme(models.TextChoices):
    SYSTEM = "system", gettext_lazy("System")
    LIGHT = "light", gettext_lazy("Light")
    DARK = "dark", gettext_lazy("Dark")


class People(BaseUserManager["Person"]):
    def get_by_natural_key(self, username: str | None) -> Person:
        """By e-mail address, whatever its case; addresses are kept in lower case."""
        return self.get(email=(username or "").strip().lower())


class Person(AbstractBaseUser):
    """Somebody who signs in. Never deleted: decisions carry their name."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = models.EmailField(gettext_lazy("e-mail address"), max_length=254, unique=True)
    display_name = models.CharField(max_length=80)
    time_zone = models.CharField(max_length=64, default="UTC")
    theme = models.CharField(max_length=8, choices=Theme, default=Theme.SYSTEM)
    shortcuts_on = models.BooleanField(default=True)
    must_change_password = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["display_name"]
    objects = People()

    class Meta:
        db_table = "person"
        constraints = [
            models.CheckConstraint(condition=Q(email=Lower("email")), name="person_email_is_lower_case"),
            models.CheckConstraint(condition=~Q(display_name=""), name="person_has_a_name"),
            models.CheckConstraint(condition=Q(theme__in=Theme.values), name="person_theme_is_known"),
        ]

    def __str__(self) -> str:
        return self.display_name

    @property
    def initials(self) -> str:
        return initials_of(self.display_name)

    @property
    def zone(self) -> zoneinfo.ZoneInfo:
        """The person's time zone; UTC when this machine no longer knows the stored one."""
        try:
            return zoneinfo.ZoneInfo(self.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            return zoneinfo.ZoneInfo("UTC")


def initials_of(name: str) -> str:
    """Two letters: of the first and the last word, or the only word's first two."""
    words = name.split()
    if not words:
        return ""
    return (words[0][0] + words[-1][0] if len(words) > 1 else words[0][:2]).upper()


class Team(models.Model):
    """Everything in the ledger belongs to one team; other teams' things do not exist for a person."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=50, unique=True)
    name = models.CharField(max_length=80)
    fallback_owner = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="fallback_of")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "team"
        ordering = ["name", "id"]
        constraints = [models.CheckConstraint(condition=~Q(name="") & ~Q(slug=""), name="team_has_a_name")]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One role of one person in one team; a person may have several."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=8, choices=[(role.value, role.name.title()) for role in Role])
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "membership"
        constraints = [
            models.UniqueConstraint(
                fields=["person", "team", "role"], name="person_has_each_role_once_in_a_team"
            ),
            models.CheckConstraint(
                condition=Q(role__in=[role.value for role in Role]), name="membership_role_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.person_id} is {self.role} in {self.team_id}"


class Absence(models.Model):
    """A person is away from a team for a while, and a deputy gets what would go to them. It ends by itself."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="absences")
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="absences")
    deputy = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="stands_in")
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()  # no longer away from this moment on
    made_at = models.DateTimeField(db_default=Now())
    called_off_at = models.DateTimeField(null=True)  # ended by a person, before its time

    class Meta:
        db_table = "absence"
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("begins_at")), name="absence_ends_after_it_begins"
            ),
            models.CheckConstraint(condition=~Q(deputy=F("person")), name="nobody_stands_in_for_themselves"),
            models.UniqueConstraint(
                fields=["team", "person", "begins_at"],
                condition=Q(called_off_at__isnull=True),
                name="absence_begins_once_at_a_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["team", "ends_at"], condition=Q(called_off_at__isnull=True), name="absence_by_end"
            )
        ]

    def __str__(self) -> str:
        return f"{self.person_id} is away until {self.ends_at}"


# Plain strings: migrations keep them, whatever becomes of the enumerations.
AUTOMATION, PERSONAL = Via.AUTOMATION.value, Via.PERSONAL.value


class ApiToken(models.Model):
    """A bearer token of the HTTP API. Only the SHA-256 of its text is kept; the text is shown once."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=10, choices=[(AUTOMATION, AUTOMATION), (PERSONAL, PERSONAL)])
    person = models.ForeignKey(Person, on_delete=models.PROTECT, null=True, related_name="tokens")
    scopes = ArrayField(models.CharField(max_length=10))
    text_sha256 = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "api_token"
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="token_has_a_name"),
            models.CheckConstraint(
                condition=Q(kind=PERSONAL, person__isnull=False) | Q(kind=AUTOMATION, person__isnull=True),
                name="token_has_a_person_iff_personal",
            ),
            models.CheckConstraint(
                condition=Q(kind=PERSONAL, expires_at__isnull=False) | Q(kind=AUTOMATION),
                name="personal_token_expires",
            ),
            models.CheckConstraint(
                condition=Q(kind=PERSONAL, scopes__contained_by=[scope.value for scope in PERSONAL_SCOPES])
                | Q(kind=AUTOMATION, scopes__contained_by=[scope.value for scope in AUTOMATION_SCOPES]),
                name="token_scopes_fit_its_kind",
            ),
            models.CheckConstraint(condition=Q(scopes__len__gt=0), name="token_has_a_scope"),
            models.CheckConstraint(
                condition=Q(expires_at__isnull=True) | Q(expires_at__gt=F("created_at")),
                name="token_expires_after_it_was_made",
            ),
            models.UniqueConstraint(
                fields=["team", "name"],
                condition=Q(revoked_at__isnull=True),
                name="live_token_name_is_unique_in_its_team",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"

    @property
    def via(self) -> Via:
        return Via(self.kind)

    @property
    def scope_set(self) -> frozenset[Scope]:
        return frozenset(Scope(scope) for scope in self.scopes)
