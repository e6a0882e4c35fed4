"""A Prefect API for the time of one command."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.cli.common import logs_are_json
from headrace.cli.exit_codes import drain
from headrace.cli.server.configured import configured_api
from headrace.cli.server.environment import client_environment, configured_environment, prefect_home
from headrace.cli.server.managed import ManagedServer, RunningServer
from headrace.errors import HeadraceError
from headrace.settings import load_settings
from headrace.stopping import STOP
from headrace.wire import check_proxies

log = logging.getLogger(__name__)

#: How long the last events and logs of a command may take before its server is stopped.
_DRAIN_S = 10.0
_INTERRUPTED_DRAIN_S = 2.0


@dataclass(frozen=True)
class RunApi:
    """The API that a command uses.

    Attributes:
        api_url: what `PREFECT_API_URL` is now.
        ui_url: where a browser finds the runs.
        origin: `configured` (the user's own), `up` (ours, stays) or `temporary` (ours, ends with
            the command).
    """

    api_url: str
    ui_url: str
    origin: str


def say_on_stderr(line: str) -> None:
    """One line for people; not on stdout, which belongs to `--json`."""
    if logs_are_json():
        log.info("%s", line)
        return
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextmanager
def api_for_run(
    home: Path,
    *,
    say: Callable[[str], None] = say_on_stderr,
    while_starting: Callable[[], None] = lambda: None,
) -> Iterator[RunApi]:
    """Have a Prefect API for a `with` block; `prefect` is best imported inside it.

    Where the user has configured one (see `configured`), that is used; it is not touched.
    Otherwise it is the managed server: the one that is up, else one for the time of the block.

    Args:
        home: `HEADRACE_HOME`.
        say: takes the lines for people: where the UI is, how to keep it up.
        while_starting: called while a server starts, with the environment already set: the place
            to import the flows (1 to 3 s), which then costs no time of its own.

    Raises:
        ConfigurationError: a settings file of Prefect's cannot be read, or a proxy not be used.
        StateFolderError, ProcessStartError, LockTimeout: the server cannot be had.
    """
    check_proxies()
    # Prefect's own log lines stay off the terminal; the UI has them. Read when it is imported.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    configured = configured_api()
    if configured is not None:
        say(f"Prefect API: {configured.api_url} (from {configured.source})")
        with _environment({**configured_environment(), **prefect_home(home)}):
            yield RunApi(configured.api_url, configured.ui_url, "configured")
        return
    with managed_api(home, say=say, while_starting=while_starting) as api:
        yield api


@contextmanager
def managed_api(
    home: Path,
    *,
    say: Callable[[str], None] = say_on_stderr,
    while_starting: Callable[[], None] = lambda: None,
) -> Iterator[RunApi]:
    """Do as `api_for_run` does where nothing is configured, whatever is configured."""

    check_proxies()

    def of_client(server: RunningServer) -> dict[str, str]:
        return {**client_environment(server.port), **prefect_home(home)}

    with ExitStack() as environment:

        def starting(server: RunningServer) -> None:
            say("Starting a Prefect server for this command (some seconds)")
            environment.enter_context(_environment(of_client(server)))
            while_starting()

        managed = ManagedServer(home)
        with managed.used(while_starting=starting) as server:
            if not server.started_now:
                environment.enter_context(_environment(of_client(server)))
            origin = "up" if server.record.kept else "temporary"
            say(_where(server))
            try:
                yield RunApi(server.api_url, server.ui_url, origin)
            finally:
                # Without a server, what is not delivered by now would hold up the process's end.
                if origin == "temporary":
                    patience_s = _INTERRUPTED_DRAIN_S if STOP.is_set() else _DRAIN_S
                    drain(patience_s if managed.running() else 0.0)


def _where(server: RunningServer) -> str:
    if not server.record.kept:
        return (
            f"Prefect UI: {server.ui_url} until this command ends; "
            "`headrace up` keeps it up, with this and all earlier runs"
        )
    if server.started_now:
        return f"Prefect UI: {server.ui_url} (it was down and was started again)"
    return f"Prefect UI: {server.ui_url}"


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        with _settings_of_imported_prefect(values):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _settings_of_imported_prefect(values: Mapping[str, str]) -> AbstractContextManager[object]:
    # Prefect reads the environment when it is imported, and not again.
    if "prefect.settings" not in sys.modules:
        return nullcontext()
    from prefect import settings

    updates = {
        getattr(settings, name): value for name, value in values.items() if hasattr(settings, name)
    }
    return settings.temporary_settings(updates=updates)


def with_client(ask: Callable[[Any], Awaitable[Any]]) -> Any:
    """Call `ask` with a client of the API that commands use (see docs/server.md), and await it.

    Raises:
        HeadraceError: the API does not answer, or refuses.
    """
    with api_for_run(load_settings().home, say=say_on_stderr) as api:
        from prefect.client.orchestration import get_client

        from headrace.prefect_api.reachable import API_ERRORS, require_api

        async def asked() -> Any:
            async with get_client() as client:
                return await ask(client)

        try:
            require_api()
            try:
                return asyncio.run(asked())
            finally:
                # Using a block is an event. The interpreter's end would wait for it without a
                # limit, and say so.
                drain(_DRAIN_S)
        except API_ERRORS as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise HeadraceError(
                f"the Prefect API at {api.api_url} does not do it: {said[:200]}",
                hint=next_step(error),
            ) from error


def next_step(error: BaseException | None) -> str:
    """What to do about an error of the Prefect API."""
    from headrace.doctor.checks.prefect import LOGIN_HINT

    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return LOGIN_HINT
    return "headrace status says whether the server runs, headrace doctor what else is wrong"
