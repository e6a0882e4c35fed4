"""The Prefect API that commands would use: does it answer, is it one, does its version fit."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.metadata import version

from headrace.doctor.asking import NoAnswer, ask
from headrace.doctor.model import Api, Examined, Finding, ok, problem, warning

_ELSEWHERE = "unset it to use the local server (headrace up)"


def look_at_api(examined: Examined) -> Iterator[Finding]:
    """Health first, then the version."""
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
        yield problem(
            f"{url} (from {api.source}) refuses us with {health.status}",
            "Set PREFECT_API_KEY or PREFECT_API_AUTH_STRING as that server wants it",
        )
    elif health.status != 200 or health.body.strip() != b"true":
        yield problem(
            f"{url} (from {api.source}) answers {health.status}, but not as a Prefect API",
            f"Correct the address (it ends with /api), or {_ELSEWHERE}",
        )
    else:
        yield _of_version(api, url)


def _of_version(api: Api, url: str) -> Finding:
    answer = ask(f"{url}/admin/version", api.headers)
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


def api_headers() -> dict[str, str]:
    """What the environment says a request to the API needs, as Prefect's client would send it."""
    if key := os.environ.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    if pair := os.environ.get("PREFECT_API_AUTH_STRING"):
        from base64 import b64encode

        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    return {}
