-- Requests and journals of the newest part, which alone is filled whole: five lines for each operation.
WITH newest AS MATERIALIZED (
    SELECT o.id, o.created_at FROM ledger_operation o
     WHERE o.team_id = '{team}' AND o.state = 'completed' AND o.id > '{after}'
       AND NOT EXISTS (SELECT 1 FROM journal_chain c WHERE c.subject_id = o.id) ORDER BY o.id LIMIT {batch}
), requests AS (
    INSERT INTO ledger_steprequest (step_id, revision, method, url, headers, body, idempotency_key, digest, content_digest,
                                    rendered_at)
    SELECT s.id, 1, 'POST', 'http://desk.example/crm/tasks', '[["Content-Type","application/json"]]',
           convert_to('{params}', 'UTF8'), md5(s.id::text), s.request_digest, s.request_digest, newest.created_at
      FROM newest JOIN ledger_step s ON s.operation_id = newest.id
), chains AS (
    INSERT INTO journal_chain (subject_id, subject_kind, length, head)
    SELECT id, 'operation', 5, sha256(id::text::bytea) FROM newest
), entries AS (
    INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)
    SELECT id, seq, 'operation', created_at,
           (ARRAY['operation_recorded', 'attempt_opened', 'attempt_ended', 'attempt_opened', 'attempt_ended'])[seq],
           'worker:earlier', '{{"attempts":{{"' || id || '":{{"outcome":"confirmed","reference":"T-1"}}}},"filled":"'
           || repeat('x', 200) || '"}}', sha256(convert_to(id::text || seq, 'UTF8'))
      FROM newest, generate_series(1, 5) seq
)
SELECT max(id::text)::uuid, count(*) FROM newest
