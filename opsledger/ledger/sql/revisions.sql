-- Changed requests, from the second one of a step on; the first has its parameters from its operation.
INSERT INTO ledger_revision (step_id, number, kind, params, content_number, author, author_person_id, created_at)
SELECT step_id, number, kind, params, content_number, author, author_person_id, now()
  FROM json_to_recordset(%s::json) AS x(
       step_id uuid, number smallint, kind text, params text, content_number integer, author text, author_person_id uuid)
