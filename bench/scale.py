"""Planner and coverage arithmetic at the size of a whole exchange, without a network.

10^11 trades of 2,000 products whose sizes fall off as 1/rank, so that the largest has 1.2 * 10^10:
cut into chunks, chunks noted in a ledger as they would end, names of parts read back, checkpoints
as they would be saved. `python -m bench scale [products=N] [trades=N]`; see docs/scaling.md.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from bench.machine import machine_state, save
from headrace.coverage import IntervalSet, Range
from headrace.exchange.planning import Chunk, Sizing, plan_chunks, plan_pages
from headrace.lake.grid import DEFAULT_CELL_PAGES, Grid
from headrace.lake.names import PartName
from headrace.lake.parts import PartListing
from headrace.lake.store import StoredObject
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.ledger import Ledger
from headrace.pull.report import ChunkReceipt

TRADES, PRODUCTS, RATE = 10**11, 2_000, 15.0
GRID = Grid(DEFAULT_CELL_PAGES)
#: With few chunks in flight, as many as this rate and latency need, and with many.
FEW, MANY = (
    Sizing(GRID.cell_pages, in_flight=in_flight, pool=5, pages_per_s=RATE, latency_s=0.3)
    for in_flight in (5, 50)
)
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def sizes(trades: int, products: int) -> list[int]:
    """Trades of each product, the largest first."""
    harmonic = sum(1 / rank for rank in range(1, products + 1))
    return [max(1, int(trades / harmonic / rank)) for rank in range(1, products + 1)]


def plan(trades: int, products: int) -> dict[str, Any]:
    """All products cut into chunks, one after the other, as each run does with its own."""
    few = many = pages = files = 0
    for newest in sizes(trades, products):
        whole = IntervalSet.of((1, newest))
        pages += plan_pages(whole)
        files += GRID.cell_of(newest).index + 1
        few += sum(1 for _ in plan_chunks(whole, FEW))
        many += sum(1 for _ in plan_chunks(whole, MANY))
    return {"pages": pages, "chunks_5_in_flight": few, "chunks_50": many, "files": files}


def ending(newest: int) -> Iterator[Chunk]:
    """The chunks of a product in an order in which they may end: a few overtake each other."""
    random_ = random.Random(4)
    flying: list[Chunk] = []
    for chunk in plan_chunks(IntervalSet.of((1, newest)), MANY):
        flying.append(chunk)
        if len(flying) == MANY.in_flight:
            yield flying.pop(random_.randrange(len(flying)))
    yield from flying


def note(trades: int, products: int) -> dict[str, Any]:
    """The largest product, chunk by chunk, with the checkpoint as large as it ever was."""
    ledger, most, largest = Ledger(), 0, 0
    newest = sizes(trades, products)[0]
    for count, chunk in enumerate(ending(newest)):
        ledger.enter(_receipt(chunk.span))
        most = max(most, len(ledger.covered.ranges))
        if count % 100 == 0:
            largest = max(largest, len(_checkpoint(ledger.covered).model_dump_json()))
    return {"trades": newest, "ranges_at_most": most, "checkpoint_bytes_at_most": largest}


def note_scattered(trades: int, products: int) -> dict[str, Any]:
    """The same where every other cell of it is stored already: as scattered as it can be."""
    cells = list(GRID.cells(1, sizes(trades, products)[0]))
    ledger = Ledger(IntervalSet.from_ranges((cell.lo, cell.hi) for cell in cells[::2]))
    scattered = ledger.covered
    missing = scattered.gaps(1, cells[-1].hi)
    size = len(_checkpoint(scattered).model_dump_json())
    for span in missing:
        ledger.enter(_receipt(span))
    whole = IntervalSet.of((1, cells[-1].hi))
    assert ledger.covered == whole == scattered | missing
    assert not (whole - scattered) - missing
    return {"ranges": len(scattered.ranges), "checkpoint_bytes": size, "noted": len(missing.ranges)}


def read_names(trades: int, products: int) -> dict[str, Any]:
    """The names of the largest product's parts, as each commit reads them."""
    cells = GRID.cells(1, sizes(trades, products)[0])
    objects = [StoredObject(str(PartName(cell.lo, cell.hi)), 1_000_000) for cell in cells]
    began = time.process_time()
    listing = PartListing.of(objects, GRID)
    covered = listing.coverage
    took_s = time.process_time() - began
    assert len(covered.ranges) == 1
    return {"names": len(objects), "cpu_s_without_making_them": round(took_s, 2)}


def _receipt(span: Range) -> ChunkReceipt:
    return ChunkReceipt(span=span, answered=(span,), rows=1, written=True, holes=(), pages=1)


def _checkpoint(covered: IntervalSet) -> Checkpoint:
    return Checkpoint(
        lake="s3://lake/trades",
        source="coinbase",
        product="BTC-USD",
        covered=covered.ranges,
        rows=1,
        watermark=covered.watermark(),
        newest=covered.last or 0,
        run_id="0" * 32,
        updated_at=MOMENT,
    )


STEPS = {each.__name__: each for each in (plan, note, note_scattered, read_names)}


def measured(step: str, trades: int, products: int) -> dict[str, Any]:
    """One step in a process of its own: what it found, its CPU seconds and its peak memory."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale", step, str(trades), str(products)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(arguments: Sequence[str]) -> None:
    """Measure all steps and keep the figures."""
    given = {"trades": TRADES, "products": PRODUCTS}
    for word in arguments:
        name, _, number = word.partition("=")
        if name not in given or not number.isdecimal() or int(number) < 1:
            raise SystemExit(f"{word!r} is not one of trades=N and products=N")
        given[name] = int(number)
    results: dict[str, Any] = {"machine": machine_state(), **given}
    for step in STEPS:
        results[step] = measured(step, given["trades"], given["products"])
        print(f"{step:15} {results[step]}")
    if (given["trades"], given["products"]) == (TRADES, PRODUCTS):
        print(save("scale", results))


def _main(step: str, trades: str, products: str) -> None:
    began, before = time.process_time(), _peak_mb()
    found = STEPS[step](int(trades), int(products))
    found |= {
        "cpu_s": round(time.process_time() - began, 2),
        "peak_mb": round(_peak_mb()),
        "imports_mb": round(before),
    }
    print(json.dumps(found))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    _main(*sys.argv[1:])
