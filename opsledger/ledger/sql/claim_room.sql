-- How many sends each destination may be given now: its rate (a bucket that holds one second's worth) and its limit in
-- flight. A clock that was set back fills no bucket and empties none. While its circuit is open one step may try it now and
-- then; `circuit_trial_at` is then the name of this trial. What is taken here and not used is given back.
-- What has outlived its lease is in flight no more, also where nobody can record that (docs/operating.md).
-- Whether anything may be sent at all is asked here so that nothing is taken in vain; claim_sends.sql decides it.
-- A statement of its own, so that its rows are locked for a moment only, in the order of their ids (else two claims over
-- several destinations block each other). Its commit does not wait for the disk: a server that crashes forgets at most how
-- full a bucket was a moment ago.
WITH locked AS MATERIALIZED (
    SELECT d.definition_id, d.sends_per_second, d.send_tokens, d.tokens_at, d.in_flight_max, d.circuit_opened_at
      FROM ledger_destination d
     WHERE d.paused_at IS NULL AND d.access_refused_at IS NULL
       AND (d.circuit_opened_at IS NULL OR d.circuit_trial_at <= now())
       AND (SELECT sending FROM ledger_sendingswitch)
       AND EXISTS (SELECT 1 FROM ledger_step s
                    WHERE s.destination_id = d.definition_id AND s.act = 'send' AND s.act_at <= now())
     ORDER BY d.definition_id
       FOR NO KEY UPDATE
), room AS (
    SELECT d.definition_id,
           least(greatest(d.sends_per_second, 1.0),
                 d.send_tokens + d.sends_per_second * greatest(extract(epoch FROM now() - d.tokens_at), 0)) AS tokens,
           d.in_flight_max - (SELECT count(*) FROM ledger_step f
                               WHERE f.destination_id = d.definition_id AND f.state = 'in_flight' AND f.act_at > now()) AS free,
           CASE WHEN d.circuit_opened_at IS NULL THEN %(limit)s ELSE 1 END AS most
      FROM locked d
), given AS (
    SELECT definition_id, least(floor(tokens), free, most)::int AS count FROM room WHERE tokens >= 1 AND free >= 1
)
UPDATE ledger_destination d
   SET send_tokens = least(greatest(d.sends_per_second, 1.0),
                           d.send_tokens + d.sends_per_second * greatest(extract(epoch FROM now() - d.tokens_at), 0)) - given.count,
       tokens_at = now(),
       circuit_trial_at = CASE WHEN d.circuit_opened_at IS NOT NULL
                               THEN now() + %(trial_every_seconds)s * interval '1 second' END
  FROM given
 WHERE d.definition_id = given.definition_id AND (d.circuit_opened_at IS NULL OR d.circuit_trial_at <= now())
RETURNING d.definition_id, given.count, d.failures_in_a_row > 0, d.circuit_trial_at, set_config('synchronous_commit', 'off', true)
