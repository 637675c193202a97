from django.apps import AppConfig


class EngineConfig(AppConfig):
    name = "opsledger.engine"
    label = "engine"

    def ready(self) -> None:
        from opsledger import celery  # noqa: F401  so that tasks find the app
