"""The stand-alone check reads a bucket as it reads a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.lake import content_digest, open_lake
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.services_fixtures import ACCESS_KEY, BUCKET, SECRET_KEY, settings_for

SCRIPT = Path(__file__).parents[2] / "verify_lake.py"


@pytest.mark.services
def test_a_lake_in_a_bucket(seaweed_url: str) -> None:
    location = f"s3://{BUCKET}/verify/{uuid4().hex}"
    rows = trades(range(1, 900))
    raw = open_lake(location, s3=settings_for(seaweed_url)).raw("coinbase")
    raw.write("BTC-USD", 1, 1_000, rows, source=SOURCE, fetched_at=FETCHED_AT)

    done = subprocess.run(
        [sys.executable, str(SCRIPT), f"{location}?endpoint_override={seaweed_url}&region=here"],
        env={**os.environ, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert "coinbase BTC-USD: ok" in done.stdout
    assert str(content_digest(rows)) in done.stdout
