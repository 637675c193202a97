-- A reference belongs to one create step: the unique constraint is the referee.
INSERT INTO ledger_heldreference (destination_id, reference_key, step_id)
SELECT destination_id, decode(key, 'hex'), step_id
  FROM json_to_recordset(%s::json) AS x(destination_id uuid, key text, step_id uuid)
