-- What a decision changed on operations; their rows are locked already.
UPDATE ledger_operation o
   SET state = x.state, cancelled = x.cancelled, not_after = x.not_after, version = o.version + 1, updated_at = now(),
       ended_at = CASE WHEN x.ended THEN coalesce(o.ended_at, now()) END,
       unknown_at = CASE WHEN x.became_unknown THEN now() ELSE o.unknown_at END,
       attempt_count = x.attempt_count, confirmed_count = x.confirmed_count
  FROM json_to_recordset(%s::json) AS x(
       id uuid, state text, cancelled boolean, not_after timestamptz, ended boolean, became_unknown boolean,
       attempt_count integer, confirmed_count smallint)
 WHERE o.id = x.id
