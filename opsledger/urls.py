"""Addresses: the API and the hooks (opsledger.api), everything else is the console."""

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
