"""The turn of a worker that sends notices: gathered messages are claimed, sent outside of any transaction, and recorded.

Rung by the beat. Any number may run, be killed at any point, or run twice: what was being sent then is *not known to have
arrived*, and is tried again as often as rules.notice_words says.
"""

from __future__ import annotations

import logging
import queue
import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parseaddr

from django.conf import settings
from django.core.mail import EmailMessage

from opsledger.destinations.transport import AddressGuard
from opsledger.engine import messages, shift
from opsledger.engine.bounded import bounded
from opsledger.engine.guarded import guarded
from opsledger.engine.services import BadAddress, instantiate
from opsledger.engine.wire import installed_wire
from opsledger.ledger.actions.mailings import (
    ClaimedMailing,
    Tried,
    claim_mailings,
    open_mailings,
    record_mailing,
    record_mailing_leases_ended,
)
from opsledger.ledger.models import Mailing
from opsledger.ledger.queries.notices import notices_in
from opsledger.lib.sealed import SealBroken, seal, unseal
from opsledger.rules.notice_words import MailingState

log = logging.getLogger(__name__)

BATCH = 4  # sent at the same time
GATHERED = 1000
TURN_SECONDS = 10.0
SEND_SECONDS = 20.0  # the longest wait for one message, whatever its service does; well below the lease
_PURPOSE = "channel address"


@dataclass(slots=True)
class Told:
    gathered: int = 0
    sent: int = 0
    failed: int = 0  # of this turn's tries


def run_once(guard: AddressGuard | None = None, *, send_seconds: float = SEND_SECONDS) -> Told:
    """1. Leases that ended. 2. One message for each addressee. 3. Batches of messages, until none is due or time is up."""
    record_mailing_leases_ended(GATHERED)
    told = Told(gathered=open_mailings(GATHERED))
    until = time.monotonic() + TURN_SECONDS
    while time.monotonic() < until and not shift.is_over():
        claimed = claim_mailings(BATCH)
        if not claimed:
            break
        for one, tried in _send_all(claimed, guard or installed_wire().guard, send_seconds):
            record_mailing(one, tried)
            told.sent += tried.state is MailingState.SENT
            told.failed += tried.state is not MailingState.SENT
    return told


def sealed_address(address: str) -> bytes:
    return seal(address.strip(), settings.SECRET_KEY, _PURPOSE)


# What is to be sent is read before the call, and nothing is written during it.


def _send_all(
    claimed: list[ClaimedMailing], guard: AddressGuard, seconds: float
) -> list[tuple[ClaimedMailing, Tried]]:
    """All at once, each in a thread of its own; who takes too long is left behind and may have arrived."""
    rows = Mailing.objects.select_related("team", "person", "channel").in_bulk([one.id for one in claimed])
    answers = [_begin(_call_of(rows[one.id], one, guard)) for one in claimed]
    until = time.monotonic() + seconds
    return [(one, _wait(answer, until)) for one, answer in zip(claimed, answers, strict=True)]


_Answer = queue.SimpleQueue[Tried]


def _begin(call: Callable[[], Tried]) -> _Answer:
    answer: _Answer = queue.SimpleQueue()

    def run() -> None:
        try:
            answer.put(call())
        except Exception as why:  # a fault of ours or of a library: nobody knows what left
            log.error("a notice could not be sent: %s", type(why).__name__)
            answer.put(Tried(MailingState.UNKNOWN, "Sending broke off; whether it arrived is not known."))

    threading.Thread(target=run, name="notice", daemon=True).start()
    return answer


def _wait(answer: _Answer, until: float) -> Tried:
    try:
        return answer.get(timeout=max(0.0, until - time.monotonic()))
    except queue.Empty:
        return Tried(MailingState.UNKNOWN, "No answer came in time; whether it arrived is not known.")


def _call_of(row: Mailing, claimed: ClaimedMailing, guard: AddressGuard) -> Callable[[], Tried]:
    lines = notices_in(row.pk)
    if row.channel is None:
        assert row.person is not None
        mail = messages.compose(lines, row.team.name, to_person=True, repeated=claimed.in_doubt)
        email = _email(row, mail)
        return lambda: _mail(email)
    if row.is_test:
        said = messages.test_message(row.channel.name, row.team.name)
    else:
        said = messages.compose(lines, row.team.name, to_person=False, repeated=claimed.in_doubt)
    try:
        address = unseal(bytes(row.channel.sealed), settings.SECRET_KEY, _PURPOSE)
    except SealBroken:
        return lambda: Tried(MailingState.FAILED, _UNREADABLE)
    return lambda: send_to_service(address, said, guard)


_UNREADABLE = (
    "The channel’s address can’t be read: SECRET_KEY is another one than when it was entered. Add it again."
)


# Mail


def _email(row: Mailing, mail: messages.Message) -> EmailMessage:
    """The same Message-ID at every try, so that mail programs know a repeat for what it is."""
    assert row.person is not None
    sender = settings.DEFAULT_FROM_EMAIL
    domain = parseaddr(sender)[1].rpartition("@")[2] or "localhost"
    headers = {"Message-ID": f"<{row.pk}@{domain}>", "Auto-Submitted": "auto-generated"}
    return EmailMessage(mail.subject, mail.text, sender, [row.person.email], headers=headers)


def _mail(email: EmailMessage) -> Tried:
    try:
        email.send()
    except smtplib.SMTPServerDisconnected:
        return Tried(
            MailingState.UNKNOWN, "The mail server hung up; whether it took the message is not known."
        )
    except smtplib.SMTPRecipientsRefused as why:
        code = next(iter(why.recipients.values()))[0]
        return Tried(MailingState.FAILED, f"The mail server takes no mail for this address ({code}).")
    except smtplib.SMTPResponseException as why:
        return Tried(MailingState.FAILED, f"The mail server refused it ({why.smtp_code}).")
    except (ConnectionRefusedError, socket.gaierror, ssl.SSLError, smtplib.SMTPNotSupportedError) as why:
        return Tried(MailingState.FAILED, f"The mail server could not be reached ({type(why).__name__}).")
    except OSError as why:
        return Tried(
            MailingState.UNKNOWN, f"The connection broke ({type(why).__name__}); it may have arrived."
        )
    return Tried(MailingState.SENT, "The mail server took it.")


# Services


class _Overheard(logging.Handler):
    """What Apprise logs while this thread sends. It is read for a status and goes nowhere else: it may hold the address."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._heard = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(self._heard, "lines"):
            self._heard.lines.append(record.getMessage())

    def begin(self) -> list[str]:
        lines: list[str] = []
        self._heard.lines = lines
        return lines


_overheard = _Overheard()
logging.getLogger("apprise").addHandler(_overheard)
_STATUS = re.compile(r"\berror[=: ]+(\d{3})\b")


def send_to_service(address: str, message: messages.Message, guard: AddressGuard) -> Tried:
    """One message through Apprise, by one request of its own, straight to the service."""
    try:
        sender = instantiate(address)
    except BadAddress as why:
        return Tried(MailingState.FAILED, f"The channel’s address is not taken any more. {why}")
    heard = _overheard.begin()
    with guarded(guard) as watch, bounded() as answer:
        if sender.notify(body=message.text, title=message.subject):
            return Tried(MailingState.SENT, "The service took it.")
        refused, too_large = watch.refused, answer.too_large
    if refused:
        return Tried(MailingState.FAILED, _REFUSED_ADDRESS)
    if too_large:
        return Tried(MailingState.UNKNOWN, _TOO_LARGE)
    status = _STATUS.search(" ".join(heard))
    if status:
        return Tried(MailingState.FAILED, f"The service refused it ({status[1]}).")
    return Tried(
        MailingState.UNKNOWN, "The service gave no answer that counts; whether it arrived is not known."
    )


_TOO_LARGE = "The service’s answer was too large and was not read; whether the message arrived is not known."
_REFUSED_ADDRESS = (
    "The address is a private one. Only public addresses are called, and those in ALLOWED_PRIVATE_NETWORKS."
)
