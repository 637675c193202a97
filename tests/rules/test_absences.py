"""Who stands in: chains of deputies, and what can't stand beside what is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from opsledger.rules.absences import Away, Fault, fault_of, stand_in

DAY = datetime(2026, 7, 1, tzinfo=UTC)
A, B, C, D, E = (UUID(int=number) for number in range(1, 6))


def away(person: UUID, deputy: UUID, first: int = 0, last: int = 10) -> Away:
    return Away(person, deputy, DAY + timedelta(days=first), DAY + timedelta(days=last))


@pytest.mark.parametrize(
    ("known", "fault"),
    [
        pytest.param([], None, id="alone"),
        pytest.param([away(A, C, 10, 12)], None, id="the-next-begins-as-this-ends"),
        pytest.param([away(A, C, 9, 12)], Fault.OVERLAPS, id="away-already"),
        pytest.param([away(B, A)], Fault.CIRCLE, id="each-for-the-other"),
        pytest.param([away(B, A, 9, 20)], Fault.CIRCLE, id="a-circle-on-the-last-day"),
        pytest.param([away(B, A, 10, 20)], None, id="a-circle-that-never-closes"),
        pytest.param([away(B, C), away(C, A)], Fault.CIRCLE, id="round-three"),
        pytest.param([away(B, C, 0, 3), away(C, A, 3, 9)], None, id="never-at-the-same-time"),
        pytest.param([away(B, C), away(C, D)], None, id="three-links"),
        pytest.param([away(B, C), away(C, D), away(D, E)], Fault.TOO_LONG, id="four-links-after"),
        pytest.param([away(C, A), away(D, C), away(B, E)], Fault.TOO_LONG, id="four-links-before-and-after"),
        pytest.param([away(C, A), away(D, A), away(B, E)], None, id="two-lead-to-one"),
    ],
)
def test_an_absence_stands_beside_the_others_or_says_why_not(known: list[Away], fault: Fault | None) -> None:
    assert fault_of(away(A, B), known) == fault


@pytest.mark.parametrize(
    ("known", "there", "who"),
    [
        pytest.param([], {A}, A, id="not-away"),
        pytest.param([], {B}, None, id="not-away-and-gone"),
        pytest.param([away(A, B)], {A, B}, B, id="the-deputy"),
        pytest.param([away(A, B)], {A}, None, id="the-deputy-is-gone"),
        pytest.param([away(A, B, 1, 2)], {A, B}, A, id="away-from-tomorrow"),
        pytest.param([away(A, B, -5, 0)], {A, B}, A, id="back-today"),
        pytest.param([away(A, B), away(B, C)], {A, B, C}, C, id="the-deputys-deputy"),
        pytest.param([away(A, B), away(B, C), away(C, D)], {D}, D, id="the-third"),
        pytest.param([away(A, B), away(B, C), away(C, D), away(D, E)], {E}, None, id="never-a-fourth"),
    ],
)
def test_the_first_of_the_chain_who_is_there_stands_in(
    known: list[Away], there: set[UUID], who: UUID | None
) -> None:
    assert stand_in(A, known, DAY, there.__contains__) == who
