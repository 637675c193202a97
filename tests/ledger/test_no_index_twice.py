"""No index says what a longer one says: each is written with every row, and a planner may read by the shorter one."""

import pytest
from django.db import connection

COVERED = """
SELECT short.relname, long.relname
  FROM pg_index s JOIN pg_class short ON short.oid = s.indexrelid
  JOIN pg_index l ON l.indrelid = s.indrelid AND l.indexrelid <> s.indexrelid JOIN pg_class long ON long.oid = l.indexrelid
 WHERE s.indrelid::regclass::text ~ '^(ledger|journal)_' AND NOT s.indisunique AND s.indpred IS NULL AND l.indpred IS NULL
   AND s.indnkeyatts = 1 AND s.indkey[0] <> 0 AND l.indkey[0] = s.indkey[0] AND l.indclass[0] = s.indclass[0]
 ORDER BY 1, 2
"""


@pytest.mark.django_db
def test_no_index_is_the_beginning_of_another() -> None:
    with connection.cursor() as cursor:
        cursor.execute(COVERED)
        assert cursor.fetchall() == []
