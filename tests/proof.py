"""What `manage.py verify_ledger` finds."""

from io import StringIO

from django.core.management import CommandError, call_command


def faults_found(*options: str) -> str:
    """Its faults, as it tells them; "" where all holds."""
    err = StringIO()
    try:
        call_command("verify_ledger", *options, stdout=StringIO(), stderr=err)
    except CommandError as why:
        return f"{err.getvalue()}{why}"
    return ""
