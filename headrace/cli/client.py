"""A client of the Prefect API for commands that only ask or tell it something."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.cli.console import silence_prefect_console
from headrace.cli.server import api_for_run
from headrace.cli.server.run import say_on_stderr
from headrace.errors import HeadraceError
from headrace.settings import load_settings


def with_client(ask: Callable[[Any], Awaitable[Any]]) -> Any:
    """Call `ask` with a client of the API that commands use (see docs/server.md), and await it.

    Raises:
        HeadraceError: the API does not answer, or refuses.
    """
    silence_prefect_console()
    with api_for_run(load_settings().home, say=say_on_stderr) as api:
        from prefect.client.orchestration import get_client

        from blocks.api import API_ERRORS, require_api

        async def asked() -> Any:
            async with get_client() as client:
                return await ask(client)

        try:
            require_api()
            return asyncio.run(asked())
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
