"""What must hold inside an action’s profile, beyond the types of its fields. Each check belongs to one class."""

from __future__ import annotations

import re

from opsledger.rules.building import Problems, checks
from opsledger.rules.field_checks import check_date, check_increasing
from opsledger.rules.profile import (
    FinalEffect,
    FinalEffectBy,
    Lookup,
    Protection,
    ProtectionKind,
    Retries,
    Settles,
    Source,
    Timing,
)

LEASE_SECONDS_MAX = 3_000  # stays below the broker's visibility timeout of one hour
_KEY_PLACE = re.compile(r"(header:[A-Za-z0-9-]+|body:[A-Za-z0-9_.-]+)", re.ASCII)


@checks(Source)
def check_documented(source: Source, path: str, problems: Problems) -> None:
    if not source.url.startswith(("https://", "http://")):
        problems.add(f"{path}.url", "must be the address of the page that documents it")
    check_date(source.checked, f"{path}.checked", problems)


@checks(Protection)
def check_protection(protection: Protection, path: str, problems: Problems) -> None:
    kind = protection.kind
    if kind is ProtectionKind.NONE:
        if protection.window_seconds or protection.operator_window_seconds or protection.key_in:
            problems.add(path, "names a window or a key, but its kind is none")
        return
    if protection.source is None:
        problems.add(f"{path}.source", "is missing: protection counts only where its documentation is named")
    needs_key = kind in {ProtectionKind.IDEMPOTENCY_KEY, ProtectionKind.CLIENT_ID}
    if needs_key and not _KEY_PLACE.fullmatch(protection.key_in):
        problems.add(f"{path}.key_in", "must say where the key goes: header:Name or body:field")


@checks(Lookup)
def check_lookup(lookup: Lookup, path: str, problems: Problems) -> None:
    if lookup.looks_min < 2:
        problems.add(f"{path}.looks_min", "must be 2 or more: one empty answer proves nothing")
    if not lookup.delays_seconds:
        problems.add(f"{path}.delays_seconds", "must hold at least one delay")
    check_increasing(lookup.delays_seconds, f"{path}.delays_seconds", problems)
    if lookup.last_look_seconds < lookup.quiet_seconds:
        problems.add(f"{path}.last_look_seconds", "must not be earlier than quiet_seconds")
    if lookup.settles is Settles.BOTH and lookup.source is None:
        problems.add(
            f"{path}.source", "is missing: absence counts only where documentation says that it does"
        )


@checks(FinalEffect)
def check_final_effect(final: FinalEffect, path: str, problems: Problems) -> None:
    if final.by is FinalEffectBy.LOOKUP and not final.look_delays_seconds:
        problems.add(f"{path}.look_delays_seconds", "is missing: a final effect by lookup needs its delays")
    check_increasing(final.look_delays_seconds, f"{path}.look_delays_seconds", problems)


@checks(Retries)
def check_retries(retries: Retries, path: str, problems: Problems) -> None:
    if retries.tries_max > 1 and not retries.delays_seconds:
        problems.add(f"{path}.delays_seconds", "is missing: more than one try needs a delay")
    check_increasing(retries.delays_seconds, f"{path}.delays_seconds", problems)


@checks(Timing)
def check_timing(timing: Timing, path: str, problems: Problems) -> None:
    if not 0 < timing.connect_seconds < timing.total_seconds < timing.lease_seconds <= LEASE_SECONDS_MAX:
        problems.add(
            path,
            "must nest: connect_seconds below total_seconds below lease_seconds, "
            f"and that not above {LEASE_SECONDS_MAX}",
        )
