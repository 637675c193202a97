"""Looks at every line without keeping anybody from writing further ones."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('journal', '0005_content_subject'),
    ]

    operations = [
        ValidateConstraint('chain', 'chain_subject_kind_is_known'),
        ValidateConstraint('entry', 'entry_subject_kind_is_known'),
    ]
