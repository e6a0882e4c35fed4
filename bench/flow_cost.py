"""The whole flow in this process, and what it cost (the Prefect server not counted).

Usage: python -m bench.flow_cost URL PRODUCT NEWEST FOLDER
"""

from __future__ import annotations

import json
import resource
import sys
import time

from headrace.cli.display import Display
from headrace.cli.running import report_of
from headrace.cli.server import bounded_exit


def main(url: str, product: str, folder: str) -> None:
    """Run the backfill flow and print CPU seconds, wall seconds and peak memory."""
    began_cpu, began = time.process_time(), time.monotonic()
    summary = report_of(
        "backfill",
        {"products": [product], "lake": folder, "base_url": url, "rate": "none"},
        Display(quiet=True),
    )
    print(
        json.dumps(
            {
                "cpu_s": round(time.process_time() - began_cpu, 2),
                "wall_s": round(time.monotonic() - began, 2),
                "flow_s": round(summary.elapsed_s, 2),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "rows": summary.products[0].new_rows,
            }
        )
    )
    bounded_exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[4])
