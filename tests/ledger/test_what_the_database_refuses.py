"""What the models promise stands in the database: each constraint and each index, by its name.

A migration that changes a column may take an index with it that it was not asked about; then a law is only in the code.
"""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model

MODELS = [model for model in apps.get_models() if model.__module__.startswith("opsledger.")]


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_constraint_and_index_of_a_model_is_in_the_database(model: type[Model]) -> None:
    wanted = {one.name for one in (*model._meta.constraints, *model._meta.indexes)}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND convalidated"
            " UNION SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE i.indrelid = %s::regclass AND i.indisvalid",
            [model._meta.db_table, model._meta.db_table],
        )
        there = {name for (name,) in cursor.fetchall()}
    assert wanted <= there, f"{model._meta.label} lacks {sorted(wanted - there)}"
