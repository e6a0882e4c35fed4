"""A checkpoint that cannot be used stops its product; the lake alone brings it back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.blocks.core import Block
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import BlockDocumentUpdate
from prefect.utilities.dispatch import register_type
from support.pulls import assert_lake_equals_source, coverage, of_product, run_backfill
from typer.testing import CliRunner

from blocks.checkpoint import BlockCheckpoints, ProductCheckpoint, checkpoint_name
from headrace.cli.checkpoint import app
from headrace.errors import ConfigurationError
from headrace.leases import hold, open_leases
from headrace.pull.checkpoints import SCHEMA_VERSION
from headrace.pull.product_leases import ProductLeases
from headrace.run.report import Status
from headrace.settings import load_settings
from headrace.sim import SimulatedExchange

pytestmark = pytest.mark.flows

QUICK = {"workers": 2, "chunk_concurrency": 4}
SLUG = ProductCheckpoint.get_block_type_slug()


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def sim():
    with SimulatedExchange("BTC-USD:9000", "ETH-USD:500", seed=3) as exchange:
        yield exchange


def load(lake, product="BTC-USD"):
    return BlockCheckpoints(str(lake)).load("coinbase", product)


def stored(lake, product="BTC-USD"):
    with get_client(sync_client=True) as client:
        name = checkpoint_name(str(lake), "coinbase", product)
        return client.read_block_document_by_name(name, SLUG)


def put(lake, data, product="BTC-USD"):
    document = stored(lake, product)
    update = BlockDocumentUpdate(data=data, merge_existing_data=False)
    with get_client(sync_client=True) as client:
        client.update_block_document(document.id, update)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def as_json(*arguments, code=0):
    result = run(*arguments, "--json")
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


def without(form, name):
    return {key: value for key, value in form.items() if key != name}


@pytest.fixture
def asked(monkeypatch):
    """Requests about block documents that this process sends, in order."""
    sent, real = [], SyncPrefectClient.request

    def request(self, method, path, *arguments, **options):
        if "block_documents" in path:
            sent.append((method, path))
        return real(self, method, path, *arguments, **options)

    monkeypatch.setattr(SyncPrefectClient, "request", request)
    return sent


def test_checkpoints_of_a_run_are_read_together_and_saved_only_if_something_is_new(
    lake, sim, asked
):
    products = ["BTC-USD", "ETH-USD"]
    run_backfill(sim, lake, products, **QUICK)
    before = [load(lake, product) for product in products]
    assert {checkpoint.watermark for checkpoint in before} == {9000, 500}
    asked.clear()
    summary = run_backfill(sim, lake, products, **QUICK)
    assert summary.status is Status.DONE
    assert asked == [("POST", "/block_documents/filter")]
    sim.grow("ETH-USD", 10)
    asked.clear()
    summary = run_backfill(sim, lake, products, **QUICK)
    assert of_product(summary, "ETH-USD").new_rows == 10
    assert asked.count(("POST", "/block_documents/filter")) == 1
    assert {method for method, _path in asked[1:]} == {"PATCH"}
    after = [load(lake, product) for product in products]
    assert after[0] == before[0]
    assert (after[1].watermark, after[1].run_id) == (510, summary.run)


def test_a_checkpoint_read_ahead_is_read_again_when_it_may_be_old(lake, sim, asked, monkeypatch):
    run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], **QUICK)
    checkpoints = BlockCheckpoints(str(lake))
    checkpoints.read_together("coinbase", ["BTC-USD", "ETH-USD", "SOL-USD"])
    asked.clear()
    first = checkpoints.load("coinbase", "BTC-USD")
    assert checkpoints.load("coinbase", "SOL-USD") is None
    monkeypatch.setattr("blocks.versioned_documents._FRESH_S", 0.0)
    assert checkpoints.load("coinbase", "ETH-USD").watermark == 500
    assert checkpoints.load("coinbase", "BTC-USD") == first  # for the second time: by itself
    assert [method for method, _path in asked] == ["POST", "POST", "GET"]


def smaller_class(lake, _form):
    """Saved by another version of the block's class, which lacks the field."""
    BlockCheckpoints(str(lake)).delete("coinbase", "BTC-USD")
    try:

        class Smaller(Block):
            _block_type_name = "Headrace Checkpoint"
            _block_type_slug = SLUG
            watermark: int

        Smaller(watermark=9000).save(checkpoint_name(str(lake), "coinbase", "BTC-USD"))
    finally:
        register_type(ProductCheckpoint)


def garbage(lake, _form):
    put(lake, {"checkpoint": "\x00garbage"})


@pytest.mark.filterwarnings("ignore:Type .* has key 'headrace-checkpoint'")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(smaller_class, id="a smaller class", marks=pytest.mark.long),
        pytest.param(garbage, id="garbage"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_a_rebuild_mends_it(lake, sim, spoil):
    run_backfill(sim, lake, ["BTC-USD"], to_id=4000, **QUICK)
    before = load(lake)
    spoil(lake, before.model_dump(mode="json"))
    spoilt = stored(lake).data
    sim.reset_log()

    refused = run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], **QUICK)
    receipt = of_product(refused, "BTC-USD")
    assert refused.status is Status.PARTIAL
    assert receipt.status is Status.FAILED
    assert "headrace checkpoint rebuild BTC-USD" in receipt.error
    assert of_product(refused, "ETH-USD").status is Status.DONE
    assert all(arrival.subject.product == "ETH-USD" for arrival in sim.arrivals())
    assert stored(lake).data == spoilt
    assert coverage(lake, "BTC-USD") == [[1, 4000]]
    [listed] = [
        entry
        for entry in as_json("list", "--lake", lake)["checkpoints"]
        if entry["checkpoint"] is None
    ]
    assert listed["problem"]

    sim.reset_log()
    [mended] = as_json("rebuild", "btc-usd", "--lake", lake)["products"]
    assert not sim.arrivals()
    assert mended["status"] == "done"
    after = load(lake)
    assert (after.covered, after.rows, after.first, after.watermark) == (
        before.covered,
        before.rows,
        before.first,
        before.watermark,
    )
    assert after.fencing_token > before.fencing_token
    assert run_backfill(sim, lake, ["BTC-USD"], **QUICK).status is Status.DONE
    assert_lake_equals_source(lake, sim, "BTC-USD")


def test_a_newer_checkpoint_is_refused_and_only_force_replaces_it(lake, sim):
    run_backfill(sim, lake, ["BTC-USD"], to_id=4000, **QUICK)
    form = load(lake).model_dump(mode="json")
    newer = {"checkpoint": {**form, "schema_version": SCHEMA_VERSION + 1, "colour": "blue"}}
    put(lake, newer)
    refused = of_product(run_backfill(sim, lake, ["BTC-USD"], **QUICK), "BTC-USD")
    assert refused.status is Status.FAILED
    assert "Upgrade headrace" in refused.error
    [result] = as_json("rebuild", "--lake", lake, code=1)["products"]
    assert "Upgrade headrace" in result["error"]
    assert stored(lake).data == newer
    as_json("rebuild", "--force", "--lake", lake)
    assert load(lake).watermark == 4000


def test_an_older_checkpoint_is_upgraded_without_a_word(lake, sim):
    run_backfill(sim, lake, ["BTC-USD"], to_id=4000, **QUICK)
    form = load(lake).model_dump(mode="json")
    put(lake, {"checkpoint": without(without({**form, "schema_version": 0}, "rows"), "first")})
    sim.reset_log()
    summary = run_backfill(sim, lake, ["BTC-USD"], **QUICK)
    assert summary.status is Status.DONE
    assert of_product(summary, "BTC-USD").new_rows == 5000
    assert all((arrival.subject.cursor or 9001) > 4000 for arrival in sim.arrivals())
    assert load(lake).schema_version == SCHEMA_VERSION
    assert load(lake).rows == 9000


@pytest.mark.long
def test_tokens_rise_although_the_leases_are_lost_and_the_clock_was_set_back(
    lake, sim, tmp_path, monkeypatch
):
    # Leases of its own: those of the session belong to the tests beside this one, too.
    monkeypatch.setenv("HEADRACE_LEASES", str(tmp_path / "leases"))
    run_backfill(sim, lake, ["BTC-USD"], to_id=4000, **QUICK)
    ahead = load(lake).model_dump(mode="json")
    # As if it had been written by a clock that is a year ahead of the one that counts now.
    ahead["fencing_token"] += 365 * 86_400_000
    put(lake, {"checkpoint": ahead})
    forget_leases()

    assert run_backfill(sim, lake, ["BTC-USD"], **QUICK).status is Status.DONE
    after_run = load(lake).fencing_token
    forget_leases()
    [mended] = as_json("rebuild", "BTC-USD", "--lake", lake)["products"]
    assert mended["status"] == "done"
    assert ahead["fencing_token"] < after_run < load(lake).fencing_token
    assert_lake_equals_source(lake, sim, "BTC-USD")


def forget_leases():
    for file in Path(load_settings().lease_location).glob("leases.sqlite*"):
        file.unlink()


def test_looking_forgetting_and_rebuilding_all(lake, sim):
    run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], **QUICK)
    assert as_json("show", "BTC-USD", "--lake", lake)["unified"] is None
    run_backfill(sim, lake, ["BTC-USD"], transform=True, **QUICK)
    listed = as_json("list", "--lake", lake)["checkpoints"]
    assert [entry["checkpoint"]["product"] for entry in listed] == ["BTC-USD", "ETH-USD"]
    everywhere = as_json("list", "--all-lakes", "--lake", lake)["checkpoints"]
    assert {entry["block"] for entry in listed} <= {entry["block"] for entry in everywhere}
    shown = as_json("show", "btc-usd", "--lake", lake)
    assert (shown["rows"], shown["covered"]) == (9000, [[1, 9000]])
    taken = {"taken": [[1, 9000]], "rows": 9000, "files": 1, "version": 1}
    assert shown["unified"] == taken
    assert "1-9000; 9,000 trades in 1 file" in run("show", "BTC-USD", "--lake", lake).stdout
    for seen in (run("list", "--lake", lake), run("show", "BTC-USD", "--lake", lake)):
        assert "9,000" in seen.stdout
        assert "BTC-USD" in seen.stdout

    assert isinstance(run("reset", "BTC-USD", "--lake", lake).exception, ConfigurationError)
    assert load(lake) is not None
    forgotten = as_json("reset", "BTC-USD", "SOL-USD", "--yes", "--lake", lake)
    assert forgotten["products"] == {
        "BTC-USD": "forgotten",
        "SOL-USD": "there was no checkpoint",
    }
    assert load(lake) is None
    missing = run("show", "BTC-USD", "--lake", lake)
    assert "no checkpoint of BTC-USD" in str(missing.exception)

    made = as_json("rebuild", "--lake", lake)["products"]
    assert [each["checkpoint"]["rows"] for each in made] == [9000, 500]
    sim.reset_log()
    assert run_backfill(sim, lake, ["BTC-USD"], **QUICK).requests == 1


def test_what_a_rebuild_cannot_do_is_said_product_by_product(lake, sim):
    run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], **QUICK)
    location = load_settings().lease_location
    product_leases = ProductLeases(open_leases(location), "coinbase", "ETH-USD", str(lake))
    with hold(open_leases(location), product_leases.run("ingest"), run_id="another", ttl_s=60):
        results = as_json("rebuild", "--lake", lake, code=3)["products"]
        assert [each["status"] for each in results] == ["done", "running_elsewhere"]
        assert "another" in results[1]["error"]
        kept = as_json("reset", "ETH-USD", "--yes", "--lake", lake, code=3)["products"]
        assert "another" in kept["ETH-USD"]
        assert load(lake, "ETH-USD") is not None
    part = min((lake / "raw").rglob("product=BTC-USD/*.parquet"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-100])
    before = load(lake)
    results = as_json("rebuild", "BTC-USD", "ETH-USD", "DOGE-USD", "--lake", lake, code=4)
    by_product = {each["product"]: each for each in results["products"]}
    assert str(part) in by_product["BTC-USD"]["error"]
    assert by_product["ETH-USD"]["status"] == "done"
    assert "holds no part" in by_product["DOGE-USD"]["error"]
    assert load(lake) == before
    assert load(lake, "DOGE-USD") is None


def test_a_lake_that_is_not_there_is_not_made(tmp_path):
    result = run("rebuild", "--lake", tmp_path / "typo")
    assert isinstance(result.exception, ConfigurationError)
    assert "holds no trades" in str(result.exception)
    assert not (tmp_path / "typo").exists()


@pytest.mark.slow
def test_a_lake_outlives_the_database_of_prefect(lake, sim, tmp_path):
    """Another state folder: another server, with an empty database."""
    run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], **QUICK)
    before = load(lake)
    sim.reset_log()
    environment = {name: text for name, text in os.environ.items() if name != "PREFECT_API_URL"}
    environment |= {"HEADRACE_HOME": str(tmp_path / "home"), "HEADRACE_LAKE": str(lake)}
    command = [sys.executable, "-m", "headrace.cli.main", "checkpoint", "rebuild", "--json"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    btc, eth = (each["checkpoint"] for each in json.loads(done.stdout)["products"])
    assert (btc["rows"], btc["watermark"], btc["first"]) == (9000, 9000, 1)
    assert btc["covered"] == [list(span) for span in before.covered]
    assert eth["rows"] == 500
    assert not sim.arrivals()
