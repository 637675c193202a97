from django.apps import AppConfig
from django.db.backends.signals import connection_created

from opsledger.lib import columns
from opsledger.lib.timestamps import read_moments


class LedgerConfig(AppConfig):
    name = "opsledger.ledger"
    label = "ledger"

    def ready(self) -> None:
        columns.register()
        connection_created.connect(read_moments)
