"""A block that sends alarms by SMTP, which none of Prefect's own does.

The server sends them, so it has to find this class: as a collection of Prefect's
(`pyproject.toml`), wherever headrace is installed beside it. The managed server is such a place.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from typing import Annotated, Literal

from prefect.blocks.abstract import NotificationBlock, NotificationError
from pydantic import Field, SecretStr

#: Of each step of a delivery.
_TIMEOUT_S = 20.0

Address = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=320)]


class SmtpMail(NotificationBlock):
    """Sends messages as mail."""

    _block_type_name = "Headrace SMTP mail"
    _block_type_slug = "headrace-smtp-mail"
    _description = "Sends alarms as mail, over an SMTP server."
    _code_example = (
        "```sh\nheadrace alarms mail ops --host smtp.example.com --sender me@example.com "
        "--to ops@example.com\n```\nthen `headrace alarms install --to headrace-smtp-mail/ops --on`"
    )

    host: str = Field(min_length=1, description="Of the mail server.")
    port: int = Field(587, ge=1, le=65_535, description="587 for starttls, 465 for tls.")
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="How the connection is encrypted; certificates are checked."
    )
    username: str = Field("", description="To log in with; empty for no login.")
    password: SecretStr = Field(SecretStr(""), description="Of that user.")
    sender: Address = Field(description="Address that messages come from.")
    recipients: list[Address] = Field(min_length=1, description="Addresses that they go to.")

    async def notify(self, body: str, subject: str | None = None) -> None:
        """Send one message to all recipients.

        Raises:
            NotificationError: the server did not take it.
        """
        message = EmailMessage()
        # What comes from outside may hold line breaks, which would begin other headers.
        message["Subject"] = " ".join((subject or "headrace").split())
        message["From"] = self.sender
        message["To"] = ", ".join(self.recipients)
        message.set_content(body)
        try:
            await asyncio.to_thread(self._send, message)
        except (OSError, smtplib.SMTPException) as error:
            raise NotificationError(
                f"the mail server {self.host}:{self.port} did not take the message: {error}"
            ) from error

    def _send(self, message: EmailMessage) -> None:
        context = ssl.create_default_context()
        server = (
            smtplib.SMTP_SSL(self.host, self.port, timeout=_TIMEOUT_S, context=context)
            if self.security == "tls"
            else smtplib.SMTP(self.host, self.port, timeout=_TIMEOUT_S)
        )
        with server:
            if self.security == "starttls":
                server.starttls(context=context)
            if self.username:
                server.login(self.username, self.password.get_secret_value())
            server.send_message(message)
