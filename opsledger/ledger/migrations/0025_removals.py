"""Selections and lists that nothing was done with may go; what was used is refused as before. Triggers refuse, never act."""

from django.db import migrations

SET = """
CREATE FUNCTION refuse_removal_of_used_selection() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE chosen uuid := CASE WHEN TG_TABLE_NAME = 'ledger_selection' THEN to_json(OLD) ->> 'id'
                            ELSE to_json(OLD) ->> 'selection_id' END;
BEGIN
    IF EXISTS (SELECT FROM ledger_bulkrun WHERE selection_id = chosen)
       OR EXISTS (SELECT FROM ledger_referencelist WHERE selection_id = chosen)
       OR EXISTS (SELECT FROM ledger_providerstatement WHERE selection_id = chosen) THEN
        RAISE EXCEPTION 'selection % was used: it is kept', chosen USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE FUNCTION refuse_removal_of_applied_list() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE kept uuid := CASE WHEN TG_TABLE_NAME = 'ledger_referencelist' THEN to_json(OLD) ->> 'id'
                          ELSE to_json(OLD) ->> 'of_id' END;
BEGIN
    IF EXISTS (SELECT FROM ledger_referencelist l JOIN ledger_bulkrun r ON r.selection_id = l.selection_id
                WHERE l.id = kept AND r.facts::json ->> 'list' = kept::text) THEN
        RAISE EXCEPTION 'list % was applied: it is kept', kept USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
DROP TRIGGER selection_is_frozen ON ledger_selection;
DROP TRIGGER selection_item_is_frozen ON ledger_selectionitem;
DROP TRIGGER list_is_kept ON ledger_referencelist;
DROP TRIGGER read_reference_is_kept ON ledger_readreference;
CREATE TRIGGER selection_is_frozen BEFORE UPDATE ON ledger_selection FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER selection_item_is_frozen BEFORE UPDATE OF selection_id, position, hold_id ON ledger_selectionitem
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER list_is_kept BEFORE UPDATE ON ledger_referencelist FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER read_reference_is_kept BEFORE UPDATE ON ledger_readreference FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER used_selection_is_kept BEFORE DELETE ON ledger_selection
    FOR EACH ROW EXECUTE FUNCTION refuse_removal_of_used_selection();
CREATE TRIGGER item_of_used_selection_is_kept BEFORE DELETE ON ledger_selectionitem
    FOR EACH ROW EXECUTE FUNCTION refuse_removal_of_used_selection();
CREATE TRIGGER applied_list_is_kept BEFORE DELETE ON ledger_referencelist
    FOR EACH ROW EXECUTE FUNCTION refuse_removal_of_applied_list();
CREATE TRIGGER reading_of_applied_list_is_kept BEFORE DELETE ON ledger_readreference
    FOR EACH ROW EXECUTE FUNCTION refuse_removal_of_applied_list();
"""
REMOVE = """
DROP TRIGGER reading_of_applied_list_is_kept ON ledger_readreference;
DROP TRIGGER applied_list_is_kept ON ledger_referencelist;
DROP TRIGGER item_of_used_selection_is_kept ON ledger_selectionitem;
DROP TRIGGER used_selection_is_kept ON ledger_selection;
DROP TRIGGER read_reference_is_kept ON ledger_readreference;
DROP TRIGGER list_is_kept ON ledger_referencelist;
DROP TRIGGER selection_item_is_frozen ON ledger_selectionitem;
DROP TRIGGER selection_is_frozen ON ledger_selection;
DROP FUNCTION refuse_removal_of_applied_list();
DROP FUNCTION refuse_removal_of_used_selection();
CREATE TRIGGER selection_is_frozen BEFORE UPDATE OR DELETE ON ledger_selection
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER selection_item_is_frozen BEFORE UPDATE OF selection_id, position, hold_id OR DELETE
    ON ledger_selectionitem FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER list_is_kept BEFORE UPDATE OR DELETE ON ledger_referencelist
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER read_reference_is_kept BEFORE UPDATE OR DELETE ON ledger_readreference
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0024_notice_kinds_validated")]
    operations = [migrations.RunSQL(SET, REMOVE)]
