"""`headrace lease …`: which process may write where, and how to release a lease by hand."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli.common import Json, Yes, confirm, print_json, result_console, table_of
from headrace.errors import ConfigurationError
from headrace.leases import Holder, LeaseHeld, LeaseState, LeaseStatus, LeaseStore, open_leases
from headrace.leases.this_machine import Liveness
from headrace.settings import load_settings

app = typer.Typer(
    help="Leases: which process may write where; release one by hand.", no_args_is_help=True
)

Store = Annotated[
    str | None,
    typer.Option(
        envvar="HEADRACE_LEASES",
        help="A folder, postgres://HOST/DATABASE, s3://BUCKET/PREFIX or "
        "dynamodb://TABLE?region=REGION; default: HEADRACE_HOME/leases.",
    ),
]


@app.command("list")
def list_leases(store: Store = None, as_json: Json = False) -> None:
    """List every lease of the store, with its holder and whether it still holds."""
    opened = _opened(store)
    states = opened.list()
    if as_json:
        print_json({"leases": [lease_dict(opened, state) for state in states]})
    elif states:
        result_console().print(table_of([_row(state) for state in states]))
    else:
        typer.echo(f"no lease in {opened.where}")


@app.command()
def release(
    name: Annotated[str, typer.Argument(help="As `headrace lease list` shows it.")],
    store: Store = None,
    yes: Yes = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if the holder's process is alive.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take a lease away from its holder; the next run may start at once.

    Hardly ever needed: the lease of a dead process ends by itself. A holder that still runs is
    stopped at its next commit and loses what it has not committed.
    """
    opened = _opened(store)
    state = _found(opened, name)
    holder = state.holder
    if holder is not None:
        _may_release(opened, state, holder, force=force)
        if not yes:
            _confirm(opened, state, holder)
        holder = opened.force_release(name, token=state.token)
    if as_json:
        released = _holder_dict(holder) if holder else None
        print_json({"name": name, "released": released})
    elif holder:
        typer.echo(f"released {name}, held by {holder}")
    else:
        typer.echo(f"{name} is not held")


def _opened(store: str | None) -> LeaseStore:
    return open_leases(store or load_settings().lease_location)


def _found(store: LeaseStore, name: str) -> LeaseState:
    states = {state.name: state for state in store.list()}
    if name not in states:
        known = ", ".join(states) or "none at all"
        raise ConfigurationError(f"{store.where} has no lease {name!r}", hint=f"Known: {known}")
    return states[name]


def _may_release(store: LeaseStore, state: LeaseState, holder: Holder, *, force: bool) -> None:
    alive = store.liveness(holder) is Liveness.ALIVE
    if state.status is LeaseStatus.HELD and alive and not force:
        hint = f"That process is alive: stop it (kill {holder.pid}), or repeat with --force"
        raise LeaseHeld(state.name, holder, hint=hint)


def _confirm(store: LeaseStore, state: LeaseState, holder: Holder) -> None:
    confirm(
        f"{state.name} is {state.status}: {holder} ({_alive(store, holder)}). Release it?",
        refusal=f"{state.name} is held by {holder} ({_alive(store, holder)}) and was not released",
    )


def _alive(store: LeaseStore, holder: Holder) -> str:
    return {
        Liveness.ALIVE: "its process is alive",
        Liveness.GONE: "its process is gone",
        Liveness.UNKNOWN: "whether its process is alive is not known on this machine",
    }[store.liveness(holder)]


def _row(state: LeaseState) -> dict[str, Any]:
    holder = state.holder
    return {
        "lease": state.name,
        "state": state.status.value,
        "holder": f"{holder.host} pid {holder.pid}" if holder else "",
        "run": holder.run_id if holder else "",
        "since": f"{holder.since:%Y-%m-%d %H:%M:%SZ}" if holder else "",
        "until": f"{holder.expires:%Y-%m-%d %H:%M:%SZ}" if holder else "",
        "token": str(state.token),
    }


def lease_dict(store: LeaseStore, state: LeaseState) -> dict[str, Any]:
    """A lease in JSON."""
    holder = state.holder
    return {
        "name": state.name,
        "token": state.token,
        "standing": state.status.value,
        "holder": _holder_dict(holder) if holder else None,
        "process": store.liveness(holder).value if holder else None,
    }


def _holder_dict(holder: Holder) -> dict[str, Any]:
    return {
        "host": holder.host,
        "pid": holder.pid,
        "run_id": holder.run_id,
        "since": holder.since.isoformat(),
        "expires": holder.expires.isoformat(),
        "ttl_s": holder.ttl_s,
    }
