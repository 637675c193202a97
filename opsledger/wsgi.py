"""The WSGI application, with bodies of unannounced length read up to the limit, and a way of its own for the API."""

import gc
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsledger.settings")

from django.core.wsgi import get_wsgi_application

from opsledger.lib.chunked_body import read_chunked_bodies
from opsledger.lib.env import Env
from opsledger.lib.one_core import on_one_core

console = get_wsgi_application()

from opsledger.api.lane import with_lane  # noqa: E402  needs the applications

application = read_chunked_bodies(with_lane(console))
if Env().flag("WEB_ON_ONE_CORE", False):
    application = on_one_core(application)

# Requests make many objects and few circles, and what is loaded by now stays: looking for circles took a seventh of a batch.
gc.freeze()
gc.set_threshold(20_000, 20, 50)
