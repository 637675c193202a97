-- Requests that an approval covers; one live approval per revision is the table's own rule.
INSERT INTO ledger_approvedrequest (approval_id, step_id, revision, request_digest, approved_until, void_reason)
SELECT approval_id, step_id, revision, request_digest, approved_until, ''
  FROM json_to_recordset(%s::json) AS x(
       approval_id uuid, step_id uuid, revision smallint, request_digest text, approved_until timestamptz)
