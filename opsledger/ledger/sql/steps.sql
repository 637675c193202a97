-- What a decision changed on steps; their operations' rows are locked already.
UPDATE ledger_step s
   SET state = x.state, revision = x.revision, request_digest = x.request_digest, reference = x.reference,
       tries_extra = x.tries_extra, not_before = x.not_before, ready_at = x.ready_at, accepted_at = x.accepted_at,
       unknown_at = x.unknown_at, looks = x.looks, looks_none = x.looks_none, looked_at = x.looked_at,
       look_at = x.look_at, rejection_waived = x.rejection_waived, lateness_waived = x.lateness_waived,
       final_waived = x.final_waived, never_known = x.never_known, go_on_after = x.go_on_after, not_ours = x.not_ours,
       integrity_alarm = x.integrity_alarm, record_changed = x.record_changed,
       answered_with_error = x.answered_with_error, approval_needed = x.approval_needed,
       content_number = x.content_number, approved_digest = x.approved_digest, approved_until = x.approved_until,
       resend_asked = x.resend_asked, look_applies = x.look_applies,
       act = x.act, act_at = x.act_at, send_until = x.send_until, tries_used = x.tries_used,
       attempt_count = x.attempt_count, look_lease_until = NULL
  FROM json_to_recordset(%s::json) AS x(
       id uuid, state text, revision smallint, request_digest text, reference text, tries_extra integer,
       not_before timestamptz, ready_at timestamptz, accepted_at timestamptz, unknown_at timestamptz,
       looks integer, looks_none integer, looked_at timestamptz, look_at timestamptz, rejection_waived boolean,
       lateness_waived boolean, final_waived boolean, never_known boolean, go_on_after boolean, not_ours jsonb,
       integrity_alarm boolean, record_changed boolean, answered_with_error boolean, approval_needed boolean,
       content_number integer, approved_digest text, approved_until timestamptz, resend_asked boolean, look_applies boolean,
       act text, act_at timestamptz,
       send_until timestamptz, tries_used integer, attempt_count integer)
 WHERE s.id = x.id
