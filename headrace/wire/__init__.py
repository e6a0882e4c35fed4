"""HTTP/1.1 requests over kept connections, with as little CPU as Python allows.

A page of trades is 100 KB that arrive in a few pieces. urllib3 over http.client spent 0.26 ms of
CPU on one, a third of it on reading headers line by line; this takes less than half. It does what
our callers need and nothing else: any method, bodies of every framing, keep-alive, TLS as Python's
default context does it, time-outs, and a word for each way in which it can go wrong. It follows no
redirects and uses no proxy.
"""

from headrace.wire.connection import Limits
from headrace.wire.exceptions import Broken, Silent, Unreachable, WireError
from headrace.wire.message import Headers, Reply
from headrace.wire.origin import Origin
from headrace.wire.pool import Pool
from headrace.wire.watch import Flight, Watch

__all__ = [
    "Broken",
    "Flight",
    "Headers",
    "Limits",
    "Origin",
    "Pool",
    "Reply",
    "Silent",
    "Unreachable",
    "Watch",
    "WireError",
]
