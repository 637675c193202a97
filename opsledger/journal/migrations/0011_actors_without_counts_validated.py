"""Looks at every line without keeping anybody from writing further ones.

An older version could write a token's name where a destination's slug belongs. Such a line can't be changed, only its
successors refused: then the check stays as 0010 made it, for what is written from now on.
"""

from django.db import migrations

VALIDATE = """
DO $$
BEGIN
    ALTER TABLE journal_entry VALIDATE CONSTRAINT entry_actor_is_no_name;
EXCEPTION WHEN check_violation THEN
    RAISE NOTICE 'entry_actor_is_no_name holds for new lines only: an older version wrote another form';
END
$$
"""


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('journal', '0010_actors_without_counts'),
    ]

    operations = [
        migrations.RunSQL(VALIDATE, migrations.RunSQL.noop),
    ]
