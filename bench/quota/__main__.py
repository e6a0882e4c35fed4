"""`python -m bench.quota [part …] [--quick]`."""

from __future__ import annotations

import sys

from bench.quota.run import run

if __name__ == "__main__":
    run(sys.argv[1:])
