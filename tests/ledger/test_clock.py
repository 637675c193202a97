"""The database's clock, asked seldom and never run ahead of."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from opsledger.ledger.clock import database_now, lately_now


@pytest.mark.django_db(transaction=True)
def test_the_clock_is_carried_on_between_two_questions_and_never_ahead() -> None:
    seen = [lately_now()]
    with CaptureQueriesContext(
        connection,
    ) as asked:
        seen += [lately_now() for _ in range(100)]
    assert seen == sorted(seen)
    assert len(asked) <= 1
    assert timedelta() <= database_now() - seen[-1] < timedelta(seconds=2)


@pytest.mark.django_db(transaction=True)
def test_inside_a_transaction_it_is_the_transaction_s_time() -> None:
    with transaction.atomic():
        assert lately_now() == lately_now() == database_now()
