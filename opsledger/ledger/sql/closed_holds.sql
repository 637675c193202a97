-- Holds that have ended: by evidence, by a person's answer, or because a stronger question took their place.
UPDATE ledger_hold h
   SET closed_at = now(), closed_by = x.closed_by, answer = x.answer, version = h.version + 1
  FROM json_to_recordset(%s::json) AS x(id uuid, closed_by text, answer text)
 WHERE h.id = x.id AND h.closed_at IS NULL
