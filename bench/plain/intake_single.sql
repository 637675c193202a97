-- pgbench: one operation with two steps and its event, in one statement.
WITH e AS (
    INSERT INTO plain.event (id, event_id, body)
    VALUES (gen_random_uuid(), gen_random_uuid()::text, :payload) RETURNING id
), o AS (
    INSERT INTO plain.operation (id, operation_id, event_id, state, params)
    SELECT gen_random_uuid(), gen_random_uuid()::text, e.id, 'running', :payload FROM e RETURNING id
)
INSERT INTO plain.step (id, operation_id, number, state, due_at)
SELECT gen_random_uuid(), o.id, n, CASE n WHEN 1 THEN 'ready' ELSE 'waiting' END, CASE n WHEN 1 THEN now() END
  FROM o, generate_series(1, 2) n;
