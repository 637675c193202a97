"""A proof of the ledger says whether it held. Those from before are told of no more: nobody noted how they ended."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('journal', '0006_content_subject_validated'),
    ]

    operations = [
        migrations.AddField(
            model_name='verifycheckpoint',
            name='faults_count',
            field=models.IntegerField(null=True),
        ),
    ]
