-- Attempts opened outside the hot claim: by an automation, or forgotten by a restored backup.
INSERT INTO ledger_attempt (id, operation_id, step_id, number, revision, worker, opened_at, lease_ends_at, outcome, no_change,
                            known_by, ended_at, phase, error, sentence)
SELECT id, operation_id, step_id, number, revision, coalesce(worker, ''), opened_at, lease_ends_at, outcome, no_change,
       known_by, CASE WHEN outcome IS NOT NULL THEN now() END, '', '', coalesce(sentence, '')
  FROM json_to_recordset(%s::json) AS x(
       id uuid, operation_id uuid, step_id uuid, number smallint, revision smallint, worker text,
       opened_at timestamptz, lease_ends_at timestamptz, outcome text, no_change text, known_by text, sentence text)
