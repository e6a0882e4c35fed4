"""What one would write in an afternoon: a thread pool, a stock bucket, pyarrow. The baseline.

Usage: python -m bench.plain_script URL PRODUCT[,PRODUCT...] NEWEST FOLDER [THREADS [RATE]]
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import requests
from pyrate_limiter import Duration, Limiter, Rate, SQLiteBucket
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

PAGE = 1000
BATCH = 100


def main(
    url: str,
    products: list[str],
    newest: int,
    folder: Path,
    threads: int = 5,
    rate_per_s: int = 1_000_000,
) -> None:
    """Fetch every page of each product and write a file per hundred of them."""
    folder.mkdir(parents=True, exist_ok=True)
    bucket = SQLiteBucket.init_from_file(
        [Rate(rate_per_s, Duration.SECOND)],
        db_path=str(folder / "bucket.sqlite"),
        use_file_lock=True,
    )
    limiter = Limiter(bucket)
    patient = Retry(total=5, backoff_factor=0.5, status_forcelist=[429, 500, 502, 503, 504])
    with requests.Session() as session:
        session.mount("http", HTTPAdapter(max_retries=patient))

        def page(product: str, after: int) -> list[dict[str, Any]]:
            limiter.try_acquire("page")
            answer = session.get(f"{url}/products/{product}/trades", params={"after": after})
            answer.raise_for_status()
            # A cursor above the newest id is answered with ids of the page before, too.
            rows = [row for row in answer.json() if row["trade_id"] >= after - PAGE]
            for row in rows:
                row["time"] = datetime.fromisoformat(row["time"])
            return rows

        with ThreadPoolExecutor(threads) as pool:
            cursors = range(PAGE + 1, newest + PAGE + 1, PAGE)
            for product, start in itertools.product(products, range(0, len(cursors), BATCH)):
                pages = pool.map(partial(page, product), cursors[start : start + BATCH])
                rows = sorted((row for rows in pages for row in rows), key=lambda r: r["trade_id"])
                name = f"{product}-{start:06d}.parquet"
                pq.write_table(pa.Table.from_pylist(rows), folder / name)


if __name__ == "__main__":
    began_cpu, began = time.process_time(), time.monotonic()
    main(
        sys.argv[1],
        sys.argv[2].split(","),
        int(sys.argv[3]),
        Path(sys.argv[4]),
        *map(int, sys.argv[5:]),
    )
    print(
        json.dumps(
            {
                "cpu_s": round(time.process_time() - began_cpu, 2),
                "wall_s": round(time.monotonic() - began, 2),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )
