"""The Prefect API that commands would use: does it answer, is it one, does its version fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version

from headrace.doctor.asking import NoAnswer, ask
from headrace.doctor.model import Api, Examined, Finding, Severity, ok, problem, warning
from headrace.wire.upgrade import websocket_refusal

#: What to do where the API wants a login, or another one.
LOGIN_HINT = (
    "Set PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) as that server wants it, in the environment "
    "or in the Prefect profile"
)
_ELSEWHERE = "unset it to use the local server (headrace up)"


def look_at_api(examined: Examined) -> Iterator[Finding]:
    """Health first, then the version, for which a server may want a login, then events."""
    api = examined.api
    if api is None:
        yield ok("no Prefect API is up; each command starts one for its own time")
        return
    url = api.url.rstrip("/")
    try:
        health = ask(f"{url}/health", api.headers)
    except NoAnswer as error:
        remedy = "headrace down, then headrace up" if api.managed else f"Start it, or {_ELSEWHERE}"
        yield problem(f"{error.message}, from {api.source}", remedy)
        return
    if health.status in (401, 403):
        yield _refused(api, url, health.status)
    elif health.status != 200 or health.body.strip() != b"true":
        yield problem(
            f"{url} (from {api.source}) answers {health.status}, but not as a Prefect API",
            f"Correct the address (it ends with /api), or {_ELSEWHERE}",
        )
    else:
        about_version = _of_version(api, url)
        yield about_version
        if about_version.severity is not Severity.PROBLEM:
            yield from _of_events(api, url)


def _refused(api: Api, url: str, status: int) -> Finding:
    given = "the login" if "Authorization" in api.headers else "us without a login"
    return problem(f"{url} (from {api.source}) refuses {given} ({status})", LOGIN_HINT)


def _of_events(api: Api, url: str) -> Iterator[Finding]:
    if reason := websocket_refusal(f"{url}/events/in", api.headers, subprotocol="prefect"):
        yield warning(
            f"{url} takes no events ({reason}): it will show no task runs, and alarms stay silent",
            "Have the proxy in front of it pass WebSockets on (the headers Upgrade and Connection)",
        )


def _of_version(api: Api, url: str) -> Finding:
    answer = ask(f"{url}/admin/version", api.headers)
    if answer.status in (401, 403):
        return _refused(api, url, answer.status)
    if answer.status != 200:
        return ok(f"{url} answers (from {api.source}); it does not say its version")
    found, ours = str(json.loads(answer.body)), version("prefect")
    words = f"{url} runs Prefect {found}, this client is {ours}"
    theirs, mine = found.split("."), ours.split(".")
    if theirs[0] != mine[0]:
        return problem(words, "Install the same major version on both sides")
    if theirs[:2] != mine[:2]:
        return warning(words, "Install the same minor version on both sides")
    return ok(f"{url} runs Prefect {found} (from {api.source})")
