"""The journal refuses UPDATE, DELETE and TRUNCATE, and the application's role has SELECT and INSERT on it."""

from django.db import connections, migrations
from psycopg import sql

FUNCTIONS = """
CREATE FUNCTION journal_part(part text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT octet_length(part)::text || ':' || part
$$;

CREATE FUNCTION journal_hash(
    previous bytea, subject_kind text, subject_id uuid, seq integer, at timestamptz, kind text, actor text, body text
) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT sha256(convert_to(
        'opsledger-journal-1'
        || journal_part(encode(previous, 'hex'))
        || journal_part(subject_kind)
        || journal_part(subject_id::text)
        || journal_part(seq::text)
        || journal_part(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
        || journal_part(kind)
        || journal_part(actor)
        || journal_part(body), 'UTF8'))
$$;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER entry_is_append_only BEFORE UPDATE OR DELETE ON journal_entry
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entry_is_never_truncated BEFORE TRUNCATE ON journal_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION refuse_shorter_chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.length = OLD.length + 1 AND NEW.subject_id = OLD.subject_id
       AND NEW.subject_kind = OLD.subject_kind THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a chain only grows, one line at a time: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER chain_only_grows BEFORE UPDATE OR DELETE ON journal_chain
    FOR EACH ROW EXECUTE FUNCTION refuse_shorter_chain();
CREATE TRIGGER chain_is_never_truncated BEFORE TRUNCATE ON journal_chain
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
"""

REMOVE = """
DROP TRIGGER chain_is_never_truncated ON journal_chain;
DROP TRIGGER chain_only_grows ON journal_chain;
DROP FUNCTION refuse_shorter_chain();
DROP TRIGGER entry_is_never_truncated ON journal_entry;
DROP TRIGGER entry_is_append_only ON journal_entry;
DROP FUNCTION refuse_change();
DROP FUNCTION journal_hash(bytea, text, uuid, integer, timestamptz, text, text, text);
DROP FUNCTION journal_part(text);
"""


def grant(apps, schema_editor):
    """What the application's role may do. Where only one role is given there is nothing to grant."""
    connection = schema_editor.connection
    role = connections["default"].settings_dict["USER"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        owner = cursor.fetchone()[0]
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
        if not role or role == owner or cursor.fetchone() is None:
            return
        for statement in (
            "GRANT USAGE ON SCHEMA public TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
            "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {role}",
            "REVOKE ALL ON journal_entry FROM {role}",
            "GRANT SELECT, INSERT ON journal_entry TO {role}",
            "REVOKE DELETE ON journal_chain FROM {role}",
        ):
            cursor.execute(sql.SQL(statement).format(role=sql.Identifier(role)).as_string(cursor.connection))


class Migration(migrations.Migration):
    dependencies = [("journal", "0001_initial")]
    operations = [
        migrations.RunSQL(FUNCTIONS, REMOVE),
        migrations.RunPython(grant, migrations.RunPython.noop),
    ]
