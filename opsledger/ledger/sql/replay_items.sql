-- The frozen list of a replay. Its items are written in the order of their steps' operations, as every replay does, so that
-- two that share steps wait for each other and never block each other.
INSERT INTO ledger_replayitem (replay_id, position, operation_id, operation_version, step_id, number, destination_id,
                               rebound_to_id, verdict, reason, detail, until, mark, leads, state, result, said)
SELECT %s, position, operation_id, operation_version, step_id, number, destination_id, rebound_to_id, verdict, reason, detail,
       until, decode(mark, 'hex'), leads, state, '', ''
  FROM json_to_recordset(%s::json) AS x(
       position integer, operation_id uuid, operation_version integer, step_id uuid, number smallint, destination_id uuid,
       rebound_to_id uuid, verdict text, reason text, detail text, until timestamptz, mark text, leads boolean, state text)
 ORDER BY position
