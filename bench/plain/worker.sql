-- pgbench: claim 50 steps and open their attempts; then record 50 outcomes. Two transactions, as ours are.
WITH due AS MATERIALIZED (
    SELECT id FROM plain.step WHERE state = 'ready' AND due_at <= now() ORDER BY due_at, id LIMIT 50 FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE plain.step s SET state = 'in_flight', due_at = now() + interval '15 seconds' FROM due WHERE s.id = due.id
    RETURNING s.id
), opened AS (
    INSERT INTO plain.attempt (id, step_id) SELECT gen_random_uuid(), id FROM claimed RETURNING id, step_id
)
SELECT coalesce(array_agg(step_id), '{}')::text AS steps FROM opened \gset
WITH ended AS (
    UPDATE plain.attempt SET outcome = 'confirmed', ended_at = now(), reference = step_id::text
     WHERE step_id = ANY((:steps)::text::uuid[]) AND outcome IS NULL
)
UPDATE plain.step SET state = 'confirmed', reference = id::text WHERE id = ANY((:steps)::text::uuid[]);
