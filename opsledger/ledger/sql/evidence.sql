-- Everything learnt is kept, also what came too late to matter.
INSERT INTO ledger_evidence (id, operation_id, step_id, attempt_id, kind, origin, received_at, occurred_at, digest, says,
                             sentence, facts, content, late)
SELECT id, operation_id, step_id, attempt_id, kind, origin, now(), occurred_at, decode(digest, 'hex'), says,
       sentence, facts, decode(content, 'hex'), late
  FROM json_to_recordset(%s::json) AS x(
       id uuid, operation_id uuid, step_id uuid, attempt_id uuid, kind text, origin text, occurred_at timestamptz,
       digest text, says text, sentence text, facts text, content text, late boolean)
