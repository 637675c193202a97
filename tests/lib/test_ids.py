"""Public ids are the exact image of their UUID, and sort like it."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from opsledger.lib.ids import new_id, new_ids, parse, public, supply


@pytest.mark.parametrize("number", [0, 1, 31, 32, 2**127, 2**128 - 1], ids=str)
def test_parse_is_the_inverse_of_public(number: int) -> None:
    text = public("op", UUID(int=number))
    assert len(text) == 29
    assert text.isascii()
    assert parse("op", text) == UUID(int=number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "op_",
        "op_" + "0" * 25,
        "op_" + "0" * 27,
        "att_" + "0" * 26,
        "op" + "0" * 27,
        "OP_" + "0" * 26,
        "op_" + "0" * 25 + "A",
        "op_" + "0" * 25 + "l",
        "op_" + "0" * 25 + "u",
        "op_8" + "0" * 25,  # would be bit 129
        "op_" + "0" * 26 + "\n",
        "op_" + "0" * 25 + "\u0663",  # an Arabic digit
        " op_" + "0" * 26,
    ],
    ids=repr,
)
def test_anything_but_the_exact_form_is_none(text: str) -> None:
    assert parse("op", text) is None


def test_ids_are_version_7_distinct_and_sorted() -> None:
    ids = [new_id() for _ in range(5_000)]
    assert {(one.version, one.variant) for one in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    assert [public("op", one) for one in ids] == sorted(public("op", one) for one in ids)


def test_an_id_carries_the_time_it_was_made() -> None:
    before = time.time_ns() // 1_000_000
    made = new_id().int >> 80
    assert before - 1 <= made <= time.time_ns() // 1_000_000 + 5_000


def test_ids_that_are_made_at_once_are_as_if_made_one_by_one() -> None:
    before, many, after = new_id(), new_ids(5_000), new_id()
    assert {(one.version, one.variant) for one in many} == {(7, "specified in RFC 4122")}
    assert len(set(many)) == 5_000
    assert [before, *many, after] == sorted([before, *many, after])


@pytest.mark.parametrize("made_at_once", [0, 1, 3])
def test_a_supply_never_ends_and_repeats_nothing(made_at_once: int) -> None:
    give = supply(made_at_once)
    given = [give() for _ in range(5)]
    assert given == sorted(set(given))
