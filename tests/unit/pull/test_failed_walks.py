"""What a walk that fails leaves behind: each page that was answered, stored."""

from types import SimpleNamespace

import pytest
from support.exchange import FakeClient

from headrace.coverage import IntervalSet
from headrace.exchange.exceptions import UnknownProduct
from headrace.exchange.planning import Sizing
from headrace.lake import open_lake
from headrace.leases import SqliteLeases
from headrace.pull.failures import BAD_PAGES_IN_A_ROW
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.request import PullRequest
from headrace.quota import OutageError
from headrace.run.report import Status
from headrace.stopping import StopEvent, Stopped
from headrace.wire.exceptions import RequestRefused, RetriesExhausted

PRODUCT = "X-USD"
NEWEST = 20_000
ENDINGS = {
    "outage": OutageError("host", 15, 15),
    "bug": ValueError("the header cannot be sent"),
    "memory": MemoryError(),
    "stop in mid-request": Stopped(),
    "unknown": UnknownProduct("the exchange does not know it (404)", product=PRODUCT),
}
BAD_PAGES = {
    "500": RetriesExhausted("given up after 6 attempts: 500", product=PRODUCT, status=500),
    "400": RequestRefused("refused (400)", product=PRODUCT, status=400),
}


class Failing(FakeClient):
    """Fails at some cursors, every time."""

    def __init__(self, fails, newest=NEWEST):
        super().__init__(range(1, newest + 1))
        self.fails = fails
        self.failed = []
        self.stats = SimpleNamespace(requests_for=lambda _product: self.requests)

    def page(self, product, after, **asked):
        error = self.fails(after or self.ids[-1] + 1)
        if error is not None:
            self.failed.append(after)
            raise error
        return super().page(product, after, **asked)


class Kept:
    lake = "here"

    def __init__(self):
        self.saved = []

    def load(self, source, product):
        return self.saved[-1] if self.saved else None

    def save(self, checkpoint):
        self.saved.append(checkpoint)


class Place:
    """A lake, leases and checkpoints that outlive a run."""

    def __init__(self, folder):
        self.lake = open_lake(folder / "lake").raw("coinbase")
        self.leases = SqliteLeases(folder / "leases")
        self.checkpoints = Kept()

    def run(self, client, *, pages_per_chunk=20, **asked):
        request = PullRequest.checked(
            products=[PRODUCT], lake="here", base_url="http://127.0.0.1:1", rate="none", **asked
        )
        job = ProductJob(
            PRODUCT,
            request,
            run_id="me",
            client=client,
            lake=self.lake,
            checkpoints=self.checkpoints,
            leases=self.leases,
            progress=pull_progress(),
            stop=StopEvent(),
        )
        sizing = Sizing(cell_pages=128, in_flight=1, pool=1, pages_per_chunk=pages_per_chunk)
        refreshes = bool(asked.get("full_refresh"))
        with job.product_leases.acquire("backfill", "me", ttl_s=60, replaces=refreshes) as lease:
            job.prepare(lease)
            for chunk in job.chunks(sizing):
                if not job.stop.is_set():
                    job.keep(job.fetch(chunk))
            job.commit(last=True)
        return job.receipt()

    @property
    def missing(self):
        return self.lake.coverage(PRODUCT).gaps(1, NEWEST)

    def ids(self):
        return self.lake.read(PRODUCT).column("trade_id").to_pylist()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_whatever_ends_a_walk_its_pages_are_stored_and_not_asked_for_again(place, ending):
    client = Failing(lambda cursor: ENDINGS[ending] if 1_001 < cursor <= 8_001 else None)
    receipt = place.run(client)
    missing = place.missing
    assert receipt.status is Status.PARTIAL
    assert receipt.new_rows == len(place.ids()) == NEWEST - missing.count
    assert (missing.first, missing.contains(8_000), missing.contains(8_001)) == (1, True, False)
    assert str(ENDINGS[ending]).split(".")[0] in receipt.error
    client.cursors.clear()
    client.fails = lambda _cursor: None
    assert place.run(client).status is Status.DONE
    assert place.ids() == list(range(1, NEWEST + 1))
    assert all(cursor is None or missing.contains(cursor - 1) for cursor in client.cursors)


@pytest.mark.parametrize("kind", BAD_PAGES)
def test_a_bad_page_costs_itself_alone(place, kind):
    client = Failing(lambda cursor: BAD_PAGES[kind] if 7_001 < cursor <= 8_001 else None)
    receipt = place.run(client)
    assert place.missing == IntervalSet.of((7_001, 8_000))
    assert (receipt.status, receipt.missing, receipt.failed_chunks) == (
        Status.PARTIAL,
        place.missing,
        ((7_001, 8_000),),
    )
    assert receipt.new_rows == NEWEST - 1_000
    client.cursors.clear()
    client.failed.clear()
    assert place.run(client).missing == place.missing
    assert client.failed == [8_001]
    assert client.cursors == [None]


def test_pages_that_do_not_lie_on_the_grid(place):
    bad = BAD_PAGES["500"]
    client = Failing(lambda cursor: bad if 6_900 < cursor <= 7_900 else None, newest=NEWEST - 123)
    receipt = place.run(client)
    assert receipt.status is Status.PARTIAL
    missing = place.lake.coverage(PRODUCT).gaps(1, NEWEST - 123)
    assert missing.count <= 2_000
    assert place.ids() == [n for n in range(1, NEWEST - 122) if not missing.contains(n)]


@pytest.mark.parametrize("kind", BAD_PAGES)
def test_a_product_of_which_no_page_is_answered_is_asked_no_further(place, kind):
    def fails(cursor):
        return BAD_PAGES[kind] if 1_001 < cursor < 95_001 else None

    client = Failing(fails, newest=100_000)
    receipt = place.run(client, pages_per_chunk=10)
    assert receipt.status is Status.PARTIAL
    # The lowest page was answered before there was a plan, and counts at the end of its chunk.
    assert len(client.failed) <= 7 + BAD_PAGES_IN_A_ROW


def test_a_refresh_that_fails_keeps_what_it_fetched_within_the_stored_part(place):
    place.run(Failing(lambda _cursor: None))
    part, _ = place.lake.parts(PRODUCT).parts
    rows, footer = place.lake.read_part(part)
    stale = rows.set_column(2, rows.schema.field(2), [["9.9"] * len(rows)])
    place.lake.write(
        PRODUCT, part.lo, part.hi, stale, source="localhost", fetched_at=footer.fetched_at,
        replace=True,
    )  # fmt: skip
    outage = ENDINGS["outage"]
    receipt = place.run(
        Failing(lambda cursor: outage if cursor <= 8_001 else None), full_refresh=True
    )
    assert receipt.status is Status.PARTIAL
    listing = place.lake.parts(PRODUCT)
    assert [(each.lo, each.hi) for each in listing.parts] == [(1, 16_000), (16_001, NEWEST)]
    assert listing.hidden == listing.overlaps == ()
    for each in listing.parts:
        place.lake.verify(each)
    prices = place.lake.read(PRODUCT).column("price").to_pylist()
    assert prices == ["9.9"] * 8_000 + ["1.5"] * 12_000
