"""Django's own `makemessages`, which also finds texts that are marked now and looked up where they are shown."""

from __future__ import annotations

from django.core.management.commands import makemessages


class Command(makemessages.Command):
    """`noop` is `gettext_noop`: the tables of words are English, and each word is looked up when a page says it."""

    xgettext_options = [*makemessages.Command.xgettext_options, "--keyword=noop"]
