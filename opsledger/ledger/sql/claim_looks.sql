-- Claims lookups that are due; `look_lease_until` keeps one from being made twice at once. Nothing but that changes.
-- Each destination offers no more than it has room for in this turn, and they take turns: one that answers slowly, or has a
-- long backlog, is not in the way of the others.
WITH busy AS MATERIALIZED (
    SELECT key::uuid AS destination_id, value::int AS count FROM json_each_text(%(busy)s::json)
), offered AS MATERIALIZED (
    SELECT c.id, c.act_at, c.place
      FROM ledger_destination d
      LEFT JOIN busy b ON b.destination_id = d.definition_id
     CROSS JOIN LATERAL (
           SELECT s.id, s.act_at, row_number() OVER (ORDER BY s.act_at, s.id) AS place
             FROM (SELECT s.id, s.act_at
                     FROM ledger_step s
                    WHERE s.act = 'look' AND s.destination_id = d.definition_id AND s.act_at <= now()
                      AND (s.look_lease_until IS NULL OR s.look_lease_until < now())
                    ORDER BY s.act_at, s.id
                    LIMIT greatest(0, %(each)s - coalesce(b.count, 0))) s) c
), due AS MATERIALIZED (
    SELECT s.id
      FROM offered c JOIN ledger_step s ON s.id = c.id
     WHERE s.act = 'look' AND s.act_at <= now() AND (s.look_lease_until IS NULL OR s.look_lease_until < now())
     ORDER BY c.place, c.act_at, s.id
     LIMIT %(limit)s
       FOR UPDATE OF s SKIP LOCKED
), claimed AS (
    UPDATE ledger_step s SET look_lease_until = now() + s.lease_seconds * interval '1 second'
      FROM due WHERE s.id = due.id
    RETURNING s.id, s.operation_id, s.number, s.state, s.revision, s.reference, s.destination_id, s.destination_version_id, s.action,
              s.destination_slug, s.identity
)
SELECT c.id AS step_id, c.operation_id, c.number AS step_number, c.state, c.reference, c.destination_id, c.destination_version_id, c.action,
       c.destination_slug, c.identity, now() AS asked_at, r.method, r.url, r.headers, r.body, r.idempotency_key, o.team_id, p.params,
       CASE WHEN c.revision > 1 THEN (SELECT v.params FROM ledger_revision v
                                       WHERE v.step_id = c.id AND v.number = c.revision) END AS revised,
       (SELECT a.reference FROM ledger_attempt a
         WHERE a.step_id = c.id AND a.outcome = 'unknown' AND a.reference IS NOT NULL
         ORDER BY a.number DESC LIMIT 1) AS hint
  FROM claimed c
  JOIN ledger_operation o ON o.id = c.operation_id
  JOIN ledger_operationparams p ON p.operation_id = c.operation_id
  LEFT JOIN ledger_steprequest r ON r.step_id = c.id AND r.revision = c.revision
