-- Holds that have ended: by evidence, by a person's answer, or because a stronger question took their place. What was proposed
-- as their answer, and not accepted, ends with them.
WITH closed AS (
    UPDATE ledger_hold h
       SET closed_at = now(), closed_by = x.closed_by, answer = x.answer, version = h.version + 1
      FROM json_to_recordset(%s::json) AS x(id uuid, closed_by text, answer text)
     WHERE h.id = x.id AND h.closed_at IS NULL
    RETURNING h.id, h.closed_by
)
UPDATE ledger_proposal p
   SET ended_at = now(), ended_how = 'hold_ended', ended_by = closed.closed_by
  FROM closed
 WHERE p.hold_id = closed.id AND p.ended_at IS NULL
