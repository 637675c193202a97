-- A reference belongs to one create step: the unique constraint is the referee. What the step holds already is left out.
INSERT INTO ledger_heldreference (destination_id, reference_key, step_id)
SELECT x.destination_id, decode(x.key, 'hex'), x.step_id
  FROM json_to_recordset(%s::json) AS x(destination_id uuid, key text, step_id uuid)
 WHERE NOT EXISTS (SELECT 1 FROM ledger_heldreference h
                    WHERE h.destination_id = x.destination_id AND h.reference_key = decode(x.key, 'hex')
                      AND h.step_id = x.step_id)
 ORDER BY x.destination_id, x.key
