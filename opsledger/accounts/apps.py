from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "opsledger.accounts"
    label = "accounts"
