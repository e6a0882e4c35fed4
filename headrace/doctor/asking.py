"""One HTTP request with short limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import urllib3

from headrace import __version__
from headrace.errors import HeadraceError

_LIMITS = urllib3.Timeout(connect=3.0, read=4.0)
_MOST_BYTES = 4 * 2**20


class NoAnswer(HeadraceError):
    """Nobody answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(url: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Ask once; follow no redirect.

    Raises:
        NoAnswer: no connection, or no answer in time.
    """
    ours = {"User-Agent": f"headrace/{__version__}", "Accept": "application/json"}
    pool = urllib3.PoolManager(timeout=_LIMITS, retries=False)
    try:
        answer = pool.request(
            "GET",
            url,
            headers={**ours, **(headers or {})},
            redirect=False,
            preload_content=False,
        )
        body = answer.read(_MOST_BYTES)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise NoAnswer(f"nobody answers at {url} ({_reason(error)})") from error
    finally:
        pool.clear()
    return Answer(answer.status, answer.headers, body)


def _reason(error: BaseException) -> str:
    """The innermost words."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__
