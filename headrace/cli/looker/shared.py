"""What the commands on a vault share: options, the vault, a client of its Looker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from headrace.extras import require
from headrace.leases import hold, open_leases
from headrace.logs import hide
from headrace.looker.content_types import TYPES, content_of
from headrace.looker.extract.request import vault_lease
from headrace.looker.restore.report import ItemReport, RestoreOutcome
from headrace.looker.vault import Vault, VaultOfAnother
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota.config import OUTAGE_LIMIT_S
from headrace.settings import load_settings
from headrace.signals import stop_on_signals
from headrace.stopping import StopEvent

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient


VaultPath = Annotated[
    str | None,
    typer.Option(
        "--vault",
        envvar="HEADRACE_LOOKER_VAULT",
        help="The vault, a SQLite file; default data/looker.sqlite.",
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--types",
        "--type",
        "-t",
        help=f"Of these types only; repeatable or joined by commas. {', '.join(TYPES)}.",
    ),
]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help=f"One of {', '.join(TYPES)}.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `list` shows it.")]


TypeFilter = Annotated[
    str | None,
    typer.Argument(metavar="[TYPE]", help=f"One of {', '.join(TYPES)}; all if left out."),
]
Deleted = Annotated[bool, typer.Option("--deleted", help="Also what is deleted on the server.")]


def vault_path(path: str | None) -> str:
    """The path that was given, or the one of the settings."""
    return path or load_settings().looker_vault


def opened(path: str | None, *, check: bool = False) -> Vault:
    """The vault that the options name.

    Raises:
        VaultMissing and its kin, one line each.
    """
    return Vault.open(vault_path(path), check=check)


def known_types(types: list[str] | None) -> tuple[str, ...]:
    """The types that were named, each once; empty for all. `dashboards` is what people write.

    Raises:
        UnknownType: naming those that there are.
    """
    names = [name.strip() for text in types or () for name in text.split(",")]
    singular = [n.removesuffix("s") if n.removesuffix("s") in TYPES else n for n in names if n]
    return tuple(dict.fromkeys(content_of(name).type for name in singular))


def known_type(name: str) -> str:
    """The one type that an argument names.

    Raises:
        UnknownType: naming those that there are.
    """
    found = known_types([name])
    return found[0] if len(found) == 1 else content_of(name).type


def one_line(text: str | None, *, longest: int = 80) -> str:
    """A name from outside, for a line of a terminal: no control characters, no endless text."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text or "")
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"


def say_outcome(outcome: ItemReport) -> None:
    """Say what became of an item that was to be restored; nothing of one that is as it was."""
    if outcome.how is RestoreOutcome.UNCHANGED and not outcome.left_out:
        return
    became = f" as {outcome.new_id}" if outcome.new_id else ""
    why = f": {one_line(outcome.reason, longest=300)}" if outcome.reason else ""
    if outcome.left_out:
        why += f", without {one_line('; '.join(outcome.left_out), longest=300)}"
    typer.echo(f"{outcome.how} {outcome.type} {one_line(outcome.id)}{became}{why}")


BaseUrl = Annotated[
    str, typer.Option(help="Address of the Looker or block:NAME. [LOOKERSDK_BASE_URL]")
]
Rate = Annotated[
    list[str],
    typer.Option(
        help="What the Looker allows: 10/s,100/m (repeatable), or block:NAME; none lifts it, for "
        "simulators. [HEADRACE_LOOKER_RATE]"
    ),
]
OutageLimit = Annotated[
    float,
    typer.Option(min=0, help="Seconds to wait for a Looker that is down before the command ends."),
]


def check_looker(base_url: str, prefix: str = "LOOKERSDK_") -> None:
    """Say what is missing before anything is started; a block needs a server to be read.

    Raises:
        ConfigurationError: the SDK, the address or the key is missing.
    """
    require("looker")
    if not base_url.startswith(BLOCK_PREFIX):
        from headrace.looker.client import connection_from_environment  # not for help

        connection_from_environment(base_url, prefix)


@contextmanager
def connected(
    base_url: str,
    rate: list[str],
    *,
    stop: StopEvent,
    outage_limit_s: float = OUTAGE_LIMIT_S,
    workers: int = 4,
    prefix: str = "LOOKERSDK_",
) -> Iterator[LookerClient]:
    """A client that is logged in.

    Args:
        base_url, rate, outage_limit_s: see the options.
        stop: ends waits and requests.
        workers: requests in flight at most.
        prefix: of the variables of the environment that it takes address and key from.

    Raises:
        ConfigurationError: something cannot be used, or the login is refused.
        ConnectionFailed: nothing listens there.
    """
    # Prefect, which blocks are made of, takes a second to import, and Looker's SDK half a one, at
    # every command of ours.
    from blocks.resolve import looker_of, looker_quota_of, quota_place
    from headrace.looker.client import open_client

    settings = load_settings()
    connection = looker_of(base_url, prefix)
    hide(connection.client_secret.get_secret_value())
    quota = looker_quota_of(
        ",".join(rate) or settings.looker_rate, breaker_cooldown_s=settings.breaker_cooldown_s
    )
    host = urlsplit(connection.base_url).netloc.rpartition("@")[2]
    with ExitStack() as opened:
        gate = quota.gate(quota_place(settings), host, outage_limit_s=outage_limit_s)
        opened.callback(gate.close)
        client = open_client(connection, gate, workers=workers, stop=stop)
        opened.callback(client.close)
        client.check_reachable()
        client.login()
        yield client


@contextmanager
def hold_vault(vault: Vault, what: str) -> Iterator[StopEvent]:
    """Be the only one that writes to a vault, and end on signals.

    Raises:
        LeaseHeld: an extraction or a restore is under way.
    """
    settings = load_settings()
    with (
        stop_on_signals() as stop,
        hold(
            open_leases(settings.lease_location),
            vault_lease(vault.path),
            run_id=what,
            ttl_s=settings.lease_ttl_s,
            stop=stop,
            on_lost=lambda _loss: stop.set(),
        ),
    ):
        yield stop


def same_looker(vault: Vault, client: LookerClient) -> None:
    """Make sure that the vault is that Looker's.

    Raises:
        VaultOfAnother: it is not.
    """
    if vault.source and vault.source != client.source:
        raise VaultOfAnother(vault.path, vault.source, client.source)
