"""A content has a chain of its own. The wider check holds for every line that is there; 0006 looks at them all the same."""

from django.db import migrations, models

KINDS = ('operation', 'event', 'destination', 'replay', 'team', 'definition', 'sending', 'content')


def _swap(model: str, table: str, name: str) -> migrations.RunSQL:
    """In one statement: at no moment is the table without its check."""
    def sql(kinds):
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        return (
            f"ALTER TABLE {table} DROP CONSTRAINT {name},"
            f" ADD CONSTRAINT {name} CHECK (subject_kind IN ({listed})) NOT VALID"
        )

    check = models.CheckConstraint(condition=models.Q(('subject_kind__in', KINDS)), name=name)
    return migrations.RunSQL(
        sql(KINDS),
        sql(KINDS[:-1]),
        state_operations=[
            migrations.RemoveConstraint(model_name=model, name=name),
            migrations.AddConstraint(model_name=model, constraint=check),
        ],
    )


class Migration(migrations.Migration):

    dependencies = [
        ('journal', '0004_inlined_hash'),
    ]

    operations = [
        _swap('chain', 'journal_chain', 'chain_subject_kind_is_known'),
        _swap('entry', 'journal_entry', 'entry_subject_kind_is_known'),
    ]
