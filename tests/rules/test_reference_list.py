"""Lists of references as people paste and upload them: what is read, what is named as unreadable, what is refused whole."""

from __future__ import annotations

import pytest

from opsledger.rules.reference_list import (
    BYTES_MAX,
    ROWS_MAX,
    Headings,
    Listed,
    UnreadableList,
    headings_of,
    read_list,
)
from tests.rules.builders import LOOKUP

A, B = "ol_a", "ol_b"
TASKS = headings_of(LOOKUP, "id")


def read(text: str | bytes, headings: Headings = TASKS) -> Listed:
    return read_list(text if isinstance(text, bytes) else text.encode(), headings, {A, B})


def cells(text: str | bytes) -> list[tuple[int, str | None, str | None]]:
    return [(row.line, row.reference, row.identity) for row in read(text).rows]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reference,identity\nT-1,ol_a\n", [(2, "T-1", A)]),
        ("reference;identity\nT-1;ol_a", [(2, "T-1", A)]),
        ("reference\tidentity\nT-1\tol_a", [(2, "T-1", A)]),
        ("Our Identity,Destination_Reference\r\nol_a,T-1\r\n", [(2, "T-1", A)]),
        ("external_id,id\nol_a,T-1\n", [(2, "T-1", A)]),
        ("\ufeffreference,identity\nT-1,ol_a\n", [(2, "T-1", A)]),
        ('reference,identity\n"T,1","ol_a"\n', [(2, "T,1", A)]),
        ('reference,identity\n"T""1",ol_a\n', [(2, 'T"1', A)]),
        ('reference,identity\n"T\n1",ol_a\nT-2,ol_b\n', [(2, "T\n1", A), (4, "T-2", B)]),
        ("reference;identity\nT,1;ol_a\n", [(2, "T,1", A)]),
        ("T-1,ol_a\nT-2,ol_b\n", [(1, "T-1", A), (2, "T-2", B)]),
        ("ol_a\tT-1\nol_b\tT-2\n", [(1, "T-1", A), (2, "T-2", B)]),
        ("T-1\nT-2\n", [(1, "T-1", None), (2, "T-2", None)]),
        ("reference\nT-1\n", [(2, "T-1", None)]),
        ("ol_a\nol_b\n", [(1, None, A), (2, None, B)]),
        ("\n\nreference,identity\n\nT-1,ol_a\n,\n", [(5, "T-1", A)]),
        ("reference,identity\n T-1 ,ol_a\n", [(2, " T-1 ", A)]),
        ("reference,identity\nT-1,OL_A\n", [(2, "T-1", "OL_A")]),
        ("reference,identity\nT-1,\n,ol_b\n", [(2, "T-1", None), (3, None, B)]),
        ("reference,identity\nT-1,ol_a,,\n", [(2, "T-1", A)]),
        ("T-1,2\rT-2,ol_a\r", [(1, "T-1", "2"), (2, "T-2", A)]),
    ],
    ids=[
        "comma",
        "semicolon",
        "tab",
        "headings in other words",
        "headings of the destination",
        "byte order mark",
        "quoted",
        "a quote in quotes",
        "a line in quotes",
        "the other delimiter in a cell",
        "no headings",
        "no headings, the other way round",
        "references alone",
        "references alone, named",
        "identities alone",
        "empty lines",
        "spaces stay",
        "case stays",
        "one of the two is missing",
        "empty cells at the end",
        "old line ends",
    ],
)
def test_a_list_is_read(text: str, expected: list[tuple[int, str | None, str | None]]) -> None:
    assert cells(text) == expected


def test_decisive_fields_are_read_under_the_destinations_names_and_others_are_named_as_not_used() -> None:
    found = read("reference,identity,subject,colour\nT-1,ol_a,Call Anna,red\nT-2,ol_b,,blue\n")

    assert [row.fields for row in found.rows] == [(("subject", "Call Anna"),), (("subject", None),)]
    assert found.unused == ("colour",)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("T-2", "It has 1 cell where the first row has 2."),
        ("T-2,ol_b,more", "It has 3 cells where the first row has 2."),
        ("T\0,ol_b", "It holds a character that can’t be stored (NUL)."),
        (f"{'T' * 2001},ol_b", "A cell has more than 2,000 characters."),
    ],
    ids=["too few cells", "too many cells", "NUL", "too long"],
)
def test_a_bad_row_is_named_by_its_line_and_spoils_no_other(line: str, problem: str) -> None:
    bad, good = read(f"reference,identity\n{line}\nT-1,ol_a\n").rows

    assert (bad.line, bad.problem, bad.reference, bad.identity) == (2, problem, None, None)
    assert (good.line, good.problem, good.reference) == (3, "", "T-1")


def test_a_row_without_reference_and_identity_is_bad() -> None:
    found = read("reference,identity,subject\n,,Call Anna\n")

    assert found.rows[0].problem == "It names neither a reference nor an identity."


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "The list is empty"),
        (b"\n , \n"[:1], "The list is empty"),
        (b"reference,identity\n", "no row below"),
        (b"reference,identity\nT-\xff,ol_a\n", "Line 2 is not UTF-8"),
        ("reference,identity\nT-1,ol_a".encode("utf-16"), "UTF-16"),
        (b'reference,identity\nT-0,ol_b\n"T-1,ol_a\n', "From line 3 on the list can’t be read: a quote is opened"),
        (b'reference,identity\n"T"1,ol_a\n', "From line 2 on the list can’t be read: something follows"),
        (b"reference,id\nT-1,T-2\n", "Two columns are named as the reference"),
        (b"T-1,T-2\nT-3,T-4\n", "No cell of the list is the identity"),
        (b"T-1,ol_a,x\nT-2,ol_b,y\n", "it is not plain which is which"),
        (b"ol_a,ol_b\n", "it is not plain which is which"),
        (b"x" * (BYTES_MAX + 1), "bytes"),
        (b"T\n" * (ROWS_MAX + 1), "10,001 rows"),
    ],
    ids=[
        "empty",
        "nothing but an end of line",
        "headings only",
        "not UTF-8",
        "UTF-16",
        "an open quote",
        "text after a quote",
        "two references",
        "no cell is known",
        "three columns, not named",
        "identities in both columns",
        "too many bytes",
        "too many rows",
    ],
)  # fmt: skip
def test_what_cant_be_read_as_a_whole_is_refused_with_what_to_do(raw: bytes, says: str) -> None:
    with pytest.raises(UnreadableList) as told:
        read(raw)

    assert says in str(told.value)
    assert "othing was kept" in str(told.value)


def test_a_list_may_be_as_long_as_it_may_be() -> None:
    assert len(read(b"T\n" * ROWS_MAX).rows) == ROWS_MAX


def test_each_row_has_a_digest_of_its_own_cells() -> None:
    first, second, third = read("reference,identity\nT-1,ol_a\nT-1o,l_a\nT-1,ol_a\n").rows

    assert first.digest == third.digest != second.digest


def test_a_single_column_that_nobody_named_is_what_is_asked_for() -> None:
    unknown = b"ol_x\nol_y\n"

    references = read_list(unknown, TASKS, {A}).rows
    identities = read_list(unknown, TASKS, {A}, identities_alone=True).rows

    assert [row.reference for row in references] == ["ol_x", "ol_y"]
    assert [row.identity for row in identities] == ["ol_x", "ol_y"]
