"""Whole flows into a bucket: how they learn where it is, and what its troubles cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.server import RunningServer
from headrace.sim import SimulatedExchange
from tests.s3_proxy import Answer, S3Proxy, s3_proxy
from tests.services_fixtures import ACCESS_KEY, SECRET_KEY, seaweed_url
from tests.support.places import s3_place
from tests.support.prefect_server import headrace_home, prefect_server, saved_checkpoint
from tests.support.processes import PRODUCT, Headrace, ended, requests_of, wait_until

__all__ = ["headrace_home", "prefect_server", "seaweed_url"]

pytestmark = [pytest.mark.flows, pytest.mark.services, pytest.mark.timeout(600)]

SLOW_DOWN = Answer(503, "SlowDown")
REFUSED = Answer(403, "AccessDenied")
GONE = Answer(0)
TRADES = 12_300

#: A Lake block, saved as the UI would save it.
SAVE_BLOCK = """
import json, sys
from blocks import Lake
name, fields = sys.argv[1], json.loads(sys.argv[2])
Lake(**fields).save(name)
"""


@pytest.fixture
def proxy(seaweed_url: str) -> Iterator[S3Proxy]:
    with s3_proxy(seaweed_url) as proxy:
        yield proxy


@pytest.fixture
def site(
    tmp_path: Path, headrace_home: Path, prefect_server: RunningServer, proxy: S3Proxy
) -> Iterator[Headrace]:
    spec = f"{PRODUCT}:{TRADES}"
    with SimulatedExchange(spec, seed=3, latency="constant:s=0.1") as sim:
        place = s3_place(proxy.url, tmp_path)
        yield Headrace(headrace_home, sim, place, prefect_server)


def checkpointed(site: Headrace) -> int:
    """How many ids the checkpoint claims; 0 if there is none."""
    assert site.server is not None
    found = saved_checkpoint(site.server.api_url, site.place.location, PRODUCT)
    return found.coverage.count if found else 0


@pytest.mark.slow
def test_backfill_and_ingest_with_the_environment_that_boto3_knows(
    site: Headrace, proxy: S3Proxy
) -> None:
    proxy.script("PUT", SLOW_DOWN, key="part-", times=3)
    end = site.run("backfill")
    assert end.code == 0, end
    assert (end.product["new_rows"], end.product["rows"]) == (TRADES, TRADES)
    site.truth.assert_complete(site.place)

    site.sim.grow(PRODUCT, 1_500)
    end = site.run("ingest")
    assert end.code == 0, end
    assert (end.product["new_rows"], end.product["rows"]) == (1_500, TRADES + 1_500)
    site.truth.assert_complete(site.place)


@pytest.mark.slow
def test_no_permission_to_write_is_named_before_any_request_is_spent(
    site: Headrace, proxy: S3Proxy
) -> None:
    proxy.script("PUT", REFUSED, times=None)
    end = site.run()

    assert (end.code, end.said) == (2, ""), end
    for word in ("AccessDenied", "PutObject", site.place.location, "s3:PutObject"):
        assert word in end.errors
    assert len(proxy.requests("PUT")) == 1
    assert requests_of(site.sim) == 0
    assert checkpointed(site) == 0


@pytest.mark.slow
def test_a_saved_block_brings_endpoint_and_credentials(site: Headrace) -> None:
    assert site.server is not None
    fields = {
        "location": site.place.location,
        "endpoint_url": site.place.endpoint,
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
    }
    name = site.place.location.rpartition("/")[2]
    subprocess.run(
        [sys.executable, "-c", SAVE_BLOCK, name, json.dumps(fields)],
        env={**os.environ, "PREFECT_API_URL": site.server.api_url, "DO_NOT_TRACK": "1"},
        check=True,
        capture_output=True,
    )
    nothing = dict.fromkeys(site.place.environment, "")
    for flow in ("backfill", "ingest"):
        site.sim.grow(PRODUCT, 800)
        end = site.run(flow, lake=f"block:{name}", **nothing)
        assert end.code == 0, end
        assert SECRET_KEY not in end.said + end.errors
        site.truth.assert_complete(site.place)


@pytest.mark.slow
def test_a_store_that_is_down_for_a_while_costs_time_and_nothing_else(
    site: Headrace, proxy: S3Proxy
) -> None:
    process = site.start()
    wait_until(lambda: len(proxy.requests("PUT", "part-")) >= 3, process)
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        proxy.script(method, GONE, times=None)
    time.sleep(20)
    assert process.poll() is None
    proxy.rules.clear()

    end = ended(process)
    assert end.code == 0, end
    site.truth.assert_complete(site.place)


@pytest.mark.slow
def test_a_store_that_stays_down_ends_the_run_with_what_it_had(
    site: Headrace, proxy: S3Proxy
) -> None:
    process = site.start()
    wait_until(lambda: len(proxy.requests("PUT", "part-")) >= 3, process)
    proxy.script("PUT", SLOW_DOWN, key="part-", times=None)

    end = ended(process, timeout_s=300)
    assert end.code == 4, end
    assert "SlowDown" in end.product["error"]
    assert site.place.location in end.product["error"]
    kept = site.truth.assert_sound(site.place)
    assert 0 < checkpointed(site) <= kept.count < TRADES
    proxy.rules.clear()
    assert site.run().code == 0
    site.truth.assert_complete(site.place)


@pytest.mark.slow
def test_no_permission_for_parts_ends_the_run_at_once_and_moves_no_checkpoint(
    site: Headrace, proxy: S3Proxy
) -> None:
    site.sim.grow(PRODUCT, 100_000)
    proxy.script("PUT", REFUSED, key="part-", times=None)
    end = site.run()

    assert end.code == 1, end
    assert end.product["status"] == "failed"
    for word in ("AccessDenied", "PutObject", f"{site.place.location}/raw/trades"):
        assert word in end.product["error"]
    # What was on its way already, not the whole history.
    assert requests_of(site.sim) < 20
    assert checkpointed(site) == 0
    assert site.place.coverage(PRODUCT).count == 0


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_store_is_down(
    site: Headrace, proxy: S3Proxy, sign: signal.Signals
) -> None:
    process = site.start()
    wait_until(lambda: len(proxy.requests("PUT", "part-")) >= 3, process)
    proxy.script("PUT", GONE, key="part-", times=None)
    asked = len(proxy.requests("PUT", "part-"))
    wait_until(lambda: len(proxy.requests("PUT", "part-")) >= asked + 6, process)
    process.send_signal(sign)

    assert ended(process, timeout_s=10).code == 130
    site.truth.assert_sound(site.place)
    proxy.rules.clear()
    assert site.run().code == 0
    site.truth.assert_complete(site.place)
