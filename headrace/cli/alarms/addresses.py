"""`headrace alarms slack`, `webhook`, `mail`: where messages go, saved as a block of the server."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated, Any

import typer

from headrace.cli.common import has_terminal
from headrace.cli.server.run import with_client
from headrace.errors import ConfigurationError

BlockName = Annotated[str, typer.Argument(help="Lower-case letters, digits and dashes: ops.")]
Url = Annotated[
    str,
    typer.Argument(help="The address; - reads it from standard input, past the shell's history."),
]


def webhook(name: BlockName, url: Url) -> None:
    """Save where messages go as JSON by HTTP; chat programs show its field `text`."""
    from prefect.blocks.webhook import Webhook

    _save(Webhook(url=_secret(url)), name)


def slack(name: BlockName, url: Url) -> None:
    """Save where messages go in Slack: the address of an incoming webhook."""
    from prefect.blocks.notifications import SlackWebhook

    address = _secret(url)
    if not re.match(r"https://hooks\.slack(-gov)?\.com/services/\w+/\w+/\w+/?$", address):
        raise ConfigurationError(
            "the address does not begin with https://hooks.slack.com/services/, as those of Slack "
            "do",
            hint="For any other address: `headrace alarms webhook`. What it sends has a field "
            "`text`, which Slack and programs like it show",
        )
    _save(SlackWebhook(url=address), name)


def mail(
    name: BlockName,
    host: Annotated[str, typer.Option(help="Of the mail server.")],
    sender: Annotated[str, typer.Option(help="Address that messages come from.")],
    to: Annotated[list[str], typer.Option(help="Address that messages go to. Repeatable.")],
    port: Annotated[int, typer.Option(min=1, max=65_535)] = 587,
    security: Annotated[
        str, typer.Option(help="starttls, tls (from the start, port 465) or none.")
    ] = "starttls",
    username: Annotated[
        str, typer.Option(help="To log in with; the password is asked. [HEADRACE_SMTP_PASSWORD]")
    ] = "",
) -> None:
    """Save where messages go by mail, over an SMTP server."""
    from pydantic import ValidationError

    from headrace.cli.alarms.smtp import SmtpMail

    password = os.environ.get("HEADRACE_SMTP_PASSWORD", "")
    if username and not password:
        if not has_terminal():
            raise ConfigurationError(
                "there is no terminal to ask for the password on", hint="Set HEADRACE_SMTP_PASSWORD"
            )
        password = typer.prompt("Password", hide_input=True, err=True)
    try:
        block = SmtpMail.model_validate(
            {
                "host": host, "port": port, "security": security, "username": username,
                "password": password, "sender": sender, "recipients": to,
            }
        )  # fmt: skip
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{where}: {first['msg']}") from error
    _save(block, name)


def _secret(url: str) -> str:
    address = sys.stdin.readline().strip() if url == "-" else url
    if not address.startswith(("http://", "https://")):
        raise ConfigurationError("the address does not begin with https:// or http://")
    return address


def _save(block: Any, name: str) -> None:
    """Save a block, over one of the same name, and say what to do with it."""

    async def save(client: Any) -> None:
        await type(block).aregister_type_and_schema(client=client)
        try:
            await block.asave(name, overwrite=True, client=client)
        except ValueError as error:
            raise ConfigurationError(f"{name!r} cannot be the name of a block: {error}") from error

    with_client(save)
    reference = f"{block.get_block_type_slug()}/{name}"
    typer.echo(
        f"{reference} is saved. Try it: headrace alarms test --to {reference}. "
        f"Send alarms there: headrace alarms install --to {reference} --on"
    )
