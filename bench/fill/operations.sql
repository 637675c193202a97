-- Completed operations number {first} to {last} of {total}, spread over the year that ended an hour ago, oldest first.
-- Written by the superuser with triggers and foreign keys off: this is filling, not measuring.
WITH made AS MATERIALIZED (
    SELECT n, at,
           (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5('a' || n), 1, 3)
            || '8' || substr(md5('b' || n), 1, 15))::uuid AS id,
           (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5('c' || n), 1, 3)
            || '8' || substr(md5('d' || n), 1, 15))::uuid AS step_1,
           (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5('e' || n), 1, 3)
            || '8' || substr(md5('f' || n), 1, 15))::uuid AS step_2
      FROM (SELECT n, now() - interval '1 hour' - ({total} - n) * (interval '365 days' / {total}) AS at
              FROM generate_series({first}, {last}) n) numbered
), o AS (
    INSERT INTO ledger_operation (id, team_id, operation_id, title, workflow_version_id, workflow_slug, digest, state, version,
                                  cancelled, created_at, updated_at, ended_at, step_count, attempt_count, confirmed_count,
                                  event_count)
    SELECT id, '{team}', 'shop:' || md5(n::text), 'Call Alder Works about Spring launch', '{workflow_version}', 'two_steps',
           sha256(n::text::bytea), 'completed', 5, false, at, at + interval '2 seconds', at + interval '2 seconds', 2, 2, 2, 0
      FROM made
), p AS (
    INSERT INTO ledger_operationparams (operation_id, params) SELECT id, '{params}' FROM made
), s AS (
    INSERT INTO ledger_step (id, team_id, operation_id, number, name, title, destination_id, destination_version_id,
                             destination_slug, action, performer, state, revision, request_digest, reference, tries_extra,
                             ready_at, looks, looks_none, rejection_waived, lateness_waived, final_waived, never_known,
                             go_on_after, not_ours, integrity_alarm, answered_with_error, approval_needed, act,
                             attempt_count, tries_used, tries_max, lease_seconds, total_seconds)
    SELECT CASE number WHEN 1 THEN step_1 ELSE step_2 END, '{team}', id, number,
           CASE number WHEN 1 THEN 'create_task' ELSE 'create_reminder' END, 'Create the task', '{destination}',
           '{destination_version}', 'desk', CASE number WHEN 1 THEN 'create_task' ELSE 'create_reminder' END, 'engine',
           'confirmed', 1, md5(n::text) || md5(number::text), 'T-' || n || '-' || number, 0, at, 0, 0, false, false, false,
           false, false, '[]', false, false, false, 'none', 1, 1, 5, 15, 5
      FROM made, generate_series(1, 2) number
), a AS (
    INSERT INTO ledger_attempt (id, operation_id, step_id, number, revision, worker, opened_at, lease_ends_at, ended_at,
                                outcome, reference, known_by, left_house, phase, error, status, elapsed_seconds, sentence)
    SELECT gen_random_uuid(), id, CASE number WHEN 1 THEN step_1 ELSE step_2 END, 1, 1, 'earlier', at,
           at + interval '15 seconds', at + interval '1 second', 'confirmed', 'T-' || n || '-' || number, 'reply', true, 'done',
           '', 201, 0.2, 'desk answered 201 with a reference.'
      FROM made, generate_series(1, 2) number
), h AS (
    INSERT INTO ledger_heldreference (destination_id, reference_key, step_id)
    SELECT '{destination}', sha256(('T-' || n || '-' || number)::bytea), CASE number WHEN 1 THEN step_1 ELSE step_2 END
      FROM made, generate_series(1, 2) number
)
INSERT INTO ledger_evidence (id, operation_id, step_id, attempt_id, kind, origin, received_at, digest, says, sentence, facts,
                             content, late)
SELECT gen_random_uuid(), id, CASE number WHEN 1 THEN step_1 ELSE step_2 END, NULL, 'reply', 'desk', at, sha256('x'),
       'confirmed', 'desk answered 201 with a reference.', '{{"status":201}}', '\x7b7d', false
  FROM made, generate_series(1, 2) number
 WHERE made.n > {total} - {whole}
