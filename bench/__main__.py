"""`python -m bench [NAME [ARGUMENT...]]`: run all benches, or one of them."""

from __future__ import annotations

import sys
from importlib import import_module

BENCHES = {
    "backfill": "bench.backfill",
    "lake": "bench.lake",
    "looker": "bench.looker",
    "nothing-new": "bench.nothing_new",
    "query": "bench.query",
    "quota": "bench.quota.run",
    "scale": "bench.scale",
    "sot": "bench.sot",
    "spread": "bench.spread",
    "sot-evidence": "bench.sot_evidence",
    "sot-cql": "bench.sot_cql",
    "starts": "bench.starts",
    "unified": "bench.unified",
}


def main(arguments: list[str]) -> None:
    """Run the benches named, or all."""
    if arguments and arguments[0] not in BENCHES:
        raise SystemExit(f"there is no bench {arguments[0]!r}; there are {', '.join(BENCHES)}")
    for name in arguments[:1] or list(BENCHES):
        print(f"== {name}")
        import_module(BENCHES[name]).run(arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
