-- Approvals that are void from now on, because what they covered changed or is approved anew.
UPDATE ledger_approvedrequest a
   SET voided_at = now(), void_reason = x.void_reason
  FROM json_to_recordset(%s::json) AS x(step_id uuid, revision smallint, void_reason text)
 WHERE a.step_id = x.step_id AND a.revision = x.revision AND a.voided_at IS NULL
