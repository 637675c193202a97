from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0029_keys_per_statement'),
    ]

    operations = [
        migrations.AddField(
            model_name='statementcover',
            name='hold_version',
            field=models.IntegerField(null=True),
        ),
    ]
