-- Requests, frozen once per step and revision.
INSERT INTO ledger_steprequest (step_id, revision, method, url, headers, body, idempotency_key, digest, content_digest, rendered_at)
SELECT step_id, revision, method, url, headers, decode(body, 'base64'), idempotency_key, digest, content_digest, now()
  FROM json_to_recordset(%s::json) AS x(
       step_id uuid, revision smallint, method text, url text, headers text, body text, idempotency_key text,
       digest text, content_digest text)
