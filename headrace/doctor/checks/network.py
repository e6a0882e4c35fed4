"""How requests reach their servers (proxies, certificates), and this machine's clock."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from headrace.doctor.checks.quota import phase_of, quota_name, recorded_config, shared_quota
from headrace.doctor.probes import NoAnswer, ask
from headrace.doctor.runner import Finding, Target, ok, problem, warning
from headrace.errors import ConfigurationError, HeadraceError
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota import Phase, open_gate
from headrace.quota.location import QuotaServer
from headrace.quota.status import breaker_path, known_names, quota_path
from headrace.wire import Origin, Proxy, proxy_for, tls_context, trusted_files

_CONNECT_S = 3.0


def check_network(target: Target) -> Iterator[Finding]:
    """The exchange's way, and Looker's if one is set; whether their proxies take connections."""
    tls_context()  # raises for files that cannot be used
    for variable, path in trusted_files().items():
        yield ok(f"the certificates in {path} are trusted ({variable})")
    proxies: dict[Origin, Proxy] = {}
    for url in (target.base_url, os.environ.get("LOOKERSDK_BASE_URL", "").strip("\"' ")):
        if not url or url.startswith(BLOCK_PREFIX):
            continue
        try:
            proxy = proxy_for(Origin.of(url))
        except ConfigurationError as error:
            yield problem(error.message, error.hint)
            continue
        except ValueError:
            continue  # an address that is none: the settings' check says so
        yield ok(f"{url} is reached {f'through {proxy}' if proxy else 'directly'}")
        if proxy:
            proxies[proxy.origin] = proxy
    for proxy in proxies.values():
        yield from _if_unreachable(proxy)


def _if_unreachable(proxy: Proxy) -> Iterator[Finding]:
    address = proxy.origin.host, proxy.origin.port
    try:
        socket.create_connection(address, _CONNECT_S).close()
    except OSError as error:
        yield problem(
            f"{proxy} does not answer ({error.strerror or error})",
            f"Correct {proxy.variable}, or name the servers in NO_PROXY",
        )


#: Coinbase refuses signed requests whose time is off by more (its documentation, "Signing a
#: message"); leases shared by machines allow for 5 s.
TOO_FAR_S, _FAR_S = 30.0, 5.0
_PERMIT_WAIT_S = 4.0
SET_IT = "Set the clock by NTP (timedatectl set-ntp true)"


def check_clock(target: Target) -> Iterator[Finding]:
    """One request, with a permit of the quota if there is one."""
    base_url = target.base_url
    if base_url.startswith(BLOCK_PREFIX):
        yield ok("not checked, since the address is in a block; give --base-url")
        return
    if reason := _must_not_ask(target):
        yield ok(f"not checked: {reason}")
        return
    before = target.now()
    try:
        answer = ask(f"{base_url}/time")
    except NoAnswer as error:
        yield problem(error.message, error.hint or "Is the server in order?")
        return
    middle = (before + target.now()) / 2
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
    if abs(ahead_s) > TOO_FAR_S:
        return problem(f"{words}: signed requests are refused and ages are wrong", SET_IT)
    if abs(ahead_s) > _FAR_S:
        return warning(f"{words}, more than leases between machines allow for", SET_IT)
    return ok(f"within {max(1, round(abs(ahead_s)))} s of {base_url}")


def _must_not_ask(target: Target) -> str:
    """Why no request may go now; empty, with a permit taken, if one may.

    Where no quota file exists no permit was ever given, and one request is within any quota.
    """
    name = quota_name(target.base_url)
    try:
        place = target.quotas()
        if isinstance(place, QuotaServer):
            if name not in known_names(place):
                return ""
            config, status = shared_quota(place, name)
            phase = status.breaker.phase
        else:
            path = quota_path(place, name)
            if not path.exists() or not breaker_path(place, name).exists():
                return ""
            phase, config = phase_of(place, name), recorded_config(name, path)
        if phase is not Phase.CLOSED:
            return f"the breaker is {phase}"
        with open_gate(place, config) as gate:
            gate.take(timeout_s=_PERMIT_WAIT_S)
    except (sqlite3.Error, ValueError) as error:
        return f"there is no permit without a sound quota file ({error})"
    except HeadraceError as error:
        return error.message
    return ""
