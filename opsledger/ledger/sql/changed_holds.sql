-- What was learnt while a hold stays open. Its version grows: a decision made before knew less.
UPDATE ledger_hold h
   SET facts = x.facts, version = h.version + 1
  FROM json_to_recordset(%s::json) AS x(id uuid, facts text)
 WHERE h.id = x.id AND h.closed_at IS NULL
