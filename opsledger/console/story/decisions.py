"""What people answered, proposed and did."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.duplicates import extra_records
from opsledger.console.story.items import Item, quotes
from opsledger.console.story.telling import Telling
from opsledger.console.wording import answers
from opsledger.console.wording.phrases import listed
from opsledger.ledger.queries.timeline import Told
from opsledger.lib import ids


def answered(telling: Telling, entry: Told) -> Item:
    answer = str(entry.body.get("answer", ""))
    title = _("%(name)s answered: %(answer)s") % {
        "name": telling.name(entry.actor),
        "answer": answers.given(answer),
    }
    facts = []
    if entry.body.get("proposed_by"):
        facts.append((_("Proposed by"), telling.name(str(entry.body["proposed_by"]))))
    if entry.body.get("reference"):
        facts.append((_("Reference"), str(entry.body["reference"])))
        compared = _("Field by field") if entry.body.get("compared") else _("Nothing was compared")
        facts.append((_("Compared"), compared))
    if entry.body.get("list"):
        facts.append((_("List"), ids.public("lst", UUID(str(entry.body["list"])))))
        facts.append((_("Line"), str(entry.body.get("line", ""))))
    if entry.body.get("revision"):
        facts.append((_("Revision"), str(entry.body["revision"])))
    if entry.body.get("changed"):
        facts.append((_("Changed"), ", ".join(str(one) for one in entry.body["changed"])))
    if entry.body.get("content_number"):
        facts.append((_("Content version"), str(entry.body["content_number"])))
    if entry.body.get("tries"):
        facts.append((_("Tries"), str(entry.body["tries"])))
    return Item(
        entry.at,
        "user",
        title,
        about="decisions",
        state="held",
        quotes=_answer_quotes(telling, entry),
        facts=tuple(facts),
        key=str(entry.seq),
    )


def _answer_quotes(telling: Telling, entry: Told) -> tuple[tuple[str, str], ...]:
    """The texts of an answer; those about records that were not kept name the record."""
    plain = replace(entry, texts={n: t for n, t in entry.texts.items() if not n.startswith("other_")})
    others = []
    for number, (reference, digest) in enumerate(extra_records(telling.view, entry)):
        text = entry.texts.get(f"other_{number}")
        label = _("Record %(record)s, not kept") % {"record": reference or f"{digest[:12]}…"}
        others.append((label, text if text is not None else _("(erased)")))
    return (*quotes(plain), *others)


def proposed(telling: Telling, entry: Told) -> Item:
    title = _("%(name)s proposed: %(answer)s") % {
        "name": telling.name(entry.actor),
        "answer": answers.given(str(entry.body.get("answer", ""))),
    }
    reference = entry.body.get("reference")
    shown = ((_("Reference"), str(reference)),) if reference else ()
    model = entry.body.get("proposal_author") == "model"
    text = _("A model’s proposal, which is no evidence.") if model else ""
    return Item(
        entry.at, "user", title, about="decisions", text=text, quotes=quotes(entry), facts=shown, key=str(entry.seq)
    )  # fmt: skip


def proposal_ended(telling: Telling, entry: Told) -> Item:
    template = (
        _("%(name)s took the proposal back: %(answer)s")
        if entry.kind == "proposal_withdrawn"
        else _("%(name)s dismissed the proposal: %(answer)s")
    )
    answer = answers.given(str(entry.body.get("answer", "")))
    title = template % {"name": telling.name(entry.actor), "answer": answer}
    return Item(entry.at, "user", title, about="decisions", quotes=quotes(entry), key=str(entry.seq))


def by_person(telling: Telling, entry: Told) -> Item:
    title = _(_PERSON[entry.kind]) % {"name": telling.name(entry.actor)}
    about = "lookups" if entry.kind == "check_requested" else "decisions"
    return Item(entry.at, "user", title, about=about, quotes=quotes(entry), key=str(entry.seq))


_PERSON = {
    "cancel_requested": noop("%(name)s cancelled the operation"),
    "withdrawn": noop("%(name)s took the answer back"),
    "check_requested": noop("%(name)s asked for a check"),
    "revealed": noop("%(name)s looked at masked values"),
}


def replayed(telling: Telling, entry: Told) -> Item:
    """A replay has begun steps of this operation; what became of them stands in their own entries."""
    numbers = [str(number) for number in entry.body.get("steps_begun", [])]
    title = _("%(name)s’s replay began step %(steps)s") % {
        "name": telling.name(entry.actor),
        "steps": listed(numbers),
    }
    rebound = [
        _("step %(step)s with definition version %(version)s") % {"step": step, "version": version}
        for step, version in sorted((entry.body.get("rebound") or {}).items())
    ]
    text = _("By choice: %(what)s.") % {"what": listed(rebound)} if rebound else ""
    shown = [(_("Replay"), ids.public("rpl", UUID(str(entry.body["replay"]))))]
    if entry.body.get("statement"):
        shown.append((_("Provider’s statement"), ids.public("stm", UUID(str(entry.body["statement"])))))
    return Item(
        entry.at, "n-replays", title, about="decisions", text=text, quotes=quotes(entry), facts=tuple(shown),
        key=str(entry.seq),
    )  # fmt: skip


def noted(telling: Telling, entry: Told) -> Item:
    title = _("%(name)s wrote a note") % {"name": telling.name(entry.actor)}
    return Item(entry.at, "pen", title, quotes=quotes(entry), key=str(entry.seq))
