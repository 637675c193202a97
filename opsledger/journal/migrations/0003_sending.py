"""The switch for everything that leaves is a subject of the journal, with a chain of its own."""

import json
import secrets

from django.db import migrations, models

from opsledger.journal.hashing import text_digest
from opsledger.lib.ids import new_id

BEFORE = ("operation", "event", "destination", "replay", "team", "definition")
SINCE = (*BEFORE, "sending")
CONSTRAINTS = (
    ("chain", "journal_chain", "chain_subject_kind_is_known"),
    ("entry", "journal_entry", "entry_subject_kind_is_known"),
)


def _allow(kinds):
    """New rows first, in a moment; then those that are there, while work goes on."""
    words = ", ".join(f"'{kind}'" for kind in kinds)
    statements = [
        f"ALTER TABLE {table} DROP CONSTRAINT {name},"
        f" ADD CONSTRAINT {name} CHECK (subject_kind IN ({words})) NOT VALID"
        for _, table, name in CONSTRAINTS
    ]
    return [
        *statements,
        *(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}" for _, table, name in CONSTRAINTS),
    ]


def _state():
    for model, _, name in CONSTRAINTS:
        yield migrations.RemoveConstraint(model_name=model, name=name)
        condition = models.Q(("subject_kind__in", SINCE))
        yield migrations.AddConstraint(
            model_name=model, constraint=models.CheckConstraint(condition=condition, name=name)
        )


_SWITCHED = "SELECT sending, reason, changed_by, changed_at FROM ledger_sendingswitch WHERE changed_by <> ''"
_TEXT = "INSERT INTO journal_text (id, subject_id, nonce, text, written_at) VALUES (%s, %s, %s, %s, now())"
_LINE = """
WITH line AS (
    SELECT journal_hash('\\x0000000000000000000000000000000000000000000000000000000000000000'::bytea,
                        'sending', %(subject)s::uuid, 1, %(at)s, %(kind)s, %(actor)s, %(body)s) AS hash
), opened AS (
    INSERT INTO journal_chain (subject_id, subject_kind, length, head)
    SELECT %(subject)s::uuid, 'sending', 1, hash FROM line
)
INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)
SELECT %(subject)s::uuid, 1, 'sending', %(at)s, %(kind)s, %(actor)s, %(body)s, hash FROM line
"""
SUBJECT = "00000000-0000-0000-0000-000000000001"


def tell_of_the_switch(apps, schema_editor):
    """A switch that was used before its chain begins: the first line says what its row says."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_SWITCHED)
        row = cursor.fetchone()
        if row is None:
            return
        sending, reason, actor, at = row
        text_id, nonce = new_id(), secrets.token_bytes(16)
        cursor.execute(_TEXT, [text_id, SUBJECT, nonce, reason])
        facts = {"sending": sending, "reason": {"text": str(text_id), "digest": text_digest(nonce, reason)}}
        kind = "sending_on" if sending else "sending_off"
        body = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        cursor.execute(_LINE, {"subject": SUBJECT, "at": at, "actor": actor, "body": body, "kind": kind})


class Migration(migrations.Migration):
    atomic = False  # else the journal would be locked while all of it is checked
    dependencies = [("journal", "0002_append_only"), ("ledger", "0002_refusals")]
    operations = [
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(there, back)
                for there, back in zip(_allow(SINCE), _allow(BEFORE), strict=True)
            ],
            list(_state()),
        ),
        migrations.RunPython(tell_of_the_switch, migrations.RunPython.noop, atomic=True),
    ]
