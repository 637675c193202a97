-- The limit of planning a replay: one statement that reads the same rows and gives each step a word, without protection,
-- lookups, definitions or digests.
SELECT s.operation_id, s.number, s.id, o.version, s.request_digest, s.reference,
       CASE WHEN s.state IN ('confirmed', 'accepted', 'skipped') THEN 'keep'
            WHEN o.cancelled OR s.state IN ('in_flight', 'failed', 'cancelled') THEN 'refuse'
            WHEN h.reason IN ('disputed', 'record_differs', 'duplicate_found', 'integrity_alarm') THEN 'refuse'
            WHEN s.state = 'unknown' THEN 'look' ELSE 'send' END AS word,
       a.number, a.outcome, a.opened_at, h.id, p.params
  FROM ledger_operation o
  JOIN ledger_operationparams p ON p.operation_id = o.id
  JOIN ledger_step s ON s.operation_id = o.id
  LEFT JOIN LATERAL (SELECT number, outcome, opened_at FROM ledger_attempt a WHERE a.step_id = s.id
                      ORDER BY number DESC LIMIT 1) a ON true
  LEFT JOIN ledger_hold h ON h.step_id = s.id AND h.closed_at IS NULL
 WHERE o.id = ANY(%s) ORDER BY o.id, s.number
