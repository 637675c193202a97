"""The WSGI application, with bodies of unannounced length read up to the limit."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsledger.settings")

from django.core.wsgi import get_wsgi_application

from opsledger.lib.chunked_body import read_chunked_bodies

application = read_chunked_bodies(get_wsgi_application())
