"""`manage.py verify_ledger`: proves the hash chains, and that every state equals the fold of its journal."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, connection

from opsledger.accounts.verify import team_faults
from opsledger.journal.models import VerifyCheckpoint
from opsledger.journal.verify import (
    FIRST,
    LAST,
    WHOLE,
    ChainRow,
    EntryRow,
    Fault,
    chain_fault,
    chains,
    entries_behind_heads,
    entries_of,
    orphans,
    text_faults,
)
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries.audit import verification
from opsledger.ledger.verify import operations_without_journal, state_faults, switch_faults
from opsledger.ledger.verify_contents import content_faults
from opsledger.ledger.verify_destinations import definition_faults, definitions_without_journal
from opsledger.ledger.verify_events import event_faults, events_without_journal
from opsledger.ledger.verify_replays import replay_faults, replays_without_journal
from opsledger.lib.timestamps import read_moment

SHOWN_MAX = 10
FaultsOf = Callable[[dict[UUID, list[EntryRow]]], list[Fault]]


class Command(BaseCommand):
    help = "Proves the journal's hash chains, and that every state equals the fold of its journal."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--jobs", type=int, default=1, help="processes that share the work (1 to 32)")
        parser.add_argument("--since", help="only subjects with an entry since this time (ISO, with zone)")
        parser.add_argument("--resume", action="store_true", help="go on where an interrupted run stopped")

    def handle(self, *args: Any, **options: Any) -> None:
        jobs, since = options["jobs"], _since(options["since"])
        if not 1 <= jobs <= 32:
            raise CommandError("--jobs must be from 1 to 32.")
        if jobs > 1 and options["resume"]:
            raise CommandError("--resume goes on with a run of one process; leave out --jobs or --resume.")
        if since is None:
            _begin(options["resume"])
        alone = jobs == 1
        verified = verify_range(FIRST, LAST, since, options["resume"]) if alone else _share(jobs, since)
        faults = [*verified[2], *whole_faults()]
        if since is None:
            _end(len(faults))
        self.stdout.write(f"{verified[0]} chains, {verified[1]} entries read.")
        if faults:
            for fault in faults[:SHOWN_MAX]:
                self.stderr.write(f"does not hold: {fault}")
            raise CommandError(f"{len(faults)} subjects do not hold; the first is named above.", returncode=1)
        self.stdout.write("All chains hold, and every state equals the fold of its journal.")


def _since(text: str | None) -> Any:
    if text is None:
        return None
    moment = read_moment(text)
    if moment is None:
        raise CommandError("--since must be an ISO time with its zone, such as 2026-11-29T12:00:00Z.")
    return moment


def _begin(resume: bool) -> None:
    """What pages tell of: a proof of everything has begun. One that goes on began when the interrupted one did; how the
    one before it ended is told until this one has."""
    interrupted = verification().running_since is not None
    if not (resume and interrupted):
        VerifyCheckpoint.objects.update_or_create(name=WHOLE, defaults={"started_at": database_now()})


def _end(faults_count: int) -> None:
    VerifyCheckpoint.objects.filter(name=WHOLE).update(finished_at=database_now(), faults_count=faults_count)


def verify_range(after: UUID, until: UUID, since: Any, resume: bool) -> tuple[int, int, list[Fault]]:
    """Chains and entries read, and what does not hold. Progress is kept, so that a run can resume."""
    part = (
        f" since {since.isoformat()}" if since else ""
    )  # it passed over others: no run over all goes on from it
    name = f"verify {after} {until}{part}"
    checkpoint = (
        VerifyCheckpoint.objects.filter(name=name, finished_at__isnull=True).first() if resume else None
    )
    if checkpoint is None:
        started = {"after_subject": None, "chains_count": 0, "entries_count": 0, "finished_at": None}
        checkpoint, _ = VerifyCheckpoint.objects.update_or_create(
            name=name, defaults={**started, "started_at": database_now()}
        )
    faults: list[Fault] = []
    chains_count, entries_count = checkpoint.chains_count, checkpoint.entries_count
    for batch in chains(checkpoint.after_subject or after, until, changed_since=since):
        found = _verify_batch(batch)
        faults += found[1]
        chains_count, entries_count = chains_count + len(batch), entries_count + found[0]
        if not faults:  # a run that goes on begins before the first fault, so that none is forgotten
            VerifyCheckpoint.objects.filter(name=name).update(
                after_subject=batch[-1].subject_id, chains_count=chains_count, entries_count=entries_count
            )
        if len(faults) >= 100:
            break
    VerifyCheckpoint.objects.filter(name=name).update(finished_at=database_now())
    return chains_count, entries_count, faults


def _verify_batch(batch: list[Any]) -> tuple[int, list[Fault]]:
    """One batch. A subject that changed between two statements is read once more before it counts as a fault."""
    faults: list[Fault] = []
    entries = entries_of([chain.subject_id for chain in batch])
    doubtful = []
    for chain in batch:
        fault = chain_fault(chain, entries.get(chain.subject_id, [])[: chain.length])
        if fault is None and not chain.length:
            fault = Fault(chain.subject_kind, chain.subject_id, "its journal has no entry")
        if fault:
            doubtful.append((chain, fault))
    faults += [fault for _, fault in doubtful]
    faults += entries_behind_heads(batch, entries)
    broken = {chain.subject_id for chain, _ in doubtful}
    whole = [chain for chain in batch if chain.subject_id not in broken]
    faults += one_by_one(whole, lambda chains: text_faults(chains, entries))
    for kinds, faults_of in _FOLDS:
        chains = [chain for chain in whole if chain.subject_kind in kinds]
        moving = one_by_one(chains, lambda some, of=faults_of: of(_lines(some, entries)))  # type: ignore[misc]
        if moving:
            again = [chain for chain in chains if chain.subject_id in {fault.subject_id for fault in moving}]
            faults += one_by_one(
                again,
                lambda some, of=faults_of: of(entries_of([one.subject_id for one in some])),  # type: ignore[misc]
            )
    return sum(map(len, entries.values())), faults


# What is folded for chains of which kind; a destination shares its definition's chain.
_FOLDS: tuple[tuple[tuple[str, ...], FaultsOf], ...] = (
    (("operation",), state_faults),
    (("content",), content_faults),
    (("replay",), replay_faults),
    (("definition", "destination"), definition_faults),
    (("event",), event_faults),
    (("team",), team_faults),
)
_WHOLE = (
    orphans,
    operations_without_journal,
    replays_without_journal,
    definitions_without_journal,
    events_without_journal,
    switch_faults,
)


def _lines(chains: Sequence[ChainRow], entries: Mapping[UUID, list[EntryRow]]) -> dict[UUID, list[EntryRow]]:
    return {chain.subject_id: entries[chain.subject_id] for chain in chains}


def one_by_one(
    chains: Sequence[ChainRow], faults_of: Callable[[Sequence[ChainRow]], list[Fault]]
) -> list[Fault]:
    """The faults of all; where rows are so damaged that they can't be read, of each by itself, so that it is named."""
    if not chains:
        return []
    try:
        return faults_of(chains)
    except (OperationalError, InterfaceError):  # the database is away: nothing is wrong with any row
        raise
    except Exception as why:  # whatever a damaged row makes of the code that reads it
        if len(chains) == 1:
            one = chains[0]
            return [
                Fault(one.subject_kind, one.subject_id, f"it can't be read ({type(why).__name__}: {why})")
            ]
    half = len(chains) // 2
    return one_by_one(chains[:half], faults_of) + one_by_one(chains[half:], faults_of)


def whole_faults() -> list[Fault]:
    """What is missing altogether, and the switch."""
    faults: list[Fault] = []
    for faults_of in _WHOLE:
        try:
            faults += faults_of()
        except (OperationalError, InterfaceError):
            raise
        except Exception as why:
            about = f"it can't be read ({type(why).__name__}: {why})"
            faults.append(Fault(faults_of.__name__.removesuffix("_faults"), FIRST, about))
    return faults


def _share(jobs: int, since: Any) -> tuple[int, int, list[Fault]]:
    """Splits the subjects by their ids' range between processes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT subject_id FROM (SELECT subject_id, ntile(%s) OVER (ORDER BY subject_id) AS part FROM"
            " (SELECT subject_id FROM journal_chain TABLESAMPLE SYSTEM (20)) s) t"
            " GROUP BY part, subject_id ORDER BY subject_id",
            [jobs],
        )
        ids = [row[0] for row in cursor.fetchall()]
    connection.close()
    edges = [FIRST, *(ids[len(ids) * part // jobs] for part in range(1, jobs) if ids), LAST]
    with ProcessPoolExecutor(jobs, initializer=_fresh) as pool:
        parts = list(pool.map(verify_range, edges[:-1], edges[1:], [since] * jobs, [False] * jobs))
    return sum(p[0] for p in parts), sum(p[1] for p in parts), [fault for p in parts for fault in p[2]]


def _fresh() -> None:
    """A process of its own needs its own connection, and Django set up where it was not forked from here."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsledger.settings")
    connection.close()
