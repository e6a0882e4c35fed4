"""The lake with many parts, and a store across the network beside a folder.

`parts`: 10,000 parts of one product, planned (listed, counted, both ends found), audited, signed
twice and audited against the manifest, in a local folder and in SeaweedFS. `store`: a million
trades at 15 requests/s into both.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.backfill import SEED, headrace
from bench.machine import machine_state, save
from headrace.audit.auditor import run_audit
from headrace.audit.signing import Signing
from headrace.cli.server import managed_api
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.lake import RawLake, open_lake
from headrace.lake.encoding import describe, encode_part
from headrace.lake.names import PartName, product_prefix
from headrace.manifests.chain import opening, sealing
from headrace.manifests.lakes import LakeManifests
from headrace.run.report import Status
from headrace.sim import SimulatedExchangeProcess, TokenBucket
from headrace.trades import RAW_SCHEMA
from tests.services_fixtures import ACCESS_KEY, BUCKET, SECRET_KEY, seaweed

PARTS, ROWS_PER_PART = 10_000, 100
RATE, TRADES = 15, 1_000_000
PRODUCT = "BTC-USD"


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """Both parts, or those named in the arguments."""
    parts: dict[str, Callable[[Path], Any]] = {"parts": _parts, "store": _store}
    chosen = [name for name in arguments if name in parts] or list(parts)
    results: dict[str, Any] = {}
    for name in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            results[name] = parts[name](Path(scratch))
        save(f"lake-{name}", {name: results[name], "machine": machine_state()})
    return results


@contextmanager
def s3_location(folder: Path) -> Iterator[str]:
    """A SeaweedFS of our own, found by the environment as users have it; its lake."""
    folder.mkdir()
    with seaweed(folder) as url:
        os.environ.update(
            AWS_ENDPOINT_URL_S3=url,
            AWS_ACCESS_KEY_ID=ACCESS_KEY,
            AWS_SECRET_ACCESS_KEY=SECRET_KEY,
            AWS_DEFAULT_REGION="us-east-1",
        )
        yield f"s3://{BUCKET}/bench"


def _parts(scratch: Path) -> list[dict[str, Any]]:
    rows = []
    print(f"{PARTS:,} parts   plan s   CPU s   audit s   CPU s")
    with s3_location(scratch / "weed") as remote:
        for name, location in (("local", str(scratch / "lake")), ("s3", remote)):
            raw = open_lake(location).raw("coinbase", cell_pages=1)
            _fill(raw)
            plan, audit = _timed(partial(_plan, raw)), _timed(partial(_audit, raw))
            signed = _signed(raw)
            rows.append({"store": name, "parts": PARTS, "plan": plan, "audit": audit, **signed})
            print(
                f"{name:<12} {plan['wall_s']:>8.2f} {plan['cpu_s']:>7.2f} "
                f"{audit['wall_s']:>9.2f} {audit['cpu_s']:>7.2f}",
                flush=True,
            )
            print("   ", signed, flush=True)
    return rows


def _fill(raw: RawLake) -> None:
    """Parts of one page each, put straight into the store: what they cost is measured elsewhere."""

    def put(number: int) -> None:
        lo, hi = number * 1_000 + 1, (number + 1) * 1_000
        name = PartName(lo, hi)
        table = _trades(lo)
        now = datetime.now(UTC)
        footer = describe(name, table, product=PRODUCT, sources=("localhost",), fetched_at=now)
        key = product_prefix(raw.exchange, PRODUCT) + str(name)
        raw.store.put(key, encode_part(table, footer))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(PARTS)))


def _trades(lo: int) -> pa.Table:
    ids = range(lo, lo + ROWS_PER_PART)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    columns = [
        list(ids),
        [begin + timedelta(milliseconds=137 * n) for n in ids],
        [f"{6_000 + n % 97}.{n % 100:02d}" for n in ids],
        [f"0.{n * 7_919 % 10**8:08d}" for n in ids],
        ["sell" if n % 3 else "buy" for n in ids],
    ]
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, RAW_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)


def _plan(raw: RawLake) -> None:
    """What a run asks of a lake before it fetches, when no checkpoint spares it the count."""
    coverage = raw.coverage(PRODUCT)
    rows, _ = raw.totals(PRODUCT)
    newest, first = raw.newest(PRODUCT), raw.proven_first(PRODUCT)
    if (coverage.last, rows, first) != (PARTS * 1_000, PARTS * ROWS_PER_PART, 1) or not newest:
        raise SystemExit(f"planned wrongly: {coverage.last}, {rows}, {first}, {newest}")


class _NoCheckpoints:
    """A lake without checkpoints."""

    lake = "bench"

    def load(self, _source: str, _product: str) -> None:
        return None


def _signed(raw: RawLake) -> dict[str, Any]:
    """Signing all parts, signing them again with one more, and audits against that manifest."""
    key = SigningKey.make()
    trusted = opening(KeyList([PublicKey(key.public_key, "")]))
    manifests = LakeManifests(raw.store, raw.exchange, trusted)
    signing = Signing(raw, manifests, sealing(key))
    now = datetime.now(UTC)

    def sign() -> None:
        signing.sign(PRODUCT, newest=0, newest_answer=None, now=now)

    def sizes() -> dict[str, int]:
        prefix = manifests.chain(PRODUCT).prefix
        return {entry.key: entry.size_bytes for entry in raw.store.entries(prefix)}

    first, before = _timed(sign, rounds=1), sizes()
    lo = PARTS * 1_000 + 1
    raw.write(PRODUCT, lo, lo + 999, _trades(lo), source="localhost", fetched_at=datetime.now(UTC))
    later, after = _timed(sign, rounds=1), sizes()
    raw.store.delete(raw.parts(PRODUCT).parts[-1].key)
    sign_bytes = sum(size for key, size in after.items() if key not in before)
    found = _timed(partial(_audit, raw, manifests))
    return {
        "sign_first": {**first, "bytes": sum(before.values())},
        "sign_later": {**later, "bytes": sign_bytes},
        "audit_against_it": found,
    }


def _audit(raw: RawLake, manifests: LakeManifests | None = None) -> None:
    audit = run_audit(raw, PRODUCT, checkpoints=_NoCheckpoints(), manifests=manifests)  # type: ignore[arg-type]
    if audit.parts != PARTS or audit.counted.rows != PARTS * ROWS_PER_PART:
        raise SystemExit(f"audited wrongly: {audit}")


def _timed(work: Callable[[], None], rounds: int = 3) -> dict[str, float]:
    """The median of a few rounds, by wall time."""
    taken = []
    for _ in range(rounds):
        cpu, wall = time.process_time(), time.monotonic()
        work()
        taken.append((time.monotonic() - wall, time.process_time() - cpu))
    wall_s, cpu_s = sorted(taken)[rounds // 2]
    return {"wall_s": round(wall_s, 2), "cpu_s": round(cpu_s, 2)}


def _store(scratch: Path) -> dict[str, Any]:
    home = scratch / "home"
    os.environ["HEADRACE_HOME"] = str(home)
    taken: dict[str, float] = {}
    with s3_location(scratch / "weed") as remote, managed_api(home):
        for name, location in (("local", str(scratch / "lake")), ("s3", remote)):
            limit = TokenBucket(rate_per_s=RATE, burst=RATE)
            with SimulatedExchangeProcess(
                f"{PRODUCT}:{TRADES}", seed=SEED, latency="constant:s=0.3", limits=[limit]
            ) as sim:
                summary = headrace(
                    PRODUCT,
                    f"--rate={RATE}/s",
                    "--chunk-concurrency=12",
                    f"--base-url={sim.url}",
                    f"--lake={location}",
                )
            if summary["status"] != Status.DONE or summary["products"][0]["rows"] != TRADES:
                raise SystemExit(f"the run into {location} is {summary}")
            taken[name] = summary["elapsed_s"]
            print(f"{name:<6} {taken[name]:.1f} s", flush=True)
    ratio = round(taken["s3"] / taken["local"], 4)
    print(f"s3 / local: {ratio:.3f}")
    return {"trades": TRADES, "rate": RATE, "seconds": taken, "ratio": ratio}
