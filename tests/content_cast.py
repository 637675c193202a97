"""Who proposes and decides in the tests of content: three owners, an operator, an automation; and how they do it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from people import person

from opsledger.accounts.actions import grant_role
from opsledger.accounts.models import Person
from opsledger.accounts.permissions import Role
from opsledger.ledger.actions.approve import Approved, settle_approval, settle_revision_approval
from opsledger.ledger.actions.content import OpenedVersion
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.reject import Rejected, settle_rejection
from opsledger.ledger.models import ContentVersion, Hold
from opsledger.ledger.queries.content import Version, covered, covered_revision, version_of
from tests.desk import AUTOMATION, Desk


@dataclass
class Cast:
    """The desk's team: `anna`, `bert` and `carl` are owners, `opal` is an operator."""

    desk: Desk
    anna: By
    bert: By
    carl: By
    opal: By

    def propose(self, text: str, by: By | None = None) -> OpenedVersion:
        by = by or self.anna
        return self.desk.propose(by, author=email(by), text=text)

    def version(self, opened: OpenedVersion | UUID) -> Version:
        found = version_of(opened if isinstance(opened, UUID) else opened.id, [self.desk.team.pk])
        assert found is not None
        return found

    def newest(self) -> Version:
        return self.version(ContentVersion.objects.filter(team=self.desk.team).latest("number").pk)

    def approve(self, version: Version, by: By, **changed: object) -> Approved:
        wanted = {"covered_digest": covered(version).digest, "version": version.version, "by": by} | changed
        return settle_approval(version.id, **wanted)  # type: ignore[arg-type]

    def reject(self, version: Version, by: By, *returns: Opened, **changed: object) -> Rejected:
        wanted = {
            "covered_digest": covered(version).digest,
            "version": version.version,
            "by": by,
            "reason": "not so",
            "returns": [one.id for one in returns],
        }
        return settle_rejection(version.id, **(wanted | changed))  # type: ignore[arg-type]

    def approve_revision(self, opened: Opened, by: By, number: int = 1) -> Approved:
        step = self.desk.step(opened, number)
        shown = covered_revision(step.pk)
        assert shown is not None
        return settle_revision_approval(step.pk, step.revision, covered_digest=shown.digest, by=by)


def hold_of(opened: Opened) -> Hold:
    return Hold.objects.get(operation_id=opened.id, closed_at=None)


def email(by: By) -> str:
    return Person.objects.get(pk=by.person_id).email


def member(desk: Desk, name: str, role: Role) -> By:
    made = person(name)
    grant_role(made, desk.team, role)
    return By(f"person:{made.pk}", made.display_name, made.pk)


def make_cast(desk: Desk) -> Cast:
    owners = [member(desk, name, Role.OWNER) for name in ("Anna", "Bert", "Carl")]
    return Cast(desk, *owners, member(desk, "Opal", Role.OPERATOR))


__all__ = ["AUTOMATION", "Cast", "email", "hold_of", "make_cast", "member"]
