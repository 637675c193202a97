-- Operations with everything that belongs to them, from one JSON document. The unique constraint decides who is first;
-- what is returned was new. Rows of a loser are not written at all.
WITH doc AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%s::json) AS x(
        id uuid, team_id uuid, operation_id text, title text, created_at timestamptz, workflow_version_id uuid,
        workflow_slug text, digest text, state text, owner_id uuid, content_id uuid, first_event_id uuid, replaces_id uuid,
        not_after timestamptz, step_count smallint, params text, actor text, body text, steps json, requests json, holds json)
), inserted AS (
    INSERT INTO ledger_operation (id, team_id, operation_id, title, workflow_version_id, workflow_slug, digest, state, version,
                                  cancelled, owner_id, content_id, first_event_id, replaces_id, not_after, created_at, updated_at,
                                  step_count, attempt_count, confirmed_count, event_count)
    SELECT id, team_id, operation_id, title, workflow_version_id, workflow_slug, decode(digest, 'hex'), state, 1,
           false, owner_id, content_id, first_event_id, replaces_id, not_after, created_at, created_at, step_count, 0, 0, 0
      FROM doc ORDER BY team_id, operation_id
    ON CONFLICT (team_id, operation_id) DO NOTHING
    RETURNING id
), new AS MATERIALIZED (
    SELECT doc.* FROM doc JOIN inserted USING (id)
), params AS (
    INSERT INTO ledger_operationparams (operation_id, params) SELECT id, params FROM new
), steps AS (
    INSERT INTO ledger_step (id, team_id, operation_id, number, name, identity, title, destination_id, destination_version_id,
                             destination_slug, action, performer, state, revision, request_digest, tries_extra, ready_at,
                             looks, looks_none, rejection_waived, lateness_waived, final_waived, never_known, go_on_after,
                             not_ours, integrity_alarm, record_changed, answered_with_error,
                             approval_needed, content_number, act, act_at, attempt_count,
                             tries_used, tries_max, lease_seconds, total_seconds)
    SELECT s.id, new.team_id, new.id, s.number, s.name, s.identity, s.title, s.destination_id, s.destination_version_id,
           s.destination_slug, s.action, s.performer, s.state, 1, s.request_digest, 0, s.ready_at,
           0, 0, false, false, false, false, false, '[]', false, NULL, false, s.approval_needed, s.content_number, s.act, s.act_at, 0,
           0, s.tries_max, s.lease_seconds, s.total_seconds
      FROM new, json_to_recordset(new.steps) AS s(
           id uuid, number smallint, name text, identity text, title text, destination_id uuid, destination_version_id uuid,
           destination_slug text, action text, performer text, state text, request_digest text, ready_at timestamptz,
           approval_needed boolean, content_number integer, act text, act_at timestamptz, tries_max integer, lease_seconds double precision,
           total_seconds double precision)
), requests AS (
    INSERT INTO ledger_steprequest (step_id, revision, method, url, headers, body, idempotency_key, digest, content_digest,
                                    rendered_at)
    SELECT r.step_id, r.revision, r.method, r.url, r.headers, decode(r.body, 'base64'), r.idempotency_key, r.digest,
           r.content_digest, now()
      FROM new, json_to_recordset(new.requests) AS r(
           step_id uuid, revision smallint, method text, url text, headers text, body text, idempotency_key text,
           digest text, content_digest text)
), holds AS (
    INSERT INTO ledger_hold (id, team_id, operation_id, step_id, reason, version, opened_at, due_at, closed_by, answer,
                             owner_id, facts, if_nobody, title, operation_text_id, destination_slug, action, workflow_slug)
    SELECT h.id, h.team_id, h.operation_id, h.step_id, h.reason, 1, now(), now() + h.due_seconds * interval '1 second',
           '', '', CASE WHEN h.falls_back THEN (SELECT fallback_owner_id FROM team t WHERE t.id = h.team_id)
                        ELSE h.owner_id END, h.facts, h.if_nobody, h.title, h.operation_text_id, h.destination_slug, h.action,
           h.workflow_slug
      FROM new, json_to_recordset(new.holds) AS h(
           id uuid, team_id uuid, operation_id uuid, step_id uuid, reason text, due_seconds integer, owner_id uuid,
           falls_back boolean, facts text, if_nobody text, title text, operation_text_id text, destination_slug text, action text,
           workflow_slug text)
), chained AS (
    INSERT INTO journal_chain (subject_id, subject_kind, length, head)
    SELECT id, 'operation', 1,
           journal_hash('\x0000000000000000000000000000000000000000000000000000000000000000'::bytea,
                        'operation', id, 1, now(), 'operation_recorded', actor, body)
      FROM new
    RETURNING subject_id, head
), entered AS (
    INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)
    SELECT new.id, 1, 'operation', now(), 'operation_recorded', new.actor, new.body, chained.head
      FROM new JOIN chained ON chained.subject_id = new.id
)
SELECT id FROM inserted
