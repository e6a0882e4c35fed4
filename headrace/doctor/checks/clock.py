"""This machine's clock against the `Date` of the exchange."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from headrace.doctor.asking import NoAnswer, ask
from headrace.doctor.checks.breaker import phase_of
from headrace.doctor.checks.quota import quota_name, recorded_config
from headrace.doctor.model import Examined, Finding, ok, problem, warning
from headrace.errors import HeadraceError
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota import Phase, open_gate
from headrace.quota.inspect import breaker_path, quota_path

#: Coinbase refuses signed requests whose time is off by more (its documentation, "Signing a
#: message"); leases shared by machines allow for 5 s.
_TOO_FAR_S, _FAR_S = 30.0, 5.0
_PERMIT_WAIT_S = 4.0
_SET_IT = "Set the clock by NTP (timedatectl set-ntp true)"


def look_at_clock(examined: Examined) -> Iterator[Finding]:
    """One request, with a permit of the quota if there is one."""
    base_url = examined.base_url
    if base_url.startswith(BLOCK_PREFIX):
        yield ok("not looked at, since the address is in a block; give --base-url")
        return
    if reason := _must_not_ask(examined):
        yield ok(f"not looked at: {reason}")
        return
    before = examined.now()
    try:
        answer = ask(f"{base_url}/time")
    except NoAnswer as error:
        yield problem(error.message, error.hint or "Is the server in order?")
        return
    middle = (before + examined.now()) / 2
    try:
        theirs = parsedate_to_datetime(answer.headers.get("Date") or "").timestamp()
    except ValueError:
        yield warning(
            f"{base_url} does not say what time it is", "Compare the clock with another server's"
        )
        return
    # The header counts whole seconds: on average the server is half of one further.
    yield _judged(middle - theirs - 0.5, base_url)


def _judged(ahead_s: float, base_url: str) -> Finding:
    way = "ahead of" if ahead_s > 0 else "behind"
    words = f"this machine's clock is {abs(ahead_s):.0f} s {way} {base_url}"
    if abs(ahead_s) > _TOO_FAR_S:
        return problem(f"{words}: signed requests are refused and ages are wrong", _SET_IT)
    if abs(ahead_s) > _FAR_S:
        return warning(f"{words}, more than leases between machines allow for", _SET_IT)
    return ok(f"within {max(1, round(abs(ahead_s)))} s of {base_url}")


def _must_not_ask(examined: Examined) -> str:
    """Why no request may go now; empty, with a permit taken, if one may.

    Where no quota file exists nobody has used the quota, and one request is within any.
    """
    folder, name = examined.settings.quota_folder, quota_name(examined.base_url)
    path = quota_path(folder, name)
    if not path.exists() or not breaker_path(folder, name).exists():
        return ""
    try:
        phase = phase_of(folder, name)
        if phase is not Phase.CLOSED:
            return f"the breaker is {phase}"
        config = recorded_config(name, path)
        with open_gate(folder, config) as gate:
            gate.take(timeout_s=_PERMIT_WAIT_S)
    except (sqlite3.Error, ValueError) as error:
        return f"there is no permit without a sound quota file ({error})"
    except HeadraceError as error:
        return error.message
    return ""
