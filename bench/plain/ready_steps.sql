-- Steps for the worker's limit, all due.
TRUNCATE plain.step, plain.attempt;
INSERT INTO plain.step (id, operation_id, number, state, due_at)
SELECT gen_random_uuid(), gen_random_uuid(), 1, 'ready', now() - n * interval '1 microsecond' FROM generate_series(1, %s) n;
ANALYZE plain.step;
