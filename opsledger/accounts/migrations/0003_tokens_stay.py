"""Whose a token is and what it may do never changes; one that was revoked stays so. A trigger refuses who tries."""

from django.db import migrations

REFUSE = """
CREATE FUNCTION refuse_other_token() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a token stays whose it is, may what it may, and stays revoked: % refused', TG_OP
        USING ERRCODE = 'restrict_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END
$$;
CREATE TRIGGER token_stays_as_made AFTER UPDATE OF id, team_id, name, kind, person_id, scopes, text_sha256 ON api_token
    FOR EACH ROW WHEN (OLD.id IS DISTINCT FROM NEW.id OR OLD.team_id IS DISTINCT FROM NEW.team_id
        OR OLD.name IS DISTINCT FROM NEW.name OR OLD.kind IS DISTINCT FROM NEW.kind
        OR OLD.person_id IS DISTINCT FROM NEW.person_id OR OLD.scopes IS DISTINCT FROM NEW.scopes
        OR OLD.text_sha256 IS DISTINCT FROM NEW.text_sha256)
    EXECUTE FUNCTION refuse_other_token();
CREATE TRIGGER token_stays_revoked AFTER UPDATE OF revoked_at ON api_token
    FOR EACH ROW WHEN (OLD.revoked_at IS NOT NULL AND OLD.revoked_at IS DISTINCT FROM NEW.revoked_at)
    EXECUTE FUNCTION refuse_other_token();
"""
REMOVE = """
DROP TRIGGER token_stays_revoked ON api_token;
DROP TRIGGER token_stays_as_made ON api_token;
DROP FUNCTION refuse_other_token();
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_absences")]
    operations = [migrations.RunSQL(REFUSE, REMOVE)]
