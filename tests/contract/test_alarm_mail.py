"""Alarms by mail: encrypted, with a login, and never in plain text where that was not asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prefect.blocks.abstract import NotificationError
from pydantic import SecretStr

from headrace.cli.alarms.smtp import SmtpMail
from tests.support.forward_proxy import make_certificate
from tests.support.receivers import Mail, mail_server

#: Of the server of the tests, which does not count a connection that began encrypted as such.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

LOGIN = ("headrace", "correct horse")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("mail") / "server.pem", "127.0.0.1")


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def send(mail: Mail, security: str, password: str = LOGIN[1]) -> None:
    block = SmtpMail(
        host="127.0.0.1",
        port=mail.port,
        security=security,  # type: ignore[arg-type]
        username=LOGIN[0],
        password=SecretStr(password),
        sender="headrace@example.com",
        recipients=["ops@example.com", "night@example.com"],
    )
    asyncio.run(
        block.notify("An answer took 3 s.\n.\nÜber Nacht", "BTC-USD:\r\nBcc: x@example.com")
    )


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_mail_arrives_encrypted_after_a_login(certificate: Path, security: str) -> None:
    with mail_server(certificate, at_once=security == "tls", login=LOGIN) as mail:
        send(mail, security)
    [(recipients, message)] = mail.received
    assert mail.logins == [LOGIN[0]]
    assert recipients == ["ops@example.com", "night@example.com"]
    assert (message["Subject"], message["Bcc"]) == ("BTC-USD: Bcc: x@example.com", None)
    assert message.get_content().splitlines() == ["An answer took 3 s.", ".", "Über Nacht"]


@pytest.mark.usefixtures("trusted")
def test_a_wrong_password_is_said_and_not_shown(certificate: Path) -> None:
    with (
        mail_server(certificate, login=LOGIN) as mail,
        pytest.raises(
            NotificationError, match=rf"127\.0\.0\.1:{mail.port} did not take.*535"
        ) as no,
    ):
        send(mail, "starttls", "wrong horse")
    assert "horse" not in str(no.value)
    assert mail.received == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_an_untrusted_certificate_is_refused(certificate: Path, security: str) -> None:
    with (
        mail_server(certificate, at_once=security == "tls", login=LOGIN) as mail,
        pytest.raises(NotificationError, match="certificate verify failed"),
    ):
        send(mail, security)
    assert mail.received == []


def test_a_server_without_encryption_gets_neither_password_nor_mail() -> None:
    with (
        mail_server(login=LOGIN) as mail,
        pytest.raises(NotificationError, match="STARTTLS extension not supported"),
    ):
        send(mail, "starttls")
    assert (mail.logins, mail.received) == ([], [])
