from django.apps import AppConfig

from opsledger.lib import columns


class LedgerConfig(AppConfig):
    name = "opsledger.ledger"
    label = "ledger"

    def ready(self) -> None:
        columns.register()
