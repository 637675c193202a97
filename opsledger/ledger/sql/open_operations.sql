-- Operations with everything that belongs to them but holds. What many of them share comes once (`moulds`), their own values
-- come as columns of arrays, a place in each for one operation, one step with its request; `mould` says which one it was cast in,
-- counted from 1. The unique constraint decides who is first, of two at once the one with the lower id; what is returned was new.
-- Rows of a loser are not written at all. The statement is kept short: see `statement`.
WITH mould AS (
    SELECT m.number, x.*
      FROM json_array_elements(%(moulds)s::json) WITH ORDINALITY AS m(body, number), json_to_record(m.body) AS x(
           team_id uuid, workflow_version_id uuid, workflow_slug text, state text, content_id uuid, not_after timestamptz,
           created_at timestamptz, step_count int, actor text, steps json)
), mould_step AS MATERIALIZED (
    SELECT mould.number AS mould, mould.team_id, s.*
      FROM mould, json_to_recordset(mould.steps) AS s(
           number int, name text, title text, destination_id uuid, destination_version_id uuid, destination_slug text,
           action text, performer text, state text, approval_needed bool, content_number int, act text,
           ready_at timestamptz, act_at timestamptz, tries_max int, lease_seconds float, total_seconds float)
), doc AS (
    SELECT *
      FROM unnest(%(ids)s, %(id_moulds)s, %(operation_ids)s, %(titles)s, %(digests)s, %(owners)s, %(events)s, %(replaced)s,
                  %(params)s, %(lines)s)
        AS x(id, mould, operation_id, title, digest, owner_id, first_event_id, replaces_id, params, line)
), step AS (
    SELECT *
      FROM unnest(%(step_ids)s, %(step_operations)s, %(step_moulds)s, %(numbers)s, %(identities)s,
                  %(methods)s, %(urls)s, %(headers)s, %(bodies)s, %(keys)s, %(request_digests)s, %(content_digests)s)
        AS x(id, operation_id, mould, number, identity, method, url, headers, body, key, digest, content_digest)
), inserted AS (
    INSERT INTO ledger_operation (id, team_id, operation_id, title, workflow_version_id, workflow_slug, digest, state, version,
                                  cancelled, owner_id, content_id, first_event_id, replaces_id, not_after, created_at, updated_at,
                                  step_count, attempt_count, confirmed_count, event_count)
    SELECT id, team_id, operation_id, title, workflow_version_id, workflow_slug, digest, state, 1, false, owner_id, content_id,
           first_event_id, replaces_id, not_after, created_at, created_at, step_count, 0, 0, 0
      FROM doc JOIN mould ON number = mould ORDER BY team_id, operation_id, id
    ON CONFLICT (team_id, operation_id) DO NOTHING
    RETURNING id
), lost AS (
    SELECT id FROM doc EXCEPT SELECT id FROM inserted
), params AS (
    INSERT INTO ledger_operationparams (operation_id, params)
    SELECT id, params FROM doc WHERE id NOT IN (SELECT id FROM lost)
), steps AS (
    INSERT INTO ledger_step (id, team_id, operation_id, number, name, identity, title, destination_id, destination_version_id,
                             destination_slug, action, performer, state, revision, request_digest, tries_extra, ready_at,
                             looks, looks_none, rejection_waived, lateness_waived, final_waived, never_known, go_on_after,
                             not_ours, integrity_alarm, record_changed, answered_with_error,
                             approval_needed, content_number, act, act_at, attempt_count,
                             tries_used, tries_max, lease_seconds, total_seconds)
    SELECT s.id, m.team_id, s.operation_id, m.number, m.name, s.identity, m.title, m.destination_id, m.destination_version_id,
           m.destination_slug, m.action, m.performer, m.state, 1, s.digest, 0, m.ready_at,
           0, 0, false, false, false, false, false, '[]', false, NULL, false, m.approval_needed, m.content_number, m.act, m.act_at, 0,
           0, m.tries_max, m.lease_seconds, m.total_seconds
      FROM step s JOIN mould_step m ON m.mould = s.mould AND m.number = s.number
     WHERE s.operation_id NOT IN (SELECT id FROM lost)
), requests AS (
    INSERT INTO ledger_steprequest (step_id, revision, method, url, headers, body, idempotency_key, digest, content_digest,
                                    rendered_at)
    SELECT id, 1, method, url, headers, body, key, digest, content_digest, now()
      FROM step WHERE digest IS NOT NULL AND operation_id NOT IN (SELECT id FROM lost)
), line AS (
    SELECT id, actor, line,
           journal_hash('\x0000000000000000000000000000000000000000000000000000000000000000'::bytea,
                        'operation', id, 1, now(), 'operation_recorded', actor, line) AS hash
      FROM doc JOIN mould ON number = mould WHERE id NOT IN (SELECT id FROM lost)
), chained AS (
    INSERT INTO journal_chain (subject_id, subject_kind, length, head) SELECT id, 'operation', 1, hash FROM line
), entered AS (
    INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)
    SELECT id, 1, 'operation', now(), 'operation_recorded', actor, line, hash FROM line
)
SELECT id FROM inserted
