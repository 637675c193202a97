"""Triggers that refuse (they never act), settings of hot tables, and the one row of the sending switch."""

from django.db import migrations

REFUSALS = """
CREATE TRIGGER definition_version_is_immutable BEFORE UPDATE OR DELETE ON ledger_definitionversion
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER request_is_frozen BEFORE UPDATE OR DELETE ON ledger_steprequest
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER evidence_is_kept BEFORE UPDATE OF operation_id, step_id, attempt_id, kind, origin, received_at, digest, says
    OR DELETE ON ledger_evidence FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER body_is_kept BEFORE UPDATE OR DELETE ON ledger_rawbody
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- A state changes only together with a line of the journal in the same transaction. Checked at commit.
CREATE FUNCTION refuse_unjournaled() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE subject uuid := CASE WHEN TG_TABLE_NAME = 'ledger_operation' THEN NEW.id ELSE NULL END;
BEGIN
    IF subject IS NULL THEN
        subject := NEW.operation_id;
    END IF;
    PERFORM 1 FROM journal_chain c JOIN journal_entry e ON e.subject_id = c.subject_id AND e.seq = c.length
      WHERE c.subject_id = subject AND e.at = now();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'operation % changed without a line in the journal: refused', subject
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER operation_state_is_journaled AFTER UPDATE ON ledger_operation
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
    EXECUTE FUNCTION refuse_unjournaled();
CREATE CONSTRAINT TRIGGER step_state_is_journaled AFTER UPDATE ON ledger_step
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.reference IS DISTINCT FROM NEW.reference)
    EXECUTE FUNCTION refuse_unjournaled();
CREATE CONSTRAINT TRIGGER attempt_outcome_is_journaled AFTER UPDATE ON ledger_attempt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.outcome IS DISTINCT FROM NEW.outcome)
    EXECUTE FUNCTION refuse_unjournaled();

ALTER TABLE ledger_operation SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE ledger_step SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE ledger_attempt SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE journal_chain SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
INSERT INTO ledger_sendingswitch (id, sending, reason, changed_by, changed_at) VALUES (1, true, '', '', now());
"""

REMOVE = """
DELETE FROM ledger_sendingswitch;
DROP TRIGGER attempt_outcome_is_journaled ON ledger_attempt;
DROP TRIGGER step_state_is_journaled ON ledger_step;
DROP TRIGGER operation_state_is_journaled ON ledger_operation;
DROP FUNCTION refuse_unjournaled();
DROP TRIGGER body_is_kept ON ledger_rawbody;
DROP TRIGGER evidence_is_kept ON ledger_evidence;
DROP TRIGGER request_is_frozen ON ledger_steprequest;
DROP TRIGGER definition_version_is_immutable ON ledger_definitionversion;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial"), ("journal", "0002_append_only")]
    operations = [migrations.RunSQL(REFUSALS, REMOVE)]
