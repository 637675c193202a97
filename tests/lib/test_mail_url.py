"""Where mail goes, from one variable; nonsense is refused when the settings are read."""

import pytest

from opsledger.lib.env import BadSetting
from opsledger.lib.mail_url import MailSettings, mail_settings

FROM = "desk@ops.example"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("smtp://mail.example", MailSettings("mail.example", 587, "", "", True, False, FROM)),
        (
            "smtp://u:p%40ss@mail.example:2525",
            MailSettings("mail.example", 2525, "u", "p@ss", True, False, FROM),
        ),
        ("smtps://mail.example", MailSettings("mail.example", 465, "", "", False, True, FROM)),
        ("smtp://127.0.0.1:1025?tls=off", MailSettings("127.0.0.1", 1025, "", "", False, False, FROM)),
    ],
)
def test_an_address_says_where_and_how(url: str, wanted: MailSettings) -> None:
    assert mail_settings(url, FROM) == wanted


def test_without_an_address_mail_is_off() -> None:
    assert mail_settings("", "") is None


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("http://mail.example", FROM),
        ("smtp://", FROM),
        ("smtp://mail.example:port", FROM),
        ("smtp://mail.example?tls=maybe", FROM),
        ("smtp://mail.example", "nobody"),
    ],
)
def test_nonsense_names_its_variable(url: str, sender: str) -> None:
    with pytest.raises(BadSetting, match=r"EMAIL_URL|MAIL_FROM"):
        mail_settings(url, sender)
