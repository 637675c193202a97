-- Outcomes of attempts, and what the transport saw of them.
UPDATE ledger_attempt a
   SET outcome = x.outcome, no_change = x.no_change, reference = x.reference, known_by = x.known_by,
       lease_ends_at = x.lease_ends_at,
       ended_at = CASE WHEN x.outcome IS NULL THEN NULL ELSE coalesce(a.ended_at, now()) END,
       left_house = coalesce(x.left_house, a.left_house), phase = coalesce(x.phase, a.phase),
       error = coalesce(x.error, a.error), status = coalesce(x.status, a.status),
       elapsed_seconds = coalesce(x.elapsed_seconds, a.elapsed_seconds), sentence = coalesce(x.sentence, a.sentence)
  FROM json_to_recordset(%s::json) AS x(
       id uuid, outcome text, no_change text, reference text, known_by text, lease_ends_at timestamptz,
       left_house boolean, phase text, error text, status smallint, elapsed_seconds double precision, sentence text)
 WHERE a.id = x.id
