#!/usr/bin/env python3
# ruff: noqa: T201 - it is a program that prints
"""Check a lake of raw trades without trusting the program that wrote it.

    python verify_lake.py data/lake
    python verify_lake.py 's3://bucket/prefix?endpoint_override=http://127.0.0.1:8333' --json

Needs Python 3.11 and pyarrow, nothing else. It only reads. Every product is checked for: which ids
are answered for, gaps between them, parts that overlap or hide in others, files that cannot be
read, rows that are doubled, unsorted or outside of their range, and rows against footers with their
content digests (docs/lake.md defines them). Rows take some 10 s per million.

Exit code: 0 all is well, 1 something is wrong, 2 the lake cannot be opened, 4 nothing is wrong but
ids between the first and the last answered one are missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

ROOT = "raw/trades"
PART = re.compile(r"part-([0-9]{12,19})-([0-9]{12,19})\.parquet")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
COLUMNS = {
    "trade_id": pa.int64(),
    "time": pa.timestamp("us", tz="UTC"),
    "price": pa.string(),
    "size": pa.string(),
    "side": pa.string(),
}
FOOTER_KEY = b"headrace.part"
FOOTER_VERSION = 2
FOOTER_COUNTS = ("lo", "hi", "rows", "holes", "schema_version")
PAGE_IDS = 1_000
SIDE = re.compile(r"[A-Za-z]{1,16}")
WORD = (1 << 64) - 1
#: Seed, multiplier and shift of the low and of the high word of a row's hash.
LOW = (0x27D4EB2F165667C5, 0x9E3779B97F4A7C15, 32)
HIGH = (0x85EBCA77C2B2AE63, 0xC2B2AE3D27D4EB4F, 29)


class Bad(Exception):
    """What is wrong with one part."""


@dataclass(frozen=True, order=True)
class Part:
    """One file: the inclusive range in its name, and its path."""

    lo: int
    hi: int
    path: str

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]


@dataclass
class Report:
    """What was found for one product. `wrong` is empty for a product in order."""

    exchange: str
    product: str
    parts: int = 0
    rows: int = 0
    absent_ids: int = 0
    digest: str | None = None
    widest_pages: int = 0
    answered: list[list[int]] = field(default_factory=list)
    missing: list[list[int]] = field(default_factory=list)
    long_holes: list[list[int]] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    duplicates: int = 0
    unreadable: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> bool:
        """Whether anything contradicts what the lake promises."""
        return bool(self.overlaps or self.duplicates or self.unreadable)


def main() -> int:
    """Check the lake named on the command line; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("lake", help="a folder, or s3://bucket/prefix")
    parser.add_argument("--product", help="only this one, as in BTC-USD")
    parser.add_argument("--quick", action="store_true", help="names and footers only, no rows")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    try:
        files, root = open_lake(options.lake)
        folders = [
            (exchange, product, path)
            for exchange, product, path in product_folders(files, root)
            if options.product in (None, product)
        ]
        if not folders:
            raise FileNotFoundError(f"there are no trades to check under {root}/{ROOT}")
        reports = [check(files, *folder, quick=options.quick) for folder in folders]
    except (OSError, ValueError) as error:
        print(f"verify_lake: {options.lake} cannot be opened: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([{**vars(report), "wrong": report.wrong} for report in reports]))
    else:
        for report in reports:
            show(report)
    if any(report.wrong for report in reports):
        return 1
    return 4 if any(report.missing for report in reports) else 0


def open_lake(location: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system and the path of the lake in it."""
    if "://" in location:
        files, path = pyarrow.fs.FileSystem.from_uri(location)
        return files, path
    return pyarrow.fs.LocalFileSystem(), location.rstrip("/") or "/"


def product_folders(files: pyarrow.fs.FileSystem, root: str) -> Iterator[tuple[str, str, str]]:
    """(exchange, product, path) of every product in the lake."""
    for exchange in subfolders(files, f"{root}/{ROOT}", "exchange="):
        for product in subfolders(files, exchange.path, "product="):
            yield exchange.base_name[9:], product.base_name[8:], product.path


def subfolders(files: pyarrow.fs.FileSystem, path: str, prefix: str) -> list[pa.fs.FileInfo]:
    """The folders directly under `path` whose names begin with `prefix`, sorted."""
    found = files.get_file_info(pyarrow.fs.FileSelector(path, allow_not_found=True))
    folders = [f for f in found if f.type == pyarrow.fs.FileType.Directory]
    return sorted((f for f in folders if f.base_name.startswith(prefix)), key=lambda f: f.path)


def check(
    files: pyarrow.fs.FileSystem, exchange: str, product: str, path: str, *, quick: bool
) -> Report:
    """Check one product, one part in memory at a time."""
    report = Report(exchange, product)
    parts = visible_parts(files, path, report)
    report.parts = len(parts)
    report.answered, report.missing = cover(parts)
    total, seen_to = 0, 0
    recent: set[int] = set()
    for part in parts:
        try:
            table, footer = read_part(files, part, rows=not quick)
            if table is not None:
                total += check_rows(part, table, footer)
                ids = set(table["trade_id"].to_pylist())
                recent = {n for n in recent if n >= part.lo}
                report.duplicates += len(recent & ids)
                recent |= ids
        except (Bad, OSError, pa.ArrowException, ValueError) as error:
            report.unreadable.append(f"{part.name}: {error}")
            continue
        if part.lo <= seen_to:
            report.overlaps.append(f"{part.name} begins before {seen_to}, where another ends")
        seen_to = max(seen_to, part.hi)
        report.rows += footer["rows"]
        report.absent_ids += part.hi - part.lo + 1 - footer["rows"]
        report.long_holes += footer["long_holes"]
        if footer["rows"]:
            report.widest_pages = max(report.widest_pages, (part.hi - part.lo + 1) // PAGE_IDS)
    if not quick:
        report.digest = f"{total % (1 << 128):032x}"
    return report


def visible_parts(files: pyarrow.fs.FileSystem, path: str, report: Report) -> list[Part]:
    """The parts that count, by rising range; what else lies there goes into the report."""
    found = []
    for info in files.get_file_info(pyarrow.fs.FileSelector(path)):
        match = PART.fullmatch(info.base_name)
        if match and int(match[1]) <= int(match[2]):
            found.append(Part(int(match[1]), int(match[2]), info.path))
        elif info.base_name.endswith(".tmp"):
            report.leftovers.append(info.base_name)
        elif info.type == pyarrow.fs.FileType.File:
            report.foreign.append(info.base_name)
    parts: list[Part] = []
    for part in sorted(found, key=lambda part: (part.lo, -part.hi)):
        if parts and part.hi <= parts[-1].hi:
            report.leftovers.append(f"{part.name} (its range is also in {parts[-1].name})")
        else:
            parts.append(part)
    return parts


def cover(parts: list[Part]) -> tuple[list[list[int]], list[list[int]]]:
    """The ranges that sorted parts answer for, and the gaps between them."""
    answered: list[list[int]] = []
    for part in parts:
        if answered and part.lo <= answered[-1][1] + 1:
            answered[-1][1] = max(answered[-1][1], part.hi)
        else:
            answered.append([part.lo, part.hi])
    gaps = [[a[1] + 1, b[0] - 1] for a, b in pairwise(answered)]
    return answered, gaps


def read_part(
    files: pyarrow.fs.FileSystem, part: Part, *, rows: bool
) -> tuple[pa.Table | None, dict[str, Any]]:
    """The rows (if wanted) and the footer of a part, which has to be that of its name."""
    with files.open_input_file(part.path) as source, pq.ParquetFile(source) as file:
        footer = decode_footer(file.metadata.metadata)
        if (footer["lo"], footer["hi"]) != (part.lo, part.hi):
            raise Bad(f"its footer answers for {footer['lo']} to {footer['hi']}")
        if footer["rows"] != file.metadata.num_rows:
            raise Bad(f"{file.metadata.num_rows} rows, its footer says {footer['rows']}")
        types = {f.name: f.type for f in file.schema_arrow}
        if types != COLUMNS:
            raise Bad(f"its columns are {types}")
        return (file.read() if rows else None), footer


def decode_footer(metadata: dict[bytes, bytes] | None) -> dict[str, Any]:
    """The project's footer in the key-value metadata of a Parquet file."""
    text = (metadata or {}).get(FOOTER_KEY)
    if text is None:
        raise Bad(f"there is no {FOOTER_KEY.decode()} in its footer")
    footer = json.loads(text)
    fields = {"digest": str, "long_holes": list} | dict.fromkeys(FOOTER_COUNTS, int)
    if not isinstance(footer, dict) or not all(
        isinstance(footer.get(name), kind) for name, kind in fields.items()
    ):
        raise Bad("its footer is garbled")
    if footer["schema_version"] != FOOTER_VERSION:
        raise Bad(f"schema version {footer['schema_version']}, this program knows {FOOTER_VERSION}")
    return footer


def check_rows(part: Part, table: pa.Table, footer: dict[str, Any]) -> int:
    """Check the rows of one part; the sum of their hashes."""
    for name in table.column_names:
        if table[name].null_count:
            raise Bad(f"nulls in {name}")
    ids = table["trade_id"].to_pylist()
    for before, after in pairwise(ids):
        if after <= before:
            raise Bad(f"trade {after} follows {before}")
    if ids and not (part.lo <= ids[0] and ids[-1] <= part.hi):
        raise Bad(f"it holds the trades {ids[0]} to {ids[-1]}")
    borders = [part.lo - 1, *ids, part.hi + 1]
    holes = [[a + 1, b - 1] for a, b in pairwise(borders) if b - a > 1]
    if len(holes) != footer["holes"]:
        raise Bad(f"{len(holes)} holes, its footer says {footer['holes']}")
    if [h for h in holes if h[1] - h[0] + 1 >= PAGE_IDS] != footer["long_holes"]:
        raise Bad("its footer lists other long holes than its rows have")
    columns = (table[name].to_pylist() for name in ("price", "size", "side"))
    times = table["time"].cast(pa.int64()).to_pylist()
    total = 0
    for trade_id, time_us, price, size, side in zip(ids, times, *columns, strict=True):
        words = (*side_words(side), trade_id, time_us & WORD, *decimal_words(price))
        words += decimal_words(size)
        total += mix(words, *HIGH) << 64 | mix(words, *LOW)
    if f"{total % (1 << 128):032x}" != footer["digest"]:
        raise Bad(f"its rows have another digest than its footer says, {footer['digest']}")
    return total


def mix(words: tuple[int, ...], state: int, multiplier: int, shift: int) -> int:
    """One word of a row's hash."""
    for word in words:
        state = (state ^ word) * multiplier & WORD
        state ^= state >> shift
    state = (state ^ state >> 33) * 0xFF51AFD7ED558CCD & WORD
    state = (state ^ state >> 33) * 0xC4CEB9FE1A85EC53 & WORD
    return state ^ state >> 33


@lru_cache
def side_words(side: str) -> tuple[int, int]:
    """The letters of a side as two words."""
    if not SIDE.fullmatch(side):
        raise Bad(f"side {side!r} is not a word")
    letters = int.from_bytes(side.encode(), "little")
    return letters & WORD, letters >> 64


@lru_cache(100_000)
def decimal_words(text: str) -> tuple[int, int]:
    """A decimal x 10^18 as two words, or as much of a hash where that is no number of 38 digits."""
    plain = spelled(text)
    whole, _, fraction = plain.lstrip("-").partition(".")
    if len(whole) <= 20 and len(fraction) <= 18:
        value = int(whole + fraction.ljust(18, "0"))
        value = -value if plain.startswith("-") else value
    else:
        value = int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=16).digest(), "little")
    return value & WORD, value >> 64 & WORD


def spelled(text: str) -> str:
    """A decimal in plain notation without needless zeros."""
    if not NUMBER.fullmatch(text):
        raise Bad(f"{text!r} is not a decimal")
    plain = format(Decimal(text), "f")
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain == "-0" else plain


def show(report: Report) -> None:
    """Print a report for a person."""
    first, last = (report.answered[0][0], report.answered[-1][1]) if report.answered else (0, 0)
    verdict = "WRONG" if report.wrong else "incomplete" if report.missing else "ok"
    print(f"{report.exchange} {report.product}: {verdict}")
    print(f"  ids {first:,} to {last:,} in {report.parts:,} parts, {report.rows:,} trades")
    print(f"  absent at the exchange: {report.absent_ids:,} ids, long holes: {report.long_holes}")
    print(f"  widest part with trades: {report.widest_pages} pages")
    if report.digest:
        print(f"  content digest {report.digest}")
    if report.duplicates:
        print(f"  DUPLICATES {report.duplicates:,} trades are in more than one part")
    for label in ("missing", "overlaps", "unreadable", "leftovers", "foreign"):
        for item in getattr(report, label):
            print(f"  {label}: {item}")


if __name__ == "__main__":
    sys.exit(main())
