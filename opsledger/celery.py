"""Celery: the bell. Messages carry no ids; what is due is read from PostgreSQL (docs/decisions/0003)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsledger.settings")

app = Celery("opsledger")
app.config_from_object("opsledger.engine.celery_settings")
app.autodiscover_tasks(["opsledger.engine"])
