-- Requests, frozen once per step and revision. One that was rendered while the step had to wait for a person is there already;
-- were it another one, its digest would not be the step's, and nothing would be sent.
INSERT INTO ledger_steprequest (step_id, revision, method, url, headers, body, idempotency_key, digest, content_digest, rendered_at)
SELECT step_id, revision, method, url, headers, decode(body, 'base64'), idempotency_key, digest, content_digest, now()
  FROM json_to_recordset(%s::json) AS x(
       step_id uuid, revision smallint, method text, url text, headers text, body text, idempotency_key text,
       digest text, content_digest text)
    ON CONFLICT (step_id, revision) DO NOTHING
