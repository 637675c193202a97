-- References that a withdrawn or disputed answer held.
DELETE FROM ledger_heldreference h
 USING json_to_recordset(%s::json) AS x(destination_id uuid, key text, step_id uuid)
 WHERE h.destination_id = x.destination_id AND h.reference_key = decode(x.key, 'hex') AND h.step_id = x.step_id
