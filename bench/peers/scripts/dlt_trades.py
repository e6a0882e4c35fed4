"""Backfill of trades by dlt. Usage: dlt_trades.py URL PRODUCT[,PRODUCT...] FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import dlt
from dlt.sources.rest_api import rest_api_source


def main(url: str, products: list[str], folder: Path) -> None:
    """Load each product into a table of its own."""
    source = rest_api_source(
        {
            "client": {
                "base_url": url,
                "paginator": {
                    "type": "header_cursor",
                    "cursor_key": "CB-AFTER",
                    "cursor_param": "after",
                },
            },
            "resource_defaults": {
                "primary_key": "trade_id",
                "write_disposition": "merge",
            },
            "resources": [
                {
                    "name": product.replace("-", "_").lower(),
                    "endpoint": {
                        "path": f"products/{product}/trades",
                        "data_selector": "$",
                        "incremental": {
                            "cursor_path": "trade_id",
                            "initial_value": 0,
                            "row_order": "desc",
                        },
                    },
                }
                for product in products
            ],
        }
    )
    pipeline = dlt.pipeline(
        "trades",
        destination=dlt.destinations.duckdb(str(folder / "trades.duckdb")),
        dataset_name="lake",
        pipelines_dir=str(folder / "pipelines"),
    )
    # `parallelized` among the defaults has no effect in this version.
    for resource in source.resources.values():
        resource.parallelize()
    if pipeline.has_pending_data:  # what a run that was killed had extracted: loaded first
        pipeline.run()
    pipeline.run(source, loader_file_format="parquet")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3]))
