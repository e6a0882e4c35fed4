"""`python -m bench.peers [JOB ...] [--short]`."""

from __future__ import annotations

import sys

from bench.peers.run import run

if __name__ == "__main__":
    run(sys.argv[1:])
