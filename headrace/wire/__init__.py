"""HTTP/1.1 requests over kept connections, with as little CPU as Python allows.

A page of trades is 100 KB that arrive in a few pieces. urllib3 over http.client spent 0.26 ms of
CPU on one, a third of it on reading headers line by line; this takes less than half. It does what
our callers need and nothing else: any method, bodies of every framing, keep-alive, TLS as Python's
default context does it, the environment's proxies and certificates, time-outs, and an error for
each way in which it can go wrong. It follows no redirects.
"""

from typing import TYPE_CHECKING

from headrace.lazy_imports import deferred

if TYPE_CHECKING:
    from headrace.wire.connection import Limits
    from headrace.wire.exceptions import Broken, ProxyRefused, Silent, Unreachable, WireError
    from headrace.wire.message import Headers, Reply, problem_of_credential
    from headrace.wire.pool import Pool
    from headrace.wire.request_deadline import Flight, Watch
    from headrace.wire.route import (
        Origin,
        Proxy,
        check_proxies,
        keep_loopback_direct,
        proxy_for,
        tls_context,
        trusted_files,
    )

__all__ = [
    "Broken",
    "Flight",
    "Headers",
    "Limits",
    "Origin",
    "Pool",
    "Proxy",
    "ProxyRefused",
    "Reply",
    "Silent",
    "Unreachable",
    "Watch",
    "WireError",
    "check_proxies",
    "keep_loopback_direct",
    "problem_of_credential",
    "proxy_for",
    "tls_context",
    "trusted_files",
]

__getattr__ = deferred(
    __name__,
    {
        "connection": "Limits",
        "exceptions": "Broken ProxyRefused Silent Unreachable WireError",
        "message": "Headers Reply problem_of_credential",
        "pool": "Pool",
        "route": "Origin Proxy check_proxies keep_loopback_direct proxy_for tls_context "
        "trusted_files",
        "request_deadline": "Flight Watch",
    },
)
