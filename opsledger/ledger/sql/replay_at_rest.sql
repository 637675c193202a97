-- Items whose step has come to rest: it is done or over, or a person is asked, and nothing is under way that would end that by
-- itself. Lookups that a replay asked for settle what they find, so their end is waited for; others only propose.
SELECT i.id, i.replay_id, s.state, s.never_known, o.cancelled, h.reason
  FROM ledger_replayitem i
  JOIN ledger_replay r ON r.id = i.replay_id
  JOIN ledger_step s ON s.id = i.step_id
  JOIN ledger_operation o ON o.id = i.operation_id
  LEFT JOIN ledger_hold h ON h.step_id = s.id AND h.closed_at IS NULL
 WHERE i.state = 'started' AND r.state IN ('running', 'paused', 'aborting')
   AND CASE WHEN s.state IN ('confirmed', 'accepted', 'failed', 'cancelled', 'skipped') THEN true
            WHEN s.state = 'waiting' AND h.id IS NULL THEN NOT EXISTS (
                 SELECT FROM ledger_step q LEFT JOIN ledger_hold w ON w.step_id = q.id AND w.closed_at IS NULL
                  WHERE q.operation_id = s.operation_id AND q.number < s.number
                    AND (q.act IN ('send', 'offer', 'lease') OR (q.act = 'look' AND (q.look_applies OR w.id IS NULL))))
            ELSE s.act = 'none' OR (s.act = 'look' AND h.id IS NOT NULL AND NOT s.look_applies) END
 ORDER BY i.replay_id, i.id
 LIMIT %s
