"""A list against the holds that were chosen. Likeness never confirms; one reference never proves two creates."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsledger.rules.list_matching import (
    Against,
    Cover,
    Holder,
    Match,
    Read,
    Sought,
    covered,
    match,
)
from opsledger.rules.profile import FieldKind
from opsledger.rules.reference_list import Row, headings_of, read_list
from tests.rules.builders import LOOKUP

SENT = {"subject": "Call Anna", "amount": "10.00"}
ANNA = Sought(
    "hold-a", frozenset({"ol_a", "key_a"}), SENT, ("subject", "amount"), (("amount", FieldKind.NUMBER),)
)
BERT = replace(
    ANNA,
    hold_id="hold-b",
    identities=frozenset({"ol_b", "key_b"}),
    fields={"subject": "Call Bert", "amount": "7"},
)
CRM = Against(reads=True)
HEADINGS = headings_of(replace(LOOKUP, decisive=(("subject", "subject"), ("amount", "amount"))), "id")
M = Match


def matched(text: str, *chosen: Sought, against: Against = CRM) -> list[tuple[Match, str | None]]:
    asked = chosen or (ANNA, BERT)
    known = {identity for one in asked for identity in one.identities}
    found = match(read_list(text.encode(), HEADINGS, known).rows, asked, against)
    assert all("{" not in one.sentence for one in found.rows)
    return [(one.match, one.hold_id) for one in found.rows]


HEAD = "reference,identity\n"
ROWS: list[tuple[str, str, list[tuple[Match, str | None]]]] = [
    ("by the step's identity", f"{HEAD}T-1,ol_a\n", [(M.MATCHES, "hold-a")]),
    ("by the key", f"{HEAD}T-1,key_a\n", [(M.MATCHES, "hold-a")]),
    ("two holds", f"{HEAD}T-1,ol_a\nT-2,ol_b\n", [(M.MATCHES, "hold-a"), (M.MATCHES, "hold-b")]),
    ("an identity of nobody here", f"{HEAD}T-1,ol_x\n", [(M.NO_SUCH_IDENTITY, None)]),
    ("another case", f"{HEAD}T-1,OL_A\n", [(M.NO_SUCH_IDENTITY, None)]),
    ("a space", f"{HEAD}T-1,ol_a \n", [(M.NO_SUCH_IDENTITY, None)]),
    ("alike in all fields", "reference,identity,subject,amount\nT-1,ol_x,Call Anna,10.00\n", [(M.NO_SUCH_IDENTITY, None)]),
    ("the same row twice", f"{HEAD}T-1,ol_a\nT-1,ol_a\n", [(M.MATCHES, "hold-a"), (M.REPEATED, "hold-a")]),
    ("two records", f"{HEAD}T-1,ol_a\nT-2,ol_a\n", [(M.TWO_RECORDS, "hold-a")] * 2),
    ("two records, by identity and by key", f"{HEAD}T-1,ol_a\nT-2,key_a\n", [(M.TWO_RECORDS, "hold-a")] * 2),
    ("one reference for two", f"{HEAD}T-1,ol_a\nT-1,ol_b\n", [(M.REFERENCE_TWICE, "hold-a"), (M.REFERENCE_TWICE, "hold-b")]),
    ("a stranger's too", f"{HEAD}T-1,ol_a\nT-1,ol_x\n", [(M.REFERENCE_TWICE, "hold-a"), (M.NO_SUCH_IDENTITY, None)]),
    ("the reference once more, alone", f"{HEAD}T-1,ol_a\nT-1,\n", [(M.MATCHES, "hold-a"), (M.TO_BE_READ, None)]),
    ("no reference", f"{HEAD},ol_a\n", [(M.NO_REFERENCE, "hold-a")]),
    ("only a reference", f"{HEAD}T-1,\n", [(M.TO_BE_READ, None)]),
    ("a bad row", f"{HEAD}T-1\nT-2,ol_b\n", [(M.UNREADABLE, None), (M.MATCHES, "hold-b")]),
    ("fields that are equal", "reference,identity,subject,amount\nT-1,ol_a,Call Anna,10\n", [(M.MATCHES, "hold-a")]),
    ("a field that differs", "reference,identity,subject\nT-1,ol_a,Call Bert\n", [(M.DIFFERS, "hold-a")]),
    ("a field that is empty", "reference,identity,subject\nT-1,ol_a,\n", [(M.DIFFERS, "hold-a")]),
    ("text is compared byte for byte", "reference,identity,subject\nT-1,ol_a,call anna\n", [(M.DIFFERS, "hold-a")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_each_row_gets_its_verdict(text: str, expected: list[tuple[Match, str | None]]) -> None:
    assert matched(text) == expected


@pytest.mark.parametrize(
    ("chosen", "against", "expected"),
    [
        (ANNA, replace(CRM, taken={"T-1": Holder("order:7")}), M.TAKEN),
        (ANNA, replace(CRM, taken={"T-1": Holder("order:7", "hold-b")}), M.TAKEN),
        (ANNA, replace(CRM, taken={"T-1": Holder("order:7", "hold-a")}), M.MATCHES),
        (ANNA, replace(CRM, taken={"T-1": Holder("order:7")}, shares=True), M.MATCHES),
        (replace(ANNA, changed=True), CRM, M.CHANGED),
        (replace(ANNA, asks=False), CRM, M.NOT_ASKED),
    ],
    ids=["taken", "taken by another hold's step", "its own already", "may be shared", "changed", "not asked"],
)
def test_what_is_known_beside_the_list_decides_too(chosen: Sought, against: Against, expected: Match) -> None:
    verdicts = matched(f"{HEAD}T-1,ol_a\nT-2,ol_b\n", chosen, BERT, against=against)

    assert verdicts == [(expected, "hold-a"), (M.MATCHES, "hold-b")]


def test_updates_may_share_a_reference() -> None:
    shared = replace(CRM, shares=True)

    assert matched(f"{HEAD}T-1,ol_a\nT-1,ol_b\n", against=shared) == [
        (M.MATCHES, "hold-a"),
        (M.MATCHES, "hold-b"),
    ]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({"T-1": Read("ol_a")}, (M.MATCHES, "hold-a")),
        ({"T-1": Read("ol_x")}, (M.NO_SUCH_IDENTITY, None)),
        ({"T-1": Read(why="crm has no record T-1.")}, (M.NOT_READ, None)),
        ({}, (M.TO_BE_READ, None)),
    ],
    ids=["ours", "somebody else's", "not found", "not read yet"],
)
def test_a_reference_alone_is_whose_its_record_says(
    read: dict[str, Read], expected: tuple[Match, str | None]
) -> None:
    assert matched("T-1\n", against=replace(CRM, read=read)) == [expected]


def test_a_reference_alone_is_left_alone_where_nothing_can_be_read() -> None:
    assert matched("T-1\n", against=replace(CRM, reads=False)) == [(M.ONLY_REFERENCE, None)]


def test_a_record_that_was_read_counts_beside_a_row_that_names_the_identity() -> None:
    read = replace(CRM, read={"T-2": Read("ol_a")})

    assert matched(f"{HEAD}T-1,ol_a\nT-2,\n", against=read) == [(M.TWO_RECORDS, "hold-a")] * 2


def test_an_identity_that_only_looks_the_same_is_told() -> None:
    rows = read_list(f"{HEAD}T-1,OL_A \n".encode(), HEADINGS, set()).rows
    (told,) = match(rows, (ANNA,), CRM).rows

    assert told.match is M.NO_SUCH_IDENTITY
    assert "ol_a only looks the same" in told.sentence


def test_a_long_list_about_one_hold_is_matched_in_one_pass() -> None:
    """Ten thousand rows that all say the same, or all something else, take no longer than others."""
    same = [Row(line, "T-1", "ol_a") for line in range(1, 10_001)]
    other = [Row(line, f"R-{line}", "ol_b") for line in range(1, 10_001)]

    kinds = Counter(one.match for one in match([*same, *other], (ANNA, BERT), CRM).rows)

    assert kinds == {M.MATCHES: 1, M.REPEATED: 9_999, M.TWO_RECORDS: 10_000}


# Laws

identities = st.sampled_from(["ol_a", "key_a", "ol_b", "ol_x", "OL_A", "ol_a ", None])
references = st.sampled_from(["T-1", "T-2", "T-3", None])
subjects = st.sampled_from(["Call Anna", "Call Bert", None])


@given(
    listed=st.lists(st.tuples(references, identities, subjects | st.just("absent")), max_size=6),
    taken=st.dictionaries(st.sampled_from(["T-1", "T-2"]), st.sampled_from(["", "hold-a", "hold-b"])),
    read=st.dictionaries(st.sampled_from(["T-1", "T-3"]), identities),
    changed=st.booleans(),
)
def test_likeness_never_confirms_and_one_reference_never_proves_two(
    listed: list[tuple[str | None, str | None, str | None]],
    taken: dict[str, str],
    read: dict[str, str | None],
    changed: bool,
) -> None:
    """Laws 6 and 12, of any list."""
    rows = [
        Row(line, reference, identity, () if subject == "absent" else (("subject", subject),))
        for line, (reference, identity, subject) in enumerate(listed, 1)
        if reference or identity
    ]
    chosen = (replace(ANNA, changed=changed), BERT)
    against = replace(
        CRM,
        taken={reference: Holder("order:7", hold_id) for reference, hold_id in taken.items()},
        read={reference: Read(identity, "not found") for reference, identity in read.items()},
    )

    found = match(rows, chosen, against)

    matching = [one for one in found.rows if one.match is M.MATCHES]
    by_id = {one.hold_id: one for one in chosen}
    for one in matching:
        hold = by_id[one.hold_id or ""]
        row, reference = one.row, one.row.reference
        carried = row.identity if row.identity is not None else read[reference or ""]
        assert carried in hold.identities, "byte for byte"
        assert not hold.changed
        assert taken.get(reference or "", hold.hold_id) == hold.hold_id
        assert all(text == hold.fields[name] for name, text in row.fields)
        others = {
            other.identity or read.get(other.reference or "")
            for other in rows
            if other.reference == reference
        }
        assert others - {None} <= hold.identities, "the list gives this reference to nobody else"
        own = {
            other.said
            for other in rows
            if (other.identity or read.get(other.reference or "")) in hold.identities
        }
        assert own == {row.said}, "the list says one thing of this hold"
    assert len({one.row.reference for one in matching}) == len(matching)
    assert len({one.hold_id for one in matching}) == len(matching)


# Statements


def test_a_statement_covers_what_it_names_byte_for_byte() -> None:
    third = Sought("hold-c", frozenset({"ol_c"}), asks=False)
    fourth = Sought("hold-d", frozenset({"ol_d"}), changed=True)
    chosen = (ANNA, BERT, third, fourth)

    assert covered(chosen, {"key_a", "OL_B", "ol_c", "ol_d"}) == {
        "hold-a": Cover.COVERED,
        "hold-b": Cover.NOT_NAMED,
        "hold-c": Cover.NOT_ASKED,
        "hold-d": Cover.CHANGED,
    }
    assert covered(chosen, None)["hold-b"] is Cover.COVERED
    assert covered(chosen, set()) == {one.hold_id: Cover.NOT_NAMED for one in chosen}
