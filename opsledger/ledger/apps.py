from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "opsledger.ledger"
    label = "ledger"
