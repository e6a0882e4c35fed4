"""The command as its users meet it: exit codes, one JSON object, errors that name what is wrong."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from support.processes import ended, wait_until
from support.pulls import assert_lake_equals_source, coverage

from blocks.checkpoint import BlockCheckpoints
from headrace.cli.main import main
from headrace.cli.server.run import with_client
from headrace.coverage import IntervalSet
from headrace.leases import LeaseStatus, hold, open_leases
from headrace.pull.product_leases import ProductLeases
from headrace.settings import load_settings
from headrace.sim import SimulatedExchange

pytestmark = pytest.mark.flows

LONG = pytest.mark.long


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def summary(self):
        [line] = self.out.splitlines()
        return json.loads(line)

    @property
    def words(self) -> str:
        """What was said, whatever the width of the terminal."""
        return " ".join((self.out + self.err).replace("│", " ").split())


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def sim():
    with SimulatedExchange("BTC-USD:2500", "ETH-USD:1200", seed=4) as exchange:
        yield exchange


@pytest.fixture
def headrace(monkeypatch, capfd):
    """The command in this process; it ends with an exception instead of the process."""
    monkeypatch.setattr("headrace.cli.running.bounded_exit", lambda code, drain_s: sys.exit(code))

    def run(*arguments) -> Ended:
        monkeypatch.setattr(sys, "argv", ["headrace", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return Ended(int(ended.value.code or 0), out, err)

    return run


def in_a_process(*command) -> Ended:
    """The same in a process of its own, which finds the server of the tests by the state folder."""
    environment = {name: text for name, text in os.environ.items() if name != "PREFECT_API_URL"}
    done = subprocess.run(
        [str(part) for part in command],
        env={**environment, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def script() -> Path:
    return Path(sys.executable).with_name("headrace")


def of(sim, lake):
    return ("--base-url", sim.url, "--lake", lake, "--rate", "none")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no product is named; give product ids, --match, --set, --all or --from-file"),
        (("BTC-USD", "--all"), "product ids and --all both say which products"),
        (("--match", "re:("), "'re:(' is no regular expression"),
        (("--all",), "keeps no list of products to choose from"),
        (("--set", "usd"), "keeps no set of products named 'usd'"),
        (("--from-file", "nowhere.txt"), "nowhere.txt: No such file"),
        (("BTC-USD", "--colour", "blue"), "No such option: --colour"),
        (("BTC USD",), "'BTC USD' is no product id"),
        (("../../etc",), "'../../etc' is no product id"),
        (("BTC-USD", "--workers", "0"), "'--workers': Input should be greater"),
        (("BTC-USD", "--workers", "many"), "'--workers': Input should be a valid integer"),
        (("BTC-USD", "--workers", "50", "--chunk-concurrency", "50"), "2500 requests in flight"),
        (("BTC-USD", "--base-url", "exchange"), "'exchange' is no http or https URL"),
        (("BTC-USD", "--rate", "fast"), "rate 'fast'"),
        (("BTC-USD", "--last", "soon"), "'soon' is not a length of time"),
        (("BTC-USD", "--since", "2024-02-30"), "'2024-02-30'"),
        (("BTC-USD", "--from-id", "9", "--to-id", "3"), "to_id 3 is below from_id 9"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(headrace, lake, arguments, said):
    ended = headrace("backfill", *arguments, "--lake", lake, "--json")
    assert ended.code == 2
    assert ended.out == ""
    assert said in ended.words
    assert not lake.exists()


def test_a_variable_that_cannot_be_used_is_named(headrace, lake, monkeypatch):
    monkeypatch.setenv("HEADRACE_LEASE_TTL_S", "-5")
    ended = headrace("backfill", "BTC-USD", "--lake", lake)
    assert ended.code == 2
    assert "HEADRACE_LEASE_TTL_S='-5' cannot be used" in ended.err


def test_a_lake_that_is_a_file_is_refused_and_left_alone(headrace, sim, lake):
    lake.write_text("mine")
    ended = headrace("backfill", "BTC-USD", *of(sim, lake))
    assert ended.code == 2
    assert str(lake) in ended.err
    assert lake.read_text() == "mine"
    assert sim.stats()["requests"] == 0


def test_an_address_that_does_not_answer_is_said_at_once(headrace, lake):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    ended = headrace("backfill", "BTC-USD", "--base-url", url, "--lake", lake, "--json")
    assert ended.code == 1
    assert ended.out == ""
    assert str(port) in ended.err
    assert coverage(lake, "BTC-USD") == []


def test_an_unknown_product_is_a_failure_and_beside_others_a_partial_run(headrace, sim, lake):
    acquire_all = headrace("backfill", "GONE-USD", *of(sim, lake), "--json")
    assert acquire_all.code == 1
    assert acquire_all.summary["status"] == "failed"
    assert "404" in acquire_all.summary["products"][0]["error"]
    beside = headrace("backfill", "GONE-USD", "ETH-USD", *of(sim, lake))
    assert beside.code == 4
    for word in ("GONE-USD", "404", "partial", "1,200"):
        assert word in beside.words
    assert_lake_equals_source(lake, sim, "ETH-USD")


@LONG
def test_in_a_process_of_its_own_json_is_one_object_and_a_second_run_finds_nothing_to_do(sim, lake):
    module = (sys.executable, "-m", "flows.backfill")
    done = in_a_process(*module, "BTC-USD", "eth-usd", *of(sim, lake), "--json")
    assert done.code == 0, done.err
    assert done.summary["status"] == "done"
    found = {each["product"]: each["new_rows"] for each in done.summary["products"]}
    assert found == {"BTC-USD": 2500, "ETH-USD": 1200}
    for product in found:
        assert_lake_equals_source(lake, sim, product)
    again = in_a_process(script(), "backfill", "BTC-USD", *of(sim, lake))
    assert again.code == 0, again.err
    assert "0 new trades" in again.words
    assert "complete" in again.words


def test_what_another_run_works_on_is_left_to_it_before_prefect_is_used(sim, lake):
    leases = open_leases(load_settings().lease_location)
    product_leases = ProductLeases(leases, "coinbase", "BTC-USD", str(lake))
    with hold(leases, product_leases.run("backfill"), run_id="the-other-run", ttl_s=60):
        ended = in_a_process(script(), "backfill", "btc-usd", *of(sim, lake), "--json")
    assert ended.code == 3, ended.err
    assert "Prefect" not in ended.err
    [product] = ended.summary["products"]
    assert product["status"] == "running_elsewhere"
    assert "the-other-run" in product["error"]
    assert coverage(lake, "BTC-USD") == []
    assert sim.stats()["requests"] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_summary_that_cannot_be_written_is_a_failure(sim, lake):
    leases = open_leases(load_settings().lease_location)
    product_leases = ProductLeases(leases, "coinbase", "BTC-USD", str(lake))
    buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (
        hold(leases, product_leases.run("backfill"), run_id="the-other-run"),
        Path("/dev/full").open("w") as full,
    ):
        done = subprocess.run(
            [script(), "backfill", "BTC-USD", *of(sim, lake), "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=buffered,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, "No space left" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("sign", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=LONG)])
def test_a_signal_while_prefect_is_loaded_gives_the_lease_back(sim, lake, sign):
    leases = open_leases(load_settings().lease_location)
    name = ProductLeases(leases, "coinbase", "BTC-USD", str(lake)).run("backfill")
    command = map(str, (script(), "backfill", "BTC-USD", *of(sim, lake), "--json"))
    process = subprocess.Popen(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: leases.state(name).status is LeaseStatus.HELD, process)
    process.send_signal(sign)
    end = ended(process)
    assert end.code == 130, end.errors
    # A holder that died without a word would be DEAD here, and on DynamoDB, held for a minute.
    assert leases.state(name).status is LeaseStatus.FREE


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 320 KB, where the machine lets us mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return filler


def test_a_disk_that_is_full_costs_no_trade_and_the_same_command_ends_the_work(
    headrace, small_disk
):
    lake = small_disk / "lake"
    checkpoints = BlockCheckpoints(str(lake))
    with SimulatedExchange("BTC-USD:60000", seed=4) as sim:
        command = ("backfill", "BTC-USD", *of(sim, lake), "--pages-per-chunk", "4")
        half = headrace(*command)
        assert half.code == 4
        assert f"{lake}/raw/trades" in half.words
        assert "No space left" in half.words
        kept = IntervalSet.from_ranges(map(tuple, coverage(lake, "BTC-USD")))
        assert kept
        before = checkpoints.load("coinbase", "BTC-USD")
        assert before is None or not before.coverage - kept

        filler = fill(small_disk)
        sim.reset_log()
        full = headrace(*command)
        assert full.code == 2
        assert str(lake) in full.err
        assert checkpoints.load("coinbase", "BTC-USD") == before
        assert not sim.arrivals()

        filler.unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        assert shutil.disk_usage(small_disk).free > 2**20
        done = headrace(*command)
        assert done.code == 0, done.err
        assert_lake_equals_source(lake, sim, "BTC-USD")
        assert checkpoints.load("coinbase", "BTC-USD").watermark == 60_000


def test_a_command_that_asks_the_api_delivers_its_events_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interpreter's end waits for them without a limit, and says "Still processing items"."""
    order: list[str] = []
    monkeypatch.setattr("headrace.cli.server.run.drain", lambda _timeout_s: order.append("drained"))

    async def ask(_client: object) -> None:
        order.append("asked")

    with_client(ask)
    assert order == ["asked", "drained"]
