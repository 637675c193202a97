-- Claims steps whose turn to be sent has come: at most one per operation, at most `limit`, and of each destination at most
-- the room that it has (claim_room.sql).
-- 0. open: the destinations to which something may be sent now. However long ago the room was taken, what was stopped since is
--    not sent to: sending is on, the destination neither paused nor refused, its circuit closed, or this the trial that it has.
--    The transaction has the claims' lock before this reads, so a stop returns when those that have not seen it have ended
--    (actions/stops.py).
-- 1. due: what the plan says, per destination, oldest first; one destination's backlog hides no other's. Read without locks.
-- 2. picked: their operations' rows, locked in the order of their ids; locked ones are somebody else's turn. What is too late
--    is left to the sweep, unless a person said that it goes all the same.
-- 3. chosen: no more than the room of each destination.
-- 4. claimed: the step as it is now must still say so (the row is checked again under its operation's lock). What is checked
--    stands in a CASE so that the row is found by its id, never by walking an index of everything that is due.
-- 5. The attempt is written; one open attempt per step is the table's own rule. `send_until` stays while it is open: the worker
--    must have begun by then, however long it is held up.
-- 6. The journal's line, as `journal.append` would write it: the operation's chain exists since it was recorded.
-- 7. plain: the operations to which nothing out of the ordinary has happened so far. This statement's snapshot shows them as
--    they were claimed (the version says so), and tells what recording an ordinary reply would else have to read again.
-- What is asked for comes as one document: a plan for unknown numbers is as good as one for known ones, and is kept.
WITH asked AS MATERIALIZED (
    SELECT * FROM json_to_record(%(asked)s::json) AS x(most integer, actor text, worker text, room json)
), room AS MATERIALIZED (
    SELECT x.* FROM asked, json_to_recordset(asked.room)
                                AS x(destination_id uuid, count integer, failing boolean, trial_at timestamptz)
), open AS MATERIALIZED (
    SELECT room.destination_id, room.count, n.current_id AS newest_version_id
      FROM room
      JOIN ledger_destination d ON d.definition_id = room.destination_id
      JOIN ledger_definition n ON n.id = room.destination_id
      JOIN ledger_sendingswitch w ON w.sending
     WHERE d.paused_at IS NULL AND d.access_refused_at IS NULL
       AND (d.circuit_opened_at IS NULL OR d.circuit_trial_at = room.trial_at)
), due AS MATERIALIZED (
    SELECT DISTINCT ON (s.operation_id) s.operation_id, s.id, s.revision, s.act_at, s.lateness_waived,
           open.destination_id, open.count
      FROM open
     CROSS JOIN LATERAL (
           SELECT s.operation_id, s.id, s.revision, s.act_at, s.lateness_waived
             FROM ledger_step s
            WHERE s.destination_id = open.destination_id AND s.act = 'send' AND s.act_at <= now()
              AND (s.send_until IS NULL OR s.send_until > now())
              AND s.tries_used < s.tries_max + s.tries_extra
            ORDER BY s.act_at
            LIMIT open.count * 4) s
     ORDER BY s.operation_id, s.act_at
), picked AS MATERIALIZED (
    SELECT o.id, CASE WHEN o.attempt_count = 0 THEN o.not_after END AS not_after
      FROM ledger_operation o
     WHERE o.id IN (SELECT operation_id FROM due) AND NOT o.cancelled
       AND (o.not_after IS NULL OR o.not_after > now() OR o.attempt_count > 0
            OR o.id IN (SELECT operation_id FROM due WHERE lateness_waived))
     ORDER BY o.id
     LIMIT (SELECT most FROM asked)
       FOR UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT id, revision, not_after FROM (
        SELECT due.id, due.revision, due.count, CASE WHEN NOT due.lateness_waived THEN picked.not_after END AS not_after,
               row_number() OVER (PARTITION BY due.destination_id ORDER BY due.act_at) AS place
          FROM due JOIN picked ON picked.id = due.operation_id) ranked
     WHERE place <= count
), claimed AS (
    UPDATE ledger_step s
       SET state = 'in_flight', act = 'lease', act_at = now() + s.lease_seconds * interval '1 second',
           look_at = NULL, tries_used = s.tries_used + 1, attempt_count = s.attempt_count + 1
      FROM chosen
     WHERE chosen.id = s.id
       AND CASE WHEN s.act = 'send' AND s.act_at <= now() AND s.state IN ('ready', 'unknown')
                     AND s.revision = chosen.revision  -- whose request this statement sees
                     AND (s.send_until IS NULL OR s.send_until > now())
                     AND s.tries_used < s.tries_max + s.tries_extra
                THEN true ELSE false END
    RETURNING s.id, s.operation_id, s.number, s.revision, s.act_at, s.destination_id, s.destination_version_id, s.action,
              s.destination_slug, s.request_digest, s.approval_needed, s.approved_digest, s.attempt_count,
              least(s.send_until, chosen.not_after) AS send_until
), counted AS (
    UPDATE ledger_operation o
       SET attempt_count = o.attempt_count + 1, version = o.version + 1, updated_at = now()
      FROM claimed WHERE o.id = claimed.operation_id
    RETURNING o.id, o.version
), opened AS (
    INSERT INTO ledger_attempt (id, operation_id, step_id, number, revision, worker, opened_at, lease_ends_at,
                                phase, error, sentence)
    SELECT gen_random_uuid(), c.operation_id, c.id, c.attempt_count, c.revision, asked.worker, now(), c.act_at, '', '', ''
      FROM claimed c, asked
    RETURNING id, step_id, number, opened_at, lease_ends_at
), sent AS MATERIALIZED (
    SELECT opened.id AS attempt_id, opened.number AS attempt_number, opened.opened_at, opened.lease_ends_at,
           c.id AS step_id, c.number AS step_number, c.revision, c.operation_id, c.destination_id, c.destination_version_id,
           c.action, c.destination_slug, c.request_digest, c.approval_needed, c.approved_digest, c.send_until, r.method, r.url,
           r.headers, r.body, r.idempotency_key, r.digest
      FROM opened
      JOIN claimed c ON c.id = opened.step_id
      JOIN ledger_steprequest r ON r.step_id = c.id AND r.revision = c.revision
), line AS MATERIALIZED (
    SELECT operation_id,
           '{"attempts":{"' || attempt_id || '":{"lease_ends_at":"'
           || to_char(lease_ends_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00","number":' || attempt_number
           || ',"opened_at":"' || to_char(opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
           || '+00:00","revision":' || revision || ',"step":' || step_number || '}},"digest":"' || digest
           || '","steps":{"' || step_number || '":{"state":"in_flight"}}}' AS body
      FROM sent
), chained AS (
    UPDATE journal_chain c
       SET length = c.length + 1,
           head = journal_hash(c.head, c.subject_kind, c.subject_id, c.length + 1, now(), 'attempt_opened',
                               asked.actor, line.body)
      FROM line, asked WHERE c.subject_id = line.operation_id
    RETURNING c.subject_id, c.subject_kind, c.length, c.head, asked.actor, line.body
), entered AS (
    INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)
    SELECT subject_id, length, subject_kind, now(), 'attempt_opened', actor, body, head FROM chained
), plain AS MATERIALIZED (
    SELECT o.id, counted.version, o.team_id, o.operation_id AS operation_text_id, o.workflow_version_id, p.params, steps.*
      FROM counted
      JOIN claimed c ON c.operation_id = counted.id
      JOIN ledger_operation o ON o.id = counted.id AND o.version = counted.version - 1
      LEFT JOIN ledger_operationparams p ON p.operation_id = o.id AND c.number < o.step_count
     CROSS JOIN LATERAL (
           SELECT array_agg(s.id::text) AS step_ids, array_agg(s.destination_version_id) AS destination_version_ids,
                  array_agg(s.identity) AS identities, array_agg(s.reference) AS step_references,
                  bool_and(CASE WHEN s.number < c.number THEN s.state = 'confirmed' AND s.attempt_count = 1
                                WHEN s.number = c.number THEN s.state = 'ready' AND s.attempt_count = 0
                                ELSE s.state = 'waiting' AND s.attempt_count = 0 AND s.request_digest IS NULL END
                           AND s.revision = 1 AND s.tries_extra = 0 AND s.not_before IS NULL AND s.accepted_at IS NULL
                           AND s.unknown_at IS NULL AND s.looks = 0 AND s.looks_none = 0 AND s.looked_at IS NULL
                           AND s.look_at IS NULL AND s.not_ours = '[]' AND s.record_changed IS NULL
                           AND s.content_number IS NULL AND s.approved_digest IS NULL AND s.approved_until IS NULL
                           AND NOT (s.rejection_waived OR s.lateness_waived OR s.final_waived OR s.never_known OR s.go_on_after
                                    OR s.integrity_alarm OR s.answered_with_error OR s.approval_needed OR s.resend_asked
                                    OR s.look_applies)) AS are_plain
             FROM (SELECT * FROM ledger_step s WHERE s.operation_id = o.id ORDER BY s.number) s) steps
     WHERE o.state = 'running' AND NOT o.cancelled AND o.not_after IS NULL AND o.content_id IS NULL AND steps.are_plain
)
SELECT sent.*, room.failing, open.newest_version_id, plain.version, plain.team_id, plain.operation_text_id, plain.workflow_version_id, plain.params, plain.step_ids,
       plain.destination_version_ids, plain.identities, plain.step_references
  FROM sent JOIN room ON room.destination_id = sent.destination_id JOIN open ON open.destination_id = sent.destination_id
  LEFT JOIN plain ON plain.id = sent.operation_id
