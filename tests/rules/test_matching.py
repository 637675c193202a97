"""Table 5: what a lookup's answer says. The ids are the table's own words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from opsledger.rules.matching import (
    FOUND_NOTHING,
    GAVE_NO_ANSWER,
    FieldRow,
    LookAnswer,
    LookupVerdict,
    compare,
    found_fields,
    judge,
    own_records,
    sent_fields,
)
from opsledger.rules.profile import Effect, FieldKind, Lookup, Settles, Source
from opsledger.rules.reading import read_json

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DOCUMENTED = Source("https://crm.example/docs", "2026-03-01")
DOUBTFUL = Source("https://blog.example/post", "2026-03-01", confirmed=False)
OURS = "stp_7"
LOOKUP = Lookup(
    settles=Settles.BOTH,
    quiet_seconds=60,
    delays_seconds=(10,),
    last_look_seconds=600,
    identity="external_id",
    decisive=(("subject", "title"), ("amount", "total")),
    source=DOCUMENTED,
)
REQUEST = {"subject": "Call back", "amount": "1.10", "note": "private"}


def record(reference: str = "T-1", identity: str | None = OURS, **fields: str) -> FoundRecord:
    return FoundRecord(reference, identity, tuple({"title": "Call back", "total": "1.10", **fields}.items()))


def found(*records: FoundRecord, **more: Any) -> LookupFact:
    return LookupFact(LookupStatus.RECORDS, records, **{"searched": True, **more})


def look(fact: LookupFact, lookup: Lookup = LOOKUP, **more: Any) -> LookupVerdict:
    context: dict[str, Any] = {
        "counted": True,
        "counted_before": 0,
        "reference_taken_by": None,
        "effect": Effect.CREATE,
        "contradicted": "",
    }
    return judge(OURS, REQUEST, lookup, fact, **{**context, **more})


# Records


def test_one_record_with_our_identity_decisive_fields_equal_is_confirmed() -> None:
    verdict = look(found(record(owner="somebody")))
    assert (verdict.answer, verdict.reference) == (LookAnswer.CONFIRMED, "T-1")
    assert verdict.rows == (
        FieldRow("subject", "Call back", "Call back", True),
        FieldRow("amount", "1.10", "1.10", True),
    )


def test_one_record_with_our_identity_a_decisive_field_differs_field_by_field() -> None:
    verdict = look(found(record(total="1.1")))
    assert (verdict.answer, verdict.reference) == (LookAnswer.DIFFERS, "T-1")
    assert verdict.rows == (
        FieldRow("subject", "Call back", "Call back", True),
        FieldRow("amount", "1.10", "1.1", False),
    )
    assert verdict.sentence == "The record T-1 is this step’s, but differs in amount."


def test_several_records_are_a_duplicate_all_references_listed() -> None:
    verdict = look(found(record("T-1"), record("T-2", total="9"), record("T-3", identity="other")))
    assert (verdict.answer, verdict.references) == (LookAnswer.DUPLICATE, ("T-1", "T-2"))
    assert verdict.reference is None


def test_a_record_that_two_pages_list_is_one_record() -> None:
    assert look(found(record("T-1"), record("T-1"))).answer is LookAnswer.CONFIRMED


ALIKE = {
    "no identity": None,
    "another identity": "stp_8",
    "an empty identity": "",
    "another case": OURS.upper(),
    "a blank more": f"{OURS} ",
    "our identity inside": f"x{OURS}x",
}


@pytest.mark.parametrize("identity", ALIKE.values(), ids=ALIKE.keys())
def test_records_that_are_only_alike_are_candidates_and_never_decide(identity: str | None) -> None:
    alike = record(identity=identity)
    verdict = look(found(alike), counted_before=99)
    assert (verdict.answer, verdict.candidates) == (LookAnswer.CANDIDATES, (alike,))
    assert (verdict.reference, verdict.counted) == (None, False)


def test_alike_records_beside_ours_are_shown_and_do_not_make_a_duplicate() -> None:
    alike = record("T-9", identity=None)
    verdict = look(found(alike, record()))
    assert (verdict.answer, verdict.candidates) == (LookAnswer.CONFIRMED, (alike,))


def test_without_an_identity_of_our_own_nothing_is_ours() -> None:
    assert own_records("", found(record(identity=""))) == ()


def test_our_record_is_confirmed_also_before_the_quiet_period_and_on_the_first_page() -> None:
    early = look(found(record(), complete=False), counted=False)
    assert early.answer is LookAnswer.CONFIRMED


def test_a_record_with_nothing_to_compare_is_no_answer() -> None:
    """Two gaps are alike, and prove nothing."""
    fact = found(FoundRecord("T-1", OURS, ()))

    verdict = judge(
        OURS,
        {},
        LOOKUP,
        fact,
        counted=True,
        counted_before=0,
        reference_taken_by=None,
        effect=Effect.CREATE,
        contradicted="",
    )

    assert (verdict.answer, verdict.why) == (LookAnswer.NO_ANSWER, "nothing_compared")


def test_a_record_without_a_reference_is_no_answer() -> None:
    assert look(found(record(""))).why == "record_without_reference"


def test_a_record_that_a_person_declared_not_ours_is_a_candidate() -> None:
    verdict = look(found(record()), not_ours=("T-1",))
    assert verdict.answer is LookAnswer.CANDIDATES
    assert look(found(record()), not_ours=("T-2",)).answer is LookAnswer.CONFIRMED


# References


@pytest.mark.parametrize("effect", [Effect.CREATE, Effect.MESSAGE])
def test_a_reference_that_another_create_step_holds_is_refused_and_named(effect: Effect) -> None:
    verdict = look(found(record()), reference_taken_by="order-17", effect=effect)
    assert (verdict.answer, verdict.why) == (LookAnswer.NO_ANSWER, "reference_taken")
    assert (verdict.reference, verdict.reference_taken_by) == ("T-1", "order-17")
    assert "operation order-17 holds it already" in verdict.sentence


def test_updates_may_share_a_record() -> None:
    verdict = look(found(record()), reference_taken_by="order-17", effect=Effect.UPDATE)
    assert (verdict.answer, verdict.reference_taken_by) == (LookAnswer.CONFIRMED, None)


# Operation-status lookups


def test_operation_status_running_is_waited_for() -> None:
    verdict = look(LookupFact(LookupStatus.RUNNING), counted_before=99)
    assert (verdict.answer, verdict.counted) == (LookAnswer.RUNNING, False)


FAILED = {
    "documented": (replace(LOOKUP, failed_means_no_change=True), LookAnswer.FAILED),
    "not documented": (LOOKUP, LookAnswer.NO_ANSWER),
    "unconfirmed": (replace(LOOKUP, failed_means_no_change=True, source=DOUBTFUL), LookAnswer.NO_ANSWER),
    "without a source": (replace(LOOKUP, failed_means_no_change=True, source=None), LookAnswer.NO_ANSWER),
}


@pytest.mark.parametrize(("lookup", "answer"), FAILED.values(), ids=FAILED.keys())
def test_operation_status_failed_is_no_change_only_if_the_profile_documents_it(
    lookup: Lookup, answer: LookAnswer
) -> None:
    assert look(LookupFact(LookupStatus.FAILED), lookup).answer is answer


# Nothing found

NOTHING = {
    "before the quiet period": (LOOKUP, found(), {"counted": False, "counted_before": 5}, "quiet_period"),
    "the first look that counts": (LOOKUP, found(), {}, "too_few_looks"),
    "two of the three looks that the profile wants": (
        replace(LOOKUP, looks_min=3),
        found(),
        {"counted_before": 1},
        "too_few_looks",
    ),
    "settles: positive_only": (
        replace(LOOKUP, settles=Settles.POSITIVE_ONLY),
        found(),
        {"counted_before": 5},
        "positive_only",
    ),
    "settles both, but unconfirmed": (
        replace(LOOKUP, source=DOUBTFUL),
        found(),
        {"counted_before": 5},
        "positive_only",
    ),
    "settles both, but without a source": (
        replace(LOOKUP, source=None),
        found(),
        {"counted_before": 5},
        "positive_only",
    ),
    "not all pages read": (LOOKUP, found(complete=False), {"counted_before": 5}, "not_all_pages"),
}


@pytest.mark.parametrize(("lookup", "fact", "context", "why"), NOTHING.values(), ids=NOTHING.keys())
def test_none_is_no_answer(lookup: Lookup, fact: LookupFact, context: dict[str, Any], why: str) -> None:
    verdict = look(fact, lookup, **context)
    assert (verdict.answer, verdict.why) == (LookAnswer.NONE, why)
    assert verdict.counted is (why == "too_few_looks")


@pytest.mark.parametrize(
    ("looks_min", "before"), [(2, 1), (3, 2), (1, 1)], ids=["two looks", "three looks", "one is never enough"]
)
def test_none_after_all_that_and_settles_both_is_proof_of_absence(looks_min: int, before: int) -> None:
    lookup = replace(LOOKUP, looks_min=looks_min)
    proof = look(found(), lookup, counted_before=before)
    assert (proof.answer, proof.counted) == (LookAnswer.ABSENT, True)
    assert look(found(), lookup, counted_before=before - 1).answer is LookAnswer.NONE


def test_a_reading_by_reference_finds_no_absence_whatever_the_profile_says() -> None:
    verdict = look(found(searched=False), counted_before=99)
    assert (verdict.answer, verdict.why, verdict.counted) == (LookAnswer.NO_ANSWER, "only_read", False)
    assert look(found(record(), searched=False)).answer is LookAnswer.CONFIRMED


def test_a_fact_that_does_not_say_what_was_asked_was_no_search() -> None:
    assert look(LookupFact(LookupStatus.RECORDS), counted_before=99).answer is LookAnswer.NO_ANSWER


@pytest.mark.parametrize(
    "fact", [found(), LookupFact(LookupStatus.FAILED)], ids=["nothing found", "documented as failed"]
)
def test_what_was_found_or_named_before_contradicts_absence(fact: LookupFact) -> None:
    lookup = replace(LOOKUP, failed_means_no_change=True)
    verdict = look(fact, lookup, counted_before=1, contradicted="T-9")
    assert (verdict.answer, verdict.why) == (LookAnswer.CONTRADICTED, "contradicted")
    assert "T-9" in verdict.sentence
    assert "did not happen" not in verdict.sentence
    assert look(fact, lookup, counted_before=1).answer in {LookAnswer.ABSENT, LookAnswer.FAILED}


@pytest.mark.parametrize("error", ["timeout", "status_500", "not_found_on_search_path", ""])
def test_error_timeout_404_on_a_search_path_is_not_counted_as_a_look(error: str) -> None:
    verdict = look(LookupFact(LookupStatus.NO_ANSWER, error=error), counted_before=99)
    assert (verdict.answer, verdict.counted) == (LookAnswer.NO_ANSWER, False)


def test_access_refused_is_no_answer_of_its_own_kind() -> None:
    verdict = look(LookupFact(LookupStatus.ACCESS_REFUSED), counted_before=99)
    assert (verdict.answer, verdict.counted) == (LookAnswer.ACCESS_REFUSED, False)


# Field by field

FIELDS = {
    "equal text": (FieldKind.TEXT, "a", "a", True),
    "a blank more": (FieldKind.TEXT, "a", "a ", False),
    "another case": (FieldKind.TEXT, "a", "A", False),
    "composed and decomposed": (FieldKind.TEXT, "\u00fc", "u\u0308", False),
    "1.10 and 1.1 as text": (FieldKind.TEXT, "1.10", "1.1", False),
    "1.10 and 1.1 as numbers": (FieldKind.NUMBER, "1.10", "1.1", True),
    "1e2 and 100": (FieldKind.NUMBER, "1e2", "100", True),
    "-0 and 0": (FieldKind.NUMBER, "-0", "0", True),
    "numbers above 2^53 that differ by one": (
        FieldKind.NUMBER,
        "9007199254740993",
        "9007199254740992",
        False,
    ),
    "a number and a word": (FieldKind.NUMBER, "1", "one", False),
    "the same word as a number": (FieldKind.NUMBER, "n/a", "n/a", True),
    "not a number twice": (FieldKind.NUMBER, "NaN", "nan", False),
    "numbers in other digits": (FieldKind.NUMBER, "1", "١", False),
    "an exponent of ages": (FieldKind.NUMBER, "1e99999999999", "1", False),
    "the same day, written twice": (FieldKind.DATE, "2026-03-01", "2026-03-01", True),
    "the same day in two forms": (FieldKind.DATE, "2026-03-01", "20260301", True),
    "another day": (FieldKind.DATE, "2026-03-01", "2026-03-02", False),
    "one moment in two zones": (FieldKind.DATE, "2026-03-01T12:00:00Z", "2026-03-01T07:00:00-05:00", True),
    "one moment, fraction written out": (
        FieldKind.DATE,
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00.000Z",
        True,
    ),
    "another moment": (FieldKind.DATE, "2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z", False),
    "a day and a moment": (FieldKind.DATE, "2026-03-01", "2026-03-01T00:00:00Z", False),
    "a moment without its zone": (FieldKind.DATE, "2026-03-01T12:00:00", "2026-03-01T12:00:00Z", False),
    "two moments without their zones": (FieldKind.DATE, "2026-03-01T12:00:00", "2026-03-01 12:00:00", False),
    "no date": (FieldKind.DATE, "soon", "later", False),
    "the 30th of February": (FieldKind.DATE, "2026-02-30", "2026-03-02", False),
}


@pytest.mark.parametrize(("kind", "ours", "theirs", "match"), FIELDS.values(), ids=FIELDS.keys())
def test_a_field_compares(kind: FieldKind, ours: str, theirs: str, match: bool) -> None:
    (row,) = compare({"a": ours}, {"b": theirs}, [("a", "b")], [("a", kind)])
    assert row == FieldRow("a", ours, theirs, match)


def test_a_field_that_is_on_one_side_only_differs() -> None:
    rows = compare({"a": ""}, [("y", "")], [("a", "x"), ("b", "y"), ("c", "z")])
    assert rows == (
        FieldRow("a", "", None, False),
        FieldRow("b", None, "", False),
        FieldRow("c", None, None, True),
    )


def test_a_kind_of_the_profile_decides_the_verdict() -> None:
    lookup = replace(LOOKUP, kinds=(("amount", FieldKind.NUMBER),))
    assert look(found(record(total="1.1")), lookup).answer is LookAnswer.CONFIRMED
    assert look(found(record(title="call back")), lookup).answer is LookAnswer.DIFFERS


# The same reader for what was sent and for what was found

READ = {
    "a fraction": (b'{"a": {"b": 1.10}}', b'{"a": {"b": 1.10}}', True),
    "a fraction, written shorter": (b'{"a": {"b": 1.10}}', b'{"a": {"b": 1.1}}', False),
    "a fraction, there as text": (b'{"a": {"b": 1.10}}', b'{"a": {"b": "1.10"}}', True),
    "an exponent": (b'{"a": {"b": 1e2}}', b'{"a": {"b": 1e2}}', True),
    "a whole number above 2^53": (b'{"a": {"b": 9007199254740993}}', b'{"a": {"b": 9007199254740993}}', True),
    "one that a float takes for its neighbour": (
        b'{"a": {"b": 9007199254740993}}',
        b'{"a": {"b": 9007199254740992}}',
        False,
    ),
    "5,000 digits": (b'{"a": {"b": ' + b"9" * 5000 + b"}}", b'{"a": {"b": ' + b"9" * 5000 + b"}}", True),
    "fractions in a list": (b'{"a": {"b": [1.10, 2]}}', b'{"a": {"b": [1.10,2]}}', True),
    "another list": (b'{"a": {"b": [1.10, 2]}}', b'{"a": {"b": [1.10]}}', False),
    "a list and nothing": (b'{"a": {"b": []}}', b'{"a": {}}', False),
    "an object, its names in another order": (
        b'{"a": {"b": {"x": 1, "y": 2.0}}}',
        b'{"a": {"b": {"y": 2.0, "x": 1}}}',
        True,
    ),
    "true": (b'{"a": {"b": true}}', b'{"a": {"b": true}}', True),
    "true and false": (b'{"a": {"b": true}}', b'{"a": {"b": false}}', False),
    "null and nothing": (b"{}", b'{"a": {"b": null}}', True),
    "null and the word": (b'{"a": {"b": null}}', b'{"a": {"b": "null"}}', False),
    "a name with a dot is not two names": (b'{"a": {"b": 1}}', b'{"a.b": 1}', False),
    "a name with a dot beside two names": (b'{"a": {"b": 1}}', b'{"a.b": 2, "a": {"b": 1}}', True),
    "the other way round": (b'{"a.b": 1, "a": {"b": 2}}', b'{"a": {"b": 1}}', False),
    "characters that JSON escapes": (rb'{"a": {"b": "\u00fc\""}}', '{"a": {"b": "ü\\""}}'.encode(), True),
    "bytes that are no JSON": (b"a=1", b'{"a": {"b": 1}}', False),
    "bytes that nobody has any more": (None, b'{"a": {"b": 1}}', False),
}


@pytest.mark.parametrize(("sent", "there", "match"), READ.values(), ids=READ.keys())
def test_what_was_sent_and_what_was_found_are_read_alike(
    sent: bytes | None, there: bytes, match: bool
) -> None:
    lookup = replace(LOOKUP, decisive=(("a.b", "a.b"),))
    (row,) = compare(sent_fields(sent, lookup), found_fields(read_json(there), lookup), lookup.decisive)
    assert row.match is match


def test_a_field_five_levels_down_and_one_in_a_list_are_reached() -> None:
    body = b'{"a": {"b": {"c": {"d": {"e": [{"f": 1.10}]}}}}}'
    lookup = replace(LOOKUP, decisive=(("a.b.c.d.e.0.f", "a.b.c.d.e.0.f"),))
    assert (
        sent_fields(body, lookup) == dict(found_fields(read_json(body), lookup)) == {"a.b.c.d.e.0.f": "1.10"}
    )


# What holds for every answer

RECORDS = st.builds(
    record,
    st.sampled_from(["T-1", "T-2", ""]),
    st.sampled_from([OURS, None, "stp_8"]),
    total=st.sampled_from(["1.10", "1.1", ""]),
)
LOOKUP_FACTS = st.builds(
    LookupFact,
    st.sampled_from(LookupStatus),
    st.lists(RECORDS, max_size=4).map(tuple),
    st.booleans(),
    searched=st.booleans(),
)


@UNHURRIED
@given(
    LOOKUP_FACTS,
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(Settles),
    st.none() | st.just("order-17"),
    st.sampled_from(Effect),
    st.sampled_from(["", "T-9"]),
)
def test_nothing_confirms_or_proves_absence_but_what_may(
    fact: LookupFact,
    counted: bool,
    before: int,
    settles: Settles,
    taken_by: str | None,
    effect: Effect,
    contradicted: str,
) -> None:
    verdict = look(
        fact,
        replace(LOOKUP, settles=settles),
        counted=counted,
        counted_before=before,
        reference_taken_by=taken_by,
        effect=effect,
        contradicted=contradicted,
    )
    if verdict.answer is LookAnswer.CONFIRMED:
        assert {one.reference for one in fact.records if one.identity == OURS} == {verdict.reference}
        assert all(row.match for row in verdict.rows)
        assert taken_by is None or effect is Effect.UPDATE
    if verdict.answer in {LookAnswer.ABSENT, LookAnswer.CONTRADICTED}:
        assert (fact.status, fact.records, fact.complete) == (LookupStatus.RECORDS, (), True)
        assert fact.searched
        assert (verdict.answer is LookAnswer.CONTRADICTED) == bool(contradicted)
        assert counted
        assert before >= 1
        assert settles is Settles.BOTH
    nothing = fact.status is LookupStatus.RECORDS and not fact.records and fact.complete and fact.searched
    assert (verdict.why in FOUND_NOTHING) == nothing
    assert not (verdict.why in GAVE_NO_ANSWER and fact.records and fact.status is LookupStatus.RECORDS)
    if fact.status in {LookupStatus.NO_ANSWER, LookupStatus.ACCESS_REFUSED}:
        assert verdict.why in GAVE_NO_ANSWER
    if verdict.counted:
        assert counted
        assert not fact.records
