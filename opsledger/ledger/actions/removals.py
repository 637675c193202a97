"""What goes away by itself: selections and lists that nothing was done with, and what was told and read long ago.

Each does one bounded batch and commits; any number may run at once, and all may run twice. What the journal rests on stays,
and the tables refuse to let it go: a selection with a run, a list that was applied, a provider's statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import connection, transaction

BATCH = 500
TRIES_KEPT = 5  # messages to each addressee that stay however old they are: their page shows them

_LISTS = """
SELECT l.id FROM ledger_referencelist l
 WHERE l.made_at < now() - %(days)s * interval '1 day' AND NOT EXISTS (
       SELECT FROM ledger_bulkrun r WHERE r.selection_id = l.selection_id AND r.facts::json ->> 'list' = l.id::text)
 ORDER BY l.id LIMIT %(most)s
"""
_SELECTIONS = """
SELECT s.id FROM ledger_selection s
 WHERE s.made_at < now() - %(days)s * interval '1 day'
   AND NOT EXISTS (SELECT FROM ledger_bulkrun r WHERE r.selection_id = s.id)
   AND NOT EXISTS (SELECT FROM ledger_referencelist l WHERE l.selection_id = s.id)
   AND NOT EXISTS (SELECT FROM ledger_providerstatement t WHERE t.selection_id = s.id)
 ORDER BY s.id LIMIT %(most)s
"""
# Whoever does something with a selection locks its row first, so what is locked here is looked at once more.
_LOCK_LISTS = """
SELECT s.id FROM ledger_selection s
 WHERE s.id IN (SELECT selection_id FROM ledger_referencelist WHERE id = ANY(%(found)s))
 ORDER BY s.id FOR UPDATE SKIP LOCKED
"""
_LOCK_SELECTIONS = """
SELECT id FROM ledger_selection WHERE id = ANY(%(found)s) ORDER BY id FOR UPDATE SKIP LOCKED
"""
_UNUSED_LISTS = """
SELECT l.id FROM ledger_referencelist l
 WHERE l.id = ANY(%(found)s) AND l.selection_id = ANY(%(locked)s) AND NOT EXISTS (
       SELECT FROM ledger_bulkrun r WHERE r.selection_id = l.selection_id AND r.facts::json ->> 'list' = l.id::text)
"""
_UNUSED_SELECTIONS = """
SELECT s.id FROM ledger_selection s
 WHERE s.id = ANY(%(locked)s)
   AND NOT EXISTS (SELECT FROM ledger_bulkrun r WHERE r.selection_id = s.id)
   AND NOT EXISTS (SELECT FROM ledger_referencelist l WHERE l.selection_id = s.id)
   AND NOT EXISTS (SELECT FROM ledger_providerstatement t WHERE t.selection_id = s.id)
"""
# Which rows go is one array, found once: a subquery with a limit may be asked again for each row, and finds others then.
# Notices of a person once they have read them, of a channel once nothing waits to be sent.
_NOTICES = """
DELETE FROM ledger_notice WHERE id = ANY(ARRAY(
    SELECT id FROM ledger_notice
     WHERE made_at < now() - %(days)s * interval '1 day' AND send_at IS NULL
       AND (read_at < now() - %(days)s * interval '1 day' OR person_id IS NULL)
       AND (mailing_id IS NULL OR EXISTS (SELECT FROM ledger_mailing m WHERE m.id = mailing_id AND m.ended_at IS NOT NULL))
     ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED))
"""
_EARLY_REPORTS = """
DELETE FROM ledger_earlyreport WHERE id = ANY(ARRAY(
    SELECT id FROM ledger_earlyreport WHERE told_at < now() - %(days)s * interval '1 day'
     ORDER BY told_at LIMIT %(most)s FOR UPDATE SKIP LOCKED))
"""
_MAILINGS = """
DELETE FROM ledger_mailing WHERE id = ANY(ARRAY(
    SELECT m.id FROM ledger_mailing m
     WHERE m.ended_at < now() - %(days)s * interval '1 day'
       AND NOT EXISTS (SELECT FROM ledger_notice n WHERE n.mailing_id = m.id)
       AND (SELECT count(*) FROM (SELECT FROM ledger_mailing l WHERE l.id > m.id
              AND (l.person_id = m.person_id OR l.channel_id = m.channel_id) LIMIT %(kept)s) newer) = %(kept)s
     ORDER BY m.id LIMIT %(most)s FOR UPDATE OF m SKIP LOCKED))
"""


def remove_unused_lists(days: int, *, most: int = BATCH) -> int:
    """Lists of references that were kept, and that no run applied. Their line in the team's journal stays."""
    return _remove(
        (_LISTS, _LOCK_LISTS, _UNUSED_LISTS),
        ("DELETE FROM ledger_readreference WHERE of_id = ANY(%s)", "DELETE FROM ledger_referencelist WHERE id = ANY(%s)"),
        {"days": days, "most": most},
    )  # fmt: skip


def remove_unused_selections(days: int, *, most: int = BATCH) -> int:
    """Selections that nothing was begun with: no run, no list, no statement."""
    return _remove(
        (_SELECTIONS, _LOCK_SELECTIONS, _UNUSED_SELECTIONS),
        ("DELETE FROM ledger_selectionitem WHERE selection_id = ANY(%s)", "DELETE FROM ledger_selection WHERE id = ANY(%s)"),
        {"days": days, "most": most},
    )  # fmt: skip


def remove_early_reports(days: int, *, most: int = BATCH) -> int:
    """What events told so many days ago of records that are nobody's. Their events stay."""
    return _delete(_EARLY_REPORTS, {"days": days, "most": most})


def remove_old_notices(days: int, *, most: int = BATCH) -> int:
    """What a person has read, and what a channel was told, so many days ago. What is unread stays."""
    return _delete(_NOTICES, {"days": days, "most": most})


def remove_old_messages(days: int, *, most: int = BATCH) -> int:
    """Messages that ended so many days ago, but for the last ones to each addressee; after their notices."""
    return _delete(_MAILINGS, {"days": days, "most": most, "kept": TRIES_KEPT})


def _delete(query: str, parameters: Mapping[str, Any]) -> int:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return int(cursor.rowcount)


def _remove(queries: tuple[str, str, str], deletes: tuple[str, str], parameters: Mapping[str, Any]) -> int:
    """1. What seems unused. 2. Locks the selections; one that somebody has is left. 3. Looks once more, and removes."""
    find, lock, again = queries
    with transaction.atomic(durable=True):
        found = _ids(find, parameters)
        locked = _ids(lock, {"found": found})
        unused = _ids(again, {"found": found, "locked": locked})
        with connection.cursor() as cursor:
            for statement in deletes:
                cursor.execute(statement, [unused])
        return len(unused)


def _ids(query: str, parameters: Mapping[str, Any]) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return [row[0] for row in cursor.fetchall()]
