from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "opsledger.demo"
    label = "demo"
