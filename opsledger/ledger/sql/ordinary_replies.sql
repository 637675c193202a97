-- What ordinary replies make of their operations: each step is confirmed by its only attempt, the next one becomes ready with
-- its request frozen, or the operation is completed. Everything of a reply is here or nothing of it.
-- 1. known: the operations that are still as their claims left them (the version says so), locked in the order of their ids.
--    The others are not touched; what is returned was recorded.
-- 2. Times are this transaction's, also in the journal's lines, which carry a mark (chr(1)) in their place.
-- 3. A reference that another step holds already stops the whole statement: the unique constraint is the referee.
WITH reply AS MATERIALIZED (
    SELECT x.*
      FROM json_to_recordset(%(replies)s::json) AS x(
           operation_id uuid, version integer, step_id uuid, attempt_id uuid, destination_id uuid, reference text, key text,
           state text, ended boolean, body text,
           left_house boolean, phase text, error text, status smallint, elapsed_seconds double precision, sentence text,
           evidence_id uuid, origin text, actor text, says text, facts text, digest text, content text,
           next_id uuid, next_act text, next_after double precision, method text, url text, headers text, request_body text,
           idempotency_key text, request_digest text, content_digest text)
), locked AS MATERIALIZED (
    SELECT o.id FROM ledger_operation o JOIN reply ON reply.operation_id = o.id AND reply.version = o.version
     ORDER BY o.id
       FOR UPDATE OF o
), known AS MATERIALIZED (
    SELECT reply.* FROM reply JOIN locked ON locked.id = reply.operation_id
), operation AS (
    UPDATE ledger_operation o
       SET state = known.state, version = o.version + 1, updated_at = now(), confirmed_count = o.confirmed_count + 1,
           ended_at = CASE WHEN known.ended THEN now() END
      FROM known WHERE o.id = known.operation_id
), moved AS MATERIALIZED (
    SELECT step_id AS id, 'confirmed' AS state, reference, 'none' AS act, NULL::double precision AS after,
           NULL::text AS request_digest
      FROM known
     UNION ALL
    SELECT next_id, 'ready', NULL, next_act, next_after, request_digest FROM known WHERE next_id IS NOT NULL
), step AS (
    UPDATE ledger_step s
       SET state = moved.state, reference = moved.reference, act = moved.act,
           act_at = now() + moved.after * interval '1 second', send_until = NULL, look_lease_until = NULL,
           ready_at = CASE WHEN moved.state = 'ready' THEN now() ELSE s.ready_at END,
           request_digest = coalesce(moved.request_digest, s.request_digest)
      FROM moved WHERE s.id = moved.id
), attempt AS (
    UPDATE ledger_attempt a
       SET outcome = 'confirmed', reference = known.reference, known_by = 'reply', ended_at = now(),
           left_house = known.left_house, phase = known.phase, error = coalesce(known.error, ''), status = known.status,
           elapsed_seconds = known.elapsed_seconds, sentence = known.sentence
      FROM known WHERE a.id = known.attempt_id
), request AS (
    INSERT INTO ledger_steprequest (step_id, revision, method, url, headers, body, idempotency_key, digest, content_digest,
                                    rendered_at)
    SELECT next_id, 1, method, url, headers, decode(request_body, 'base64'), idempotency_key, request_digest, content_digest,
           now()
      FROM known WHERE next_id IS NOT NULL
), held AS (
    INSERT INTO ledger_heldreference (destination_id, reference_key, step_id)
    SELECT destination_id, decode(key, 'hex'), step_id FROM known WHERE key IS NOT NULL ORDER BY destination_id, key
), evidence AS (
    INSERT INTO ledger_evidence (id, operation_id, step_id, attempt_id, kind, origin, received_at, digest, says, sentence, facts,
                                 content, late)
    SELECT evidence_id, operation_id, step_id, attempt_id, 'reply', origin, now(), decode(digest, 'hex'), says, sentence, facts,
           decode(content, 'hex'), false
      FROM known
), line AS MATERIALIZED (
    SELECT operation_id, actor,
           replace(body, chr(1), to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00') AS body
      FROM known
), chained AS (
    UPDATE journal_chain c
       SET length = c.length + 1,
           head = journal_hash(c.head, c.subject_kind, c.subject_id, c.length + 1, now(), 'attempt_ended', line.actor, line.body)
      FROM line WHERE c.subject_id = line.operation_id
    RETURNING c.subject_id, c.subject_kind, c.length, c.head, line.actor, line.body
), entered AS (
    INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)
    SELECT subject_id, length, subject_kind, now(), 'attempt_ended', actor, body, head FROM chained
)
SELECT operation_id FROM known
