-- Questions opened; an owner, a deadline and a place in the inbox come with each.
INSERT INTO ledger_hold (id, team_id, operation_id, step_id, reason, version, opened_at, due_at, closed_by, answer, owner_id,
                         facts, if_nobody, title, operation_text_id, destination_slug, action, workflow_slug)
SELECT id, team_id, operation_id, step_id, reason, 1, now(), now() + due_seconds * interval '1 second', '', '',
       CASE WHEN falls_back THEN (SELECT fallback_owner_id FROM team t WHERE t.id = x.team_id) ELSE owner_id END, facts, if_nobody, title, operation_text_id, destination_slug, action, workflow_slug
  FROM json_to_recordset(%s::json) AS x(
       id uuid, team_id uuid, operation_id uuid, step_id uuid, reason text, due_seconds integer, owner_id uuid,
       falls_back boolean, facts text,
       if_nobody text, title text, operation_text_id text, destination_slug text, action text, workflow_slug text)
