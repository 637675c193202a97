"""Names stay out of the journal for good: an actor is an id, a slug, an account or one of our own words.

The lines that are there are not looked at, and what they say stays; 0009 looks at them.
"""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

FORM = (
    r"^(engine|web"
    r"|(person|token):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(source|destination):[a-z][a-z0-9_-]{0,62}"
    r"|(command|worker):[A-Za-z0-9][A-Za-z0-9._:-]{0,149})$"
)


class Migration(migrations.Migration):

    dependencies = [
        ('journal', '0007_faults_of_a_proof'),
    ]

    operations = [
        AddConstraintNotValid(
            model_name='entry',
            constraint=models.CheckConstraint(condition=models.Q(('actor__regex', FORM)), name='entry_actor_is_no_name'),
        ),
    ]
