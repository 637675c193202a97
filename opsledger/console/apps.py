from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "opsledger.console"
    label = "console"
