"""A world for pulls to work in: an exchange that grows, a lake, leases, a checkpoint, and time.

Every run is a process of its own with its own view of all these, through the real `ProductJob`,
`RawLake` and `LeaseStore`. What a process does can be held up, made to fail, or cut off before any
operation; see `tests.support.steps`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pyarrow as pa

from headrace.coverage import EMPTY, IntervalSet
from headrace.errors import HeadraceError
from headrace.exchange.exceptions import StuckPage
from headrace.exchange.pages import PAGE_LIMIT, Page
from headrace.exchange.planning import Sizing
from headrace.exchange.proof import Check, unchecked
from headrace.lake import Grid, PartListing, RawLake
from headrace.lake.failing_store import Fault, FaultyStore
from headrace.lake.store import Guard, unguarded
from headrace.leases import LeaseHeld
from headrace.leases.exceptions import LeaseStoreUnavailable
from headrace.leases.lease import Lease, Renewal
from headrace.leases.model import Process as ProcessIdentity
from headrace.leases.model import Row
from headrace.leases.store import LeaseStore
from headrace.leases.this_machine import Liveness
from headrace.pull.checkpoints import Checkpoint, read_checkpoint
from headrace.pull.exceptions import CheckpointNotSaved, TokenBehind
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.report import ProductReceipt
from headrace.pull.request import PullRequest
from headrace.run.report import Status
from headrace.stopping import StopEvent
from headrace.trades import RAW_SCHEMA, rows_between
from headrace.wire.exceptions import BadAnswer, RetriesExhausted, ServerError
from tests.lake_samples import trades
from tests.support.steps import Stepper
from tests.support.stores import MemoryStore

PRODUCT = "BTC-USD"
EXCHANGE = "coinbase"
LAKE = "memory"
#: Not a power of two, so that a cell's last blocks are cut off by its end.
GRID = Grid(cell_pages=10)
TTL_S = 60.0
#: Rows of the exchange's fullest answer: somewhat more than a page of the grid has.
ROWS_PER_ANSWER = 25
#: How often the client asks for a page before it gives up.
ATTEMPTS = 4
#: Called before an operation, with its name.
Pause = Callable[[str], None]
_EPOCH = datetime(2026, 3, 1, tzinfo=UTC)


def exists(trade_id: int) -> bool:
    """Some ten trades in a thousand ids, a hole of several pages, and a late beginning."""
    return trade_id > 2_345 and trade_id % 97 < 2 and not 6_100 < trade_id < 8_900


class Exchange:
    """What there is to pull. It only ever grows, at its upper end.

    `stale_by` lets the newest id lag; cursors in `broken` pages of the grid are refused.

    Args:
        size: ids up to this may exist.
        there: which of them do.
        rows_per_answer: rows of a full answer, whatever limit is asked for.
    """

    def __init__(
        self,
        size: int,
        *,
        there: Callable[[int], bool] = exists,
        rows_per_answer: int = ROWS_PER_ANSWER,
    ) -> None:
        self.rows_per_answer = rows_per_answer
        self._there = there
        self._size = size
        self._ids = [n for n in range(1, size + 1) if there(n)]
        self._all = trades(self._ids)
        self.stale_by = 0
        self.broken: set[int] = set()

    @property
    def newest(self) -> int:
        return self._ids[-1]

    def grow(self, ids: int) -> None:
        fresh = [n for n in range(self._size + 1, self._size + ids + 1) if self._there(n)]
        self._size += ids
        self._ids += fresh
        self._all = pa.concat_tables([self._all, trades(fresh)]).combine_chunks()

    def rows(self, lo: int, hi: int) -> pa.Table:
        return rows_between(self._all, lo, hi)

    def count(self, ids: IntervalSet) -> int:
        return sum(self.rows(lo, hi).num_rows for lo, hi in ids)

    def below(self, cursor: int | None, limit: int) -> pa.RecordBatch:
        shown = self._ids[max(0, len(self._ids) - 1 - self.stale_by)]
        found = self.rows(1, shown if cursor is None else cursor - 1)
        found = found.slice(max(0, found.num_rows - min(limit, self.rows_per_answer)))
        batches = found.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=RAW_SCHEMA)


@dataclass
class World:
    """Everything that outlives a process."""

    exchange: Exchange
    objects: MemoryStore = field(default_factory=MemoryStore)
    temporaries: dict[str, int] = field(default_factory=dict)
    leases: dict[str, Row] = field(default_factory=dict)
    leases_down: bool = False
    checkpoint: dict[str, Any] | None = None
    checkpoint_before: dict[str, Any] | None = None
    checkpoints_lag: bool = False
    checkpoints_down: bool = False
    deleted: IntervalSet = EMPTY
    now_s: float = 0.0
    dead: set[int] = field(default_factory=set)
    processes: list[PullProcess] = field(default_factory=list)

    @property
    def lake(self) -> RawLake:
        """The lake as a reader sees it that has no faults."""
        return RawLake(self.objects, EXCHANGE, GRID)

    @property
    def listing(self) -> PartListing:
        return self.lake.parts(PRODUCT)

    def start(self, planner: str, **options: Any) -> PullProcess:
        process = PullProcess(self, len(self.processes) + 1, planner, **options)
        self.processes.append(process)
        return process

    def recover(self) -> None:
        """All that was down outside the processes is back."""
        self.leases_down = self.checkpoints_down = self.checkpoints_lag = False
        self.exchange.stale_by = 0
        self.exchange.broken = set()

    def pass_time(self, seconds: float) -> None:
        """Let time go by; each process that is not frozen renews its leases."""
        end = self.now_s + seconds
        while self.now_s < end:
            self.now_s = min(end, self.now_s + TTL_S / 3)
            for process in self.processes:
                if not process.frozen and process.alive:
                    process.renew()


class _Machine:
    """Clocks and processes as one of the processes sees them; odd and even ones are two hosts."""

    def __init__(self, world: World, pid: int) -> None:
        self._world, self._pid = world, pid

    def now(self) -> datetime:
        return _EPOCH + timedelta(seconds=self._world.now_s)

    def boot_s(self) -> float:
        return self._world.now_s

    def me(self) -> ProcessIdentity:
        host = f"host{self._pid % 2}"
        return ProcessIdentity(host=host, pid=self._pid, boot_id=host, start_ticks=self._pid)

    def liveness(self, process: ProcessIdentity, *, one_machine: bool) -> Liveness:
        if process.host != self.me().host:
            return Liveness.UNKNOWN
        return Liveness.GONE if process.pid in self._world.dead else Liveness.ALIVE


class _Leases(LeaseStore):
    """The real rules over rows in memory."""

    where = "memory"

    def __init__(self, world: World, machine: _Machine, pause: Pause) -> None:
        super().__init__(machine=machine)
        self._world, self._pause = world, pause

    def _read(self, name: str) -> Row | None:
        self._look("lease-read")
        return self._world.leases.get(name)

    def _swap(self, seen: Row | None, new: Row) -> bool:
        self._look("lease-swap")
        if self._world.leases.get(new.name) != seen:
            return False
        self._world.leases[new.name] = new
        return True

    def _remove(self, seen: Row) -> None:
        self._look("lease-swap")
        if self._world.leases.get(seen.name) == seen:
            del self._world.leases[seen.name]

    def _read_all(self) -> Iterable[Row]:
        self._look("lease-read")
        return list(self._world.leases.values())

    def _look(self, operation: str) -> None:
        self._pause(operation)
        if self._world.leases_down:
            raise LeaseStoreUnavailable(self.where, "scripted outage")


class _Store(FaultyStore):
    """The lake's store; a writer that is killed as it writes leaves a temporary file."""

    def __init__(self, world: World, process: PullProcess) -> None:
        super().__init__(world.objects)
        self._world, self._process = world, process
        self._pid, self._pause = process.pid, process.pause
        self.changed = False

    def _meet(self, action: Any, key: str, call: Callable[[], Any]) -> Any:
        self.changed |= action in ("put", "put_if_absent", "delete")
        writes = action in ("put", "put_if_absent")
        temporary = f"{key}.{self._pid}"
        if writes:
            self._world.temporaries[temporary] = self._pid
        self._pause(action)
        try:
            return super()._meet(action, key, call)
        finally:
            if writes:
                self._world.temporaries.pop(temporary, None)

    def put(self, key: str, content: bytes, *, guard: Guard = unguarded) -> None:
        super().put(key, content, guard=self._allowed(guard))

    def put_if_absent(self, key: str, content: bytes, *, guard: Guard = unguarded) -> bool:
        return super().put_if_absent(key, content, guard=self._allowed(guard))

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        super().delete(key, guard=self._allowed(guard))

    def _allowed(self, guard: Guard) -> Guard:
        """The guard, and then a moment in which the process can be frozen before the change."""

        def both() -> None:
            guard()
            assert self._process.may_change_the_lake(), "a change without a lease"
            self._pause("change")

        return both

    def sweep(self, prefix: str) -> list[str]:
        self._pause("sweep")
        left = [key for key, pid in self._world.temporaries.items() if pid in self._world.dead]
        swept = [key for key in left if key.rpartition("/")[0] + "/" == prefix]
        for key in swept:
            del self._world.temporaries[key]
        return swept


class _Checkpoints:
    """`CheckpointStore` over one checkpoint, in its stored form."""

    lake = LAKE

    def __init__(self, world: World, process: PullProcess) -> None:
        self._world, self._process = world, process

    def load(self, source: str, product: str) -> Checkpoint | None:
        self._answer("load")
        world = self._world
        stored = world.checkpoint_before if world.checkpoints_lag else world.checkpoint
        if stored is None:
            return None
        return read_checkpoint(stored, lake=self.lake, source=source, product=product)

    def save(self, checkpoint: Checkpoint) -> None:
        # What comes after the check, up to here, is no operation: the check's word still holds.
        assert self._process.holds_its_lease(), "saved without holding the lease"
        self._answer("save")
        self._world.checkpoint_before = self._world.checkpoint
        self._world.checkpoint = checkpoint.model_dump(mode="json")
        self._process.saved = True

    def _answer(self, operation: str) -> None:
        self._process.pause(operation)
        if self._world.checkpoints_down:
            raise CheckpointNotSaved("scripted outage")


class Desk:
    """`CheckpointStore` of a person at the command line."""

    lake = LAKE

    def __init__(self, world: World) -> None:
        self._world = world

    def load(self, source: str, product: str) -> Checkpoint | None:
        stored = self._world.checkpoint
        if stored is None:
            return None
        return read_checkpoint(stored, lake=LAKE, source=source, product=product)

    def save(self, checkpoint: Checkpoint) -> None:
        assert (checkpoint.source, checkpoint.product) == (EXCHANGE, PRODUCT)
        self._world.checkpoint = checkpoint.model_dump(mode="json")


class Client:
    """The exchange as the client shows it, short of HTTP."""

    source = "http://127.0.0.1:1"
    page_limit = PAGE_LIMIT

    def __init__(self, world: World, pause: Pause) -> None:
        self._exchange, self._pause = world.exchange, pause
        self.stats = self
        self._requests = 0

    def requests_for(self, product: str) -> int:
        return self._requests

    def page(
        self,
        product: str,
        after: int | None,
        *,
        limit: int | None = None,
        lane: object = None,
        check: Check = unchecked,
    ) -> Page:
        assert after is None or after >= 1
        limit = self.page_limit if limit is None else limit
        for attempt in range(ATTEMPTS):
            self._pause("page")
            self._requests += 1
            if after is not None and (after - 2) // PAGE_LIMIT in self._exchange.broken:
                raise ServerError("scripted", product=product, cursor=after, status=500)
            rows = self._exchange.below(after, limit)
            page = Page(product, after, rows, min(limit, self._exchange.rows_per_answer))
            try:
                if after is not None and len(page) and page.last_id >= after:
                    raise StuckPage("stuck", product=product, cursor=after)
                check(page)
            except BadAnswer as error:
                if attempt == ATTEMPTS - 1:
                    raise RetriesExhausted(error.problem, product=product, cursor=after) from error
            else:
                return page
        raise AssertionError


class SteppedRenewal(Renewal):
    """A renewal that takes its steps when the world says that it is time."""

    under_way: list[SteppedRenewal]

    def start(self) -> None:
        self.under_way = PullProcess.by_thread().renewals
        self.under_way.append(self)

    def stop(self) -> None:
        self.under_way.remove(self)


class PullProcess:
    """One run of one kind, led step by step.

    Args:
        planner: `backfill` or `ingest`.
        sizing: how its chunks are cut.
        order: seeds the order in which the chunks of a wave come back.
        options: further fields of the request.
    """

    _running: PullProcess | None = None

    def __init__(
        self,
        world: World,
        pid: int,
        planner: str,
        *,
        pages_per_chunk: int = 0,
        width: int = 3,
        order: int = 0,
        **options: Any,
    ) -> None:
        self.world, self.pid, self.planner = world, pid, planner
        self.run_id = f"run-{pid}"
        self.frozen = False
        self.saved = False
        self.troubled = False
        self.alone = True
        self.receipt: ProductReceipt | None = None
        self.renewals: list[SteppedRenewal] = []
        self.stop = StopEvent()
        self.covered_before = EMPTY
        self.rows_before = 0
        self._clock_s = 0.0
        self._order = random.Random(order)
        # With the interval between commits: a commit every second to tenth chunk.
        self._chunk_s = 1.0 + order
        self._width = width
        self._sizing = Sizing(
            GRID.cell_pages,
            in_flight=width,
            pool=width,
            pages_per_s=None if order % 2 else 4.0,
            pages_per_chunk=pages_per_chunk,
        )
        self._machine = _Machine(world, pid)
        self.store = _Store(world, self)
        self.leases = _Leases(world, self._machine, self.pause)
        self.checkpoints = _Checkpoints(world, self)
        self._lease: Lease | None = None
        self.lake = RawLake(self.store, EXCHANGE, GRID)
        self.request = PullRequest.checked(
            products=PRODUCT,
            planner=planner,
            lake=LAKE,
            base_url="http://127.0.0.1:1",
            rate="none",
            # The trades of this world are older than any hour that an ingest would begin at.
            first_ingest_hours=0,
            **options,
        )
        self.job = ProductJob(
            PRODUCT,
            self.request,
            run_id=self.run_id,
            client=Client(world, self.pause),
            lake=self.lake,
            checkpoints=self.checkpoints,
            leases=self.leases,
            progress=pull_progress(width, clock=lambda: self._clock_s),
            stop=self.stop,
            clock=lambda: self._clock_s,
            sleep=lambda _seconds: None,
        )
        self._stepper: Stepper | None = None
        self._stepper = Stepper(self._run)

    @classmethod
    def by_thread(cls) -> PullProcess:
        """The process whose turn it is."""
        assert cls._running is not None
        return cls._running

    @property
    def alive(self) -> bool:
        return not self._stepper.done and not self._stepper.killed

    def pause(self, operation: str) -> None:
        self._stepper.pause(operation)

    def advance(self, operations: int = 1_000_000) -> None:
        """Let it do so many operations, or all that are left."""
        self._takes_its_turn()
        self._stepper.advance(operations)

    def advance_to(self, operation: str, times: int = 1) -> None:
        """Let it go on until it stands before such an operation, so many of them from here."""
        self._takes_its_turn()
        for _ in range(times):
            self._stepper.advance_to(operation)

    def _takes_its_turn(self) -> None:
        for other in self.world.processes:
            if other is not self:
                other.alone = False
        PullProcess._running = self

    def kill(self) -> None:
        self.world.dead.add(self.pid)
        self._stepper.kill()

    @property
    def failed(self) -> bool:
        """Whether it ended with an error that is none of ours: the example is over."""
        return self._stepper.done and not self._stepper.killed and self.receipt is None

    def leases_at_rest(self) -> LeaseStore:
        """The leases for a caller that is not led step by step."""
        return _Leases(self.world, self._machine, lambda _operation: None)

    def renew(self) -> None:
        for renewal in list(self.renewals):
            renewal.step()

    def script(self, action: Any, fault: Fault) -> None:
        self.troubled = True
        self.store.script(action, fault)

    def ask_to_stop(self) -> None:
        self.troubled = True
        self.stop.set()

    def holds_its_lease(self) -> bool:
        """Whether it is true at this moment, whatever the process believes."""
        return self._holds(self.job.product_leases.run(self.planner))

    def may_change_the_lake(self) -> bool:
        """Whether it holds the lease of its run, or the turn at sweeping after the run's loss."""
        return self.holds_its_lease() or self._holds(self.job.product_leases.upkeep_name)

    def _holds(self, name: str) -> bool:
        row = self.world.leases.get(name)
        holder = row.holder if row else None
        return (
            holder is not None
            and holder.run_id == self.run_id
            and holder.expires_boot_s > self.world.now_s
        )

    def _run(self) -> None:
        self.covered_before = self.world.listing.coverage
        self.rows_before = self.world.exchange.count(self.covered_before)
        self.receipt = self._pulled()
        self._judge(self.receipt)

    def _pulled(self, above: int = 0) -> ProductReceipt:
        """What the product task does, one chunk after the other."""
        job = self.job
        try:
            if not job.has_work():
                return job.receipt()
            with job.product_leases.acquire(
                self.planner,
                self.run_id,
                ttl_s=TTL_S,
                replaces=self.request.full_refresh,
                stop=self.stop,
                on_lost=job.lease_lost,
                machine=self._machine,
                above=max(above, job.noted_token),
            ) as lease:
                job.prepare(lease)
                self._fetch_all()
                job.commit(last=True)
        except TokenBehind as behind:
            return self._pulled(behind.noted)
        except LeaseHeld as error:
            return ProductReceipt(PRODUCT, Status.RUNNING_ELSEWHERE, error=str(error))
        except HeadraceError as error:
            return job.receipt(error=str(error))
        return job.receipt()

    def _fetch_all(self) -> None:
        chunks = self.job.chunks(self._sizing)
        while not self.job.stop.is_set() and (wave := list(islice(chunks, 2 * self._width))):
            self._order.shuffle(wave)
            for chunk in wave:
                self.job.keep(self.job.fetch(chunk))
                self._clock_s += self._chunk_s
                if self.job.commit_due():
                    self.job.commit()

    def _judge(self, receipt: ProductReceipt) -> None:
        """What a run says of itself must be true when it says it."""
        if receipt.status is Status.RUNNING_ELSEWHERE:
            assert not self.store.changed, "changed the lake, and says that another run is at it"
            assert not self.saved
            return
        exchange, covered = self.world.exchange, self.world.listing.coverage
        rows = exchange.count(covered)
        added = exchange.count(covered - self.covered_before)
        if self.world.deleted:
            return
        assert receipt.rows <= rows, (receipt.rows, rows)
        assert receipt.new_rows <= added, (receipt.new_rows, added)
        if not self.troubled:
            assert receipt.status is Status.DONE, receipt.error
            assert not receipt.missing or self.request.only_failed
            assert receipt.range is None or receipt.missing or covered.contains(*receipt.range)
            if self.alone:
                assert (receipt.rows, receipt.new_rows) == (rows, added), receipt
