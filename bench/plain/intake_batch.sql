-- pgbench: 500 operations in one transaction.
WITH doc AS MATERIALIZED (
    SELECT gen_random_uuid() AS id, gen_random_uuid() AS event, gen_random_uuid()::text AS operation_id
      FROM generate_series(1, 500)
), e AS (
    INSERT INTO plain.event (id, event_id, body) SELECT event, event::text, :payload FROM doc
), o AS (
    INSERT INTO plain.operation (id, operation_id, event_id, state, params)
    SELECT id, operation_id, event, 'running', :payload FROM doc
)
INSERT INTO plain.step (id, operation_id, number, state, due_at)
SELECT gen_random_uuid(), doc.id, n, CASE n WHEN 1 THEN 'ready' ELSE 'waiting' END, CASE n WHEN 1 THEN now() END
  FROM doc, generate_series(1, 2) n;
