"""`python -m headrace.sot.verifying.worker`: stretches in by standard input, verdicts out.

Not for people: `headrace.sot.verifying.verify` starts it.
"""

from __future__ import annotations

import os
import sys

import msgspec

from headrace.sot.opening import open_store
from headrace.sot.verifying.stretch import Stretch, verify_stretch


class VerifyJob(msgspec.Struct, frozen=True):
    """What one process verifies."""

    location: str
    stretches: list[Stretch]


def child_environment() -> dict[str, str]:
    """The environment in which a child finds the same modules as this process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def main() -> None:
    """Verify what standard input says; one verdict per line."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=VerifyJob)
    store = open_store(job.location, create=False)
    try:
        for stretch in job.stretches:
            verdict = verify_stretch(store, stretch)
            sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
            sys.stdout.buffer.flush()
    finally:
        store.close()


if __name__ == "__main__":
    main()
