-- How many items each running replay may start now at each destination: its rate, from a bucket that holds one second's
-- worth. Rows that another worker is at are left to it. What is taken here and not used is given back.
WITH locked AS MATERIALIZED (
    SELECT d.id, d.replay_id, d.destination_id, d.per_second, d.tokens, d.tokens_at, d.waiting_count
      FROM ledger_replaydestination d
      JOIN ledger_replay r ON r.id = d.replay_id
     WHERE r.state = 'running' AND d.waiting_count > 0
     ORDER BY d.id
       FOR NO KEY UPDATE OF d SKIP LOCKED
), room AS (
    SELECT id, least(greatest(per_second, 1.0), tokens + per_second * extract(epoch FROM now() - tokens_at)) AS tokens,
           least(waiting_count, %(most)s) AS most
      FROM locked
), given AS (
    SELECT id, tokens, least(floor(tokens), most)::int AS count FROM room WHERE tokens >= 1
)
UPDATE ledger_replaydestination d SET tokens = given.tokens - given.count, tokens_at = now()
  FROM given WHERE d.id = given.id
RETURNING d.id, d.replay_id, d.destination_id, given.count
