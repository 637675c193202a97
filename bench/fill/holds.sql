-- Turns the newest {count} completed operations into open questions: step 1 unknown, step 2 waiting, one hold each.
WITH chosen AS MATERIALIZED (
    SELECT id, row_number() OVER (ORDER BY id) AS n, created_at FROM ledger_operation
     WHERE team_id = '{team}' AND state = 'completed' ORDER BY id DESC LIMIT {count}
), o AS (
    UPDATE ledger_operation o SET state = 'held', ended_at = NULL, confirmed_count = 0, unknown_at = now() FROM chosen
     WHERE o.id = chosen.id
), held AS (
    DELETE FROM ledger_heldreference h USING ledger_step s, chosen WHERE s.operation_id = chosen.id AND h.step_id = s.id
), s AS (
    UPDATE ledger_step s SET state = CASE number WHEN 1 THEN 'unknown' ELSE 'waiting' END, reference = NULL,
           attempt_count = CASE number WHEN 1 THEN 1 ELSE 0 END, unknown_at = CASE number WHEN 1 THEN now() END, looks = 3
      FROM chosen WHERE s.operation_id = chosen.id
    RETURNING s.id, s.operation_id, s.number
), a AS (
    UPDATE ledger_attempt a SET outcome = 'unknown', reference = NULL, known_by = 'lease', sentence = 'No answer came in time.'
      FROM s WHERE a.step_id = s.id AND s.number = 1
)
INSERT INTO ledger_hold (id, team_id, operation_id, step_id, reason, version, opened_at, due_at, closed_by, answer, owner_id,
                         facts, if_nobody, title, operation_text_id, destination_slug, action, workflow_slug)
SELECT gen_random_uuid(), '{team}', chosen.id, s.id,
       (ARRAY['outcome_unknown', 'duplicate_found', 'record_differs', 'disputed', 'outcome_unknown'])[1 + chosen.n % 5], 1,
       now() - chosen.n * interval '1 second', now() + (chosen.n - {count} / 5) * interval '10 seconds', '', '',
       CASE WHEN chosen.n % 3 > 0 THEN '{person}'::uuid END, '{{}}', 'The customer is not called.',
       'Call Alder Works about Spring launch', 'shop:' || chosen.n, 'desk', 'create_task', 'two_steps'
  FROM chosen JOIN s ON s.operation_id = chosen.id AND s.number = 1
