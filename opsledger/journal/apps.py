from django.apps import AppConfig


class JournalConfig(AppConfig):
    name = "opsledger.journal"
    label = "journal"

    def ready(self) -> None:
        from opsledger.journal import checks  # noqa: F401
