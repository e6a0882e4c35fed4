#!/usr/bin/env python3
# ruff: noqa: T201 - it is a program that prints
"""Check what Headrace states of a lake, a log, or Looker's snapshots, without its code or servers.

    python verify_evidence.py lake data/lake --keys keys.json --trust KEY_ID
    python verify_evidence.py lake 's3://bucket/prefix?endpoint_override=http://127.0.0.1:8333' ...
    python verify_evidence.py snapshots data/looker-snapshots --keys keys.json --trust KEY_ID
    python verify_evidence.py log out.sot --held head.json --keys keys.json --trust KEY_ID
    python verify_evidence.py log --proof proof.json --keys keys.json --trust KEY_ID
    python verify_evidence.py lake data/lake --unsigned        # without any statement

Needs Python 3.11, pyarrow and, except with --unsigned, cryptography; nothing else. It only reads.
`--keys` is the list of public keys, `--trust` the id of the first of them, which you were given by
a way that the operator of the servers does not control. `--held FILE` (repeatable) names a signed
statement, or a file with one a line, that you kept or that was anchored elsewhere: what is checked
has to hold it still, so that a copy from before it is found out.

Of a lake every part is read: name, footer, rows and their digests (docs/lake.md); and its rows are
held against the last manifest, the manifests against one another, against the heads of the lake and
against what you hold (docs/manifests.md, docs/evidence.md). Rows take some 12 s per million.

Of a log the signed heads that you hold (`headrace sot head --signed`), a stream (`headrace sot
recover`) and proofs (`headrace sot prove`) are held against one another (docs/sot-format.md).

Exit code: 0 all is well, 1 something is wrong (a line for each thing: what, and where), 2 wrong
input, or it cannot be opened, 4 nothing is wrong but ids up to the newest known one are missing.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

ROOT = "raw/trades"
MANIFESTS = "_headrace/manifests"
SNAPSHOTS = "looker-snapshots"
LAKE_MANIFEST = "headrace.lake-manifest.v1"
LAKE_HEAD = "headrace.lake-head.v1"
INVENTORY = "headrace.looker-snapshots.v1"
LOG_HEAD = "headrace.sot.head.v1"
INCLUSION = "headrace.sot.inclusion.v1"
CONSISTENCY = "headrace.sot.consistency.v1"
ENDORSEMENT = "headrace.key.v1"
#: What the payload of each kind must have for the checks that are made here.
FIELDS = {
    LAKE_MANIFEST: ("lake", "exchange", "product", "lists", "newest", "answered", "rows"),
    LAKE_HEAD: ("lake", "products"),
    INVENTORY: ("snapshots",),
}
NUMBERED = re.compile(r"([0-9]{9,18})\.json")
LARGEST_NUMBER = 2**53 - 1
STREAM_BEGIN = b"HRSOTS\1\0"
#: Records of one leaf, and what stands before the content of a leaf and of an inner node.
LEAF_RECORDS, LEAF, INNER = 16, b"\0", b"\1"
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
    """What is wrong with one file."""


class WrongInput(Exception):
    """What was given, or what is to be checked, cannot be used."""


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
    disproved: int = 0
    broken: list[Part] = field(default_factory=list)
    footers: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        """Whether anything contradicts what the lake promises."""
        return bool(self.overlaps or self.duplicates or self.unreadable or self.disproved)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        found = {**vars(self), "wrong": self.wrong}
        return {name: value for name, value in found.items() if name not in ("broken", "footers")}


@dataclass
class Verdict:
    """What was found, a line each: what is wrong, and what is worth knowing."""

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stamped: int = 0

    def blame(self, line: str) -> None:
        """Add what is wrong, once."""
        if line not in self.wrong:
            self.wrong.append(line)


@dataclass(frozen=True)
class Statement:
    """A signed file: its number, its path below the root, the SHA-256 of its bytes, its payload."""

    sequence: int
    where: str
    sha256: str
    payload: dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Check what the command line names; the exit code."""
    options = parsed(arguments)
    place = options.place
    verdict = Verdict()
    reports: list[Report] = []
    try:
        trusted = None if options.unsigned else Trusted.read(options.keys, options.trust)
        if trusted is not None and options.command == "log":
            check_log(options, trusted, verdict)
        else:
            files, root = open_place(place)
            held = [s for path in options.held for s in kept(path, trusted)] if trusted else []
            if options.command == "lake":
                reports = check_lake(files, root, trusted, held, verdict, options)
            elif trusted is not None:
                check_snapshots(files, root, trusted, held, verdict)
    except (OSError, ValueError, WrongInput, Bad, KeyError, TypeError, ImportError) as error:
        # A signed statement that lacks a field is of a version that is not known here.
        what, why = place or "the log", str(error) or type(error).__name__
        print(f"verify_evidence: {what} cannot be checked: {why}", file=sys.stderr)
        return 2
    if options.json:
        found = [report.as_json() for report in reports]
        signed = {"wrong": verdict.wrong, "notes": verdict.notes, "products": found}
        print(json.dumps(found if options.unsigned else signed))
    else:
        for report in reports:
            show(report)
        for line in verdict.notes:
            print(f"note: {line}")
        for line in verdict.wrong:
            print(f"WRONG: {line}")
        if not options.unsigned and not verdict.wrong:
            print("everything is as it was signed")
    if verdict.wrong or any(report.wrong for report in reports):
        return 1
    return 4 if any(report.missing for report in reports) else 0


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="verify_evidence.py", description=(__doc__ or "").partition("\n\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    lake = commands.add_parser("lake", help="a lake: parts, manifests, heads")
    snapshots = commands.add_parser("snapshots", help="a place of snapshots of Looker's content")
    log = commands.add_parser("log", help="a log: signed heads, proofs, a recovered stream")
    for command in (lake, snapshots, log):
        if command is log:
            log.add_argument("place", nargs="?", help="a stream, as `headrace sot recover` writes")
        else:
            command.add_argument("place", help="a folder, or s3://bucket/prefix")
        command.add_argument("--keys", help="the list of public keys, a file")
        command.add_argument("--trust", help="the id of the key that is trusted first")
        command.add_argument(
            "--held", action="append", default=[], help="a statement that you kept; repeatable"
        )
        command.add_argument("--json", action="store_true", help="one JSON document on stdout")
        command.set_defaults(unsigned=False)
    log.add_argument("--proof", action="append", default=[], help="a proof; repeatable")
    lake.add_argument("--product", help="only this one, as in BTC-USD")
    lake.add_argument("--quick", action="store_true", help="names and footers only, no rows")
    lake.add_argument("--unsigned", action="store_true", help="parts alone, without any statement")
    options = parser.parse_args(arguments)
    if not options.unsigned and not (options.keys and options.trust):
        parser.error("give --keys and --trust, without which no signature says anything")
    return options


# Signed statements: docs/evidence.md.


@dataclass(frozen=True)
class Trusted:
    """The public keys that are trusted, by their ids."""

    keys: dict[str, bytes]

    @classmethod
    def read(cls, path: str, first: str) -> Trusted:
        """The key `first` of a list, and those that it, or a successor, has endorsed.

        Raises:
            WrongInput: the list cannot be used, or does not hold the key.
        """
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - as short as it gets
                listed = strict_json(file.read())
            if listed["version"] != 1:
                raise WrongInput(f"{path} has version {listed['version']}, 1 is known")
            trusted = cls({})
            for key in listed["keys"]:
                trusted._add(key, first)
        except (ValueError, KeyError, TypeError, Bad) as error:
            raise WrongInput(f"{path} is no list of public keys: {error}") from error
        if first not in trusted.keys:
            raise WrongInput(f"{path} does not hold the key {first}")
        return trusted

    def _add(self, key: dict[str, Any], first: str) -> None:
        public = base64.b64decode(key["public_key"], validate=True)
        key_id = hashlib.sha256(public).digest()[:16].hex()
        if len(public) != 32 or key_id != key["key_id"]:
            raise Bad(f"{key['key_id']} is not the id of the key beside it")
        endorsed = key["endorsed"]
        if endorsed is not None and endorsed.get("key_id") in self.keys:
            same = {name: key[name] for name in ("key_id", "public_key", "made_at")}
            if self.payload(endorsed, key_id) != {"type": ENDORSEMENT, **same}:
                raise Bad(f"the endorsement of {key_id} is about something else")
            self.keys[key_id] = public
        elif key_id == first:
            self.keys[key_id] = public

    def open(self, content: bytes) -> dict[str, Any]:
        """The payload of a signed file.

        Raises:
            Bad: it is no envelope, or not signed by a key that is trusted.
        """
        try:
            return self.payload(strict_json(content), "it")
        except ValueError as error:
            raise Bad(f"it is no signed statement: {error}") from error

    def payload(self, envelope: Any, what: str) -> dict[str, Any]:
        """The payload of an envelope whose signature is good."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if not isinstance(envelope, dict) or envelope.keys() != {"payload", "key_id", "signature"}:
            raise Bad(f"{what} is no object of payload, key_id and signature")
        payload, key_id = envelope["payload"], envelope["key_id"]
        if not isinstance(payload, dict) or not isinstance(payload.get("type"), str):
            raise Bad(f"the payload of {what} is no object with a type")
        if key_id not in self.keys:
            raise Bad(f"{what} is signed by key {key_id}, which is not trusted")
        try:
            signature = base64.b64decode(envelope["signature"], validate=True)
            Ed25519PublicKey.from_public_bytes(self.keys[key_id]).verify(
                signature, canonical(payload)
            )
        except (InvalidSignature, ValueError, TypeError):
            raise Bad(f"the signature of {what} is not that of key {key_id}") from None
        return payload


def strict_json(content: bytes) -> Any:
    """A JSON value, without fractions, and no key of an object twice."""
    return json.loads(content, object_pairs_hook=once, parse_float=no_fraction)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are each there once."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in an object twice")
    return found


def no_fraction(text: str) -> NoReturn:
    """Refuse a fraction."""
    raise ValueError(f"{text} is no whole number")


def canonical(value: Any) -> bytes:
    """The one text of a JSON value."""
    check_numbers(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_numbers(value: Any) -> None:
    """Refuse what has no canonical text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.isascii():
                raise ValueError(f"key {key!r} is not ASCII")
            check_numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            check_numbers(inner)
    elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise ValueError(f"{value} is beyond 2^53 - 1")


def kept(path: str, trusted: Trusted) -> Iterator[Statement]:
    """The statements in a file that the user keeps: one, or one a line.

    Raises:
        WrongInput: it cannot be read, or holds what is not signed by a trusted key.
    """
    try:
        for where, text in lines_of(path):
            payload = trusted.open(text)
            yield Statement(int(payload.get("sequence", 0)), where, "", payload)
    except (Bad, ValueError, TypeError) as error:
        raise WrongInput(f"{path}: {error}") from error


def lines_of(path: str) -> Iterator[tuple[str, bytes]]:
    """A file's JSON values, one or one a line, each with its place."""
    with open(path, "rb") as file:  # noqa: PTH123 - as short as it gets
        content = file.read()
    if is_json(content):
        yield path, content
        return
    for number, line in enumerate(content.splitlines(), start=1):
        yield f"{path}:{number}", line


def is_json(content: bytes) -> bool:
    """Whether it is one JSON value."""
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def read_chain(
    files: pyarrow.fs.FileSystem,
    root: str,
    folder: str,
    kind: str,
    trusted: Trusted,
    verdict: Verdict,
) -> dict[int, Statement]:
    """The statements of a folder by number; what is wrong with the chain is in the verdict."""
    paths = {
        int(found[1]): info.path
        for info in listed(files, f"{root}/{folder}")
        if (found := NUMBERED.fullmatch(info.base_name))
    }
    digests: dict[int, str] = {}
    chain: dict[int, Statement] = {}
    for sequence in range(1, max(paths, default=0) + 1):
        where = f"{folder}/{sequence:09d}.json"
        if sequence not in paths:
            verdict.blame(f"{where} is missing, although the chain goes on to {max(paths)}")
            continue
        content = read_file(files, paths[sequence])
        digests[sequence] = hashlib.sha256(content).hexdigest()
        try:
            payload = trusted.open(content)
            if payload["type"] != kind:
                raise Bad(f"it is {payload['type']}, not {kind}")
            if lacking := [name for name in FIELDS[kind] if name not in payload]:
                raise Bad(f"it has no {lacking[0]}")
            if payload.get("sequence") != sequence:
                raise Bad(f"it has the number {payload.get('sequence')}")
            if sequence - 1 in digests or sequence == 1:
                before = digests.get(sequence - 1)
                if payload.get("previous") != before:
                    raise Bad(f"it follows another file than {sequence - 1:09d}.json")
        except Bad as error:
            verdict.blame(f"{where}: {error}")
            continue
        chain[sequence] = Statement(sequence, where, digests[sequence], payload)
    return chain


def check_held(
    held: Iterable[Statement],
    find: Callable[[dict[str, Any]], dict[int, Statement] | None],
    verdict: Verdict,
) -> None:
    """Every statement that the user holds has to be there; `find` gives the chain that it is of."""
    for statement in held:
        chain = find(statement.payload)
        if chain is None:
            verdict.notes.append(f"{statement.where} is about something else")
            continue
        there = chain.get(statement.sequence)
        name = f"{statement.payload['type']} {statement.sequence}, which {statement.where} holds,"
        if there is None:
            ends = max(chain, default=0)
            verdict.blame(f"{name} is not there: the chain ends with {ends}")
        elif there.payload != statement.payload:
            verdict.blame(f"{name} is another than {there.where}")


# A lake: docs/lake.md, docs/manifests.md.


def check_lake(
    files: pyarrow.fs.FileSystem,
    root: str,
    trusted: Trusted | None,
    held: list[Statement],
    verdict: Verdict,
    options: argparse.Namespace,
) -> list[Report]:
    """Check every product of a lake, or the one that was asked for."""
    folders = {
        (exchange, product): path
        for exchange, product, path in product_folders(files, f"{root}/{ROOT}")
        if options.product in (None, product)
    }
    last: dict[tuple[str, str], tuple[Statement, list[dict[str, Any]]]] = {}
    if trusted is not None:
        last = check_manifests(files, root, trusted, held, verdict, options.product)
    if not folders and not last:
        raise FileNotFoundError(f"there are no trades to check under {root}/{ROOT}")
    reports = []
    for exchange, product in sorted({*folders, *last}):
        stated = last.get((exchange, product))
        entries = stated[1] if stated else []
        against = Entries(entries, f"manifest {stated[0].sequence}" if stated else "")
        report = Report(exchange, product)
        if (path := folders.get((exchange, product))) is not None:
            check(files, report, path, against, quick=options.quick)
        name = f"{exchange} {product}"
        if stated is not None:
            for line in against.differences(report, rows=not options.quick):
                report.disproved += 1
                verdict.blame(f"{name}: {line}")
            newest = max(as_int(stated[0].payload["newest"]), *(hi for _, hi in report.answered), 0)
            report.missing = gaps(report.answered, newest)
            verdict.notes += [f"{name}: {line}" for line in against.notes()]
        elif trusted is not None:
            verdict.notes.append(f"{name}: no manifest states what it holds")
        for line in (*report.unreadable, *report.overlaps):
            if trusted is not None:
                verdict.blame(f"{name}: {line}")
        reports.append(report)
    return reports


def check_manifests(
    files: pyarrow.fs.FileSystem,
    root: str,
    trusted: Trusted,
    held: list[Statement],
    verdict: Verdict,
    only: str | None,
) -> dict[tuple[str, str], tuple[Statement, list[dict[str, Any]]]]:
    """Check manifests and heads; the last manifest of each product, with its entries."""
    heads = read_chain(files, root, f"{MANIFESTS}/heads", LAKE_HEAD, trusted, verdict)
    chains = {}
    for exchange, product, path in product_folders(files, f"{root}/{MANIFESTS}"):
        if only in (None, product):
            folder = path.removeprefix(f"{root}/")
            chain = read_chain(files, root, folder, LAKE_MANIFEST, trusted, verdict)
            chains[exchange, product] = chain
    statements = [*heads.values(), *(s for chain in chains.values() for s in chain.values())]
    if not statements:
        verdict.blame(f"{MANIFESTS} holds no statement")
    elif not heads:
        verdict.blame(f"{MANIFESTS}/heads holds no valid head, which every signing ends with")
    lakes = {statement.payload.get("lake") for statement in statements}
    if len(lakes) > 1:
        names = ", ".join(sorted(map(str, lakes)))
        verdict.blame(f"the statements in {MANIFESTS} are of several lakes: {names}")
    for head in heads.values():
        for position in head.payload["products"]:
            check_position(position, head, chains, only, verdict)

    def chain_of(payload: dict[str, Any]) -> dict[int, Statement] | None:
        if payload.get("lake") not in lakes:
            return None
        if payload["type"] == LAKE_HEAD:
            return heads
        if payload["type"] == LAKE_MANIFEST and only in (None, payload["product"]):
            return chains.get((payload["exchange"], payload["product"]), {})
        return None

    check_held(held, chain_of, verdict)
    if held and not any(statement.payload.get("lake") in lakes for statement in held):
        verdict.blame(f"no statement that you hold is of this lake, {', '.join(map(str, lakes))}")
    last, known = {}, dict[str, list[dict[str, Any]]]()
    for (exchange, product), chain in chains.items():
        for statement in chain.values():
            payload = statement.payload
            try:
                if (payload["exchange"], payload["product"]) != (exchange, product):
                    raise Bad(f"it is of {payload['exchange']} {payload['product']}")
                entries = read_lists(files, f"{root}/{statement.where}", payload, known)
            except (Bad, OSError, ValueError, KeyError, TypeError) as error:
                verdict.blame(f"{statement.where}: {error}")
                continue
            if payload.get("accepted"):
                reason = payload["accepted"]
                verdict.notes.append(
                    f"{exchange} {product}: manifest {statement.sequence} was signed in spite of "
                    f"what is lost, changed or damaged: {reason!r}"
                )
            last[exchange, product] = (statement, entries)
    return last


def check_position(
    position: dict[str, Any],
    head: Statement,
    chains: dict[tuple[str, str], dict[int, Statement]],
    only: str | None,
    verdict: Verdict,
) -> None:
    """Hold what a head says of one product against its chain."""
    exchange, product, sequence = (position[key] for key in ("exchange", "product", "sequence"))
    if only not in (None, product):
        return
    there = chains.get((exchange, product), {}).get(sequence)
    name = f"{exchange} {product}: manifest {sequence}"
    if there is None:
        verdict.blame(f"{name} is missing or not valid; heads of the lake name it")
    elif there.sha256 != position["sha256"]:
        verdict.blame(f"{name} is another than the one that {head.where} names")


def read_list(files: pyarrow.fs.FileSystem, path: str, sha256: str) -> list[dict[str, Any]]:
    """The entries of one list of parts."""
    content = read_file(files, path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Bad(f"{path} is not what the manifest names")
    entries: list[dict[str, Any]] = json.loads(content)
    return entries


def read_lists(
    files: pyarrow.fs.FileSystem,
    path: str,
    payload: dict[str, Any],
    known: dict[str, list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """The entries of a manifest at `path`, which have to add up to what it says.

    `known` are the lists that were read for earlier manifests.
    """
    folder = path.rpartition("/")[0]
    entries: list[dict[str, Any]] = []
    for part_list in payload["lists"]:
        sha256 = part_list["sha256"]
        list_path = f"{folder}/parts-{sha256}.json"
        if list_path not in known:
            known[list_path] = read_list(files, list_path, sha256)
        found = known[list_path]
        if len(found) != part_list["parts"]:
            raise Bad(
                f"parts-{sha256}.json has {many(len(found), 'part')}, not {part_list['parts']}"
            )
        entries += found
    if any(after["lo"] <= before["hi"] for before, after in pairwise(entries)):
        raise Bad("its parts do not rise")
    rows = sum(entry["rows"] for entry in entries)
    ids = sum(entry["hi"] - entry["lo"] + 1 for entry in entries)
    digest = sum(int(entry["digest"], 16) for entry in entries) % (1 << 128)
    answered = cover([Part(entry["lo"], entry["hi"], "") for entry in entries])[0]
    stated = (
        payload["parts"],
        payload["rows"],
        as_int(payload["absent_ids"]),
        payload["digest"],
        [[as_int(lo), as_int(hi)] for lo, hi in payload["answered"]],
    )
    if stated != (len(entries), rows, ids - rows, f"{digest:032x}", answered):
        raise Bad("its parts do not add up to what it says")
    return entries


def as_int(text: Any) -> int:
    """An id of a payload, which is text."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise Bad(f"{text!r} is no id")
    return int(text)


def gaps(answered: list[list[int]], newest: int) -> list[list[int]]:
    """The ids from 1 to `newest` that are not answered for."""
    borders = [0, *(border for lo, hi in answered for border in (lo, hi)), newest + 1]
    return [[a + 1, b - 1] for a, b in zip(borders[::2], borders[1::2], strict=True) if b - a > 1]


@dataclass
class Tally:
    """The rows of one entry's range: those outside of its long holes, and how many are inside."""

    rows: int = 0
    digest: int = 0
    late: int = 0
    sha256: Any = field(default_factory=hashlib.sha256)


class Entries:
    """The parts of a manifest, and the rows that are stored now in the range of each.

    Args:
        entries: by rising ids, none overlapping another.
        manifest: what the manifest is called in messages.
    """

    def __init__(self, entries: list[dict[str, Any]], manifest: str) -> None:
        self.entries = entries
        self.manifest = manifest
        self.tallies = [Tally() for _ in entries]
        self.unstated = 0
        self._at = 0
        self._last = 0

    def add(self, trade_id: int, row_hash: int, line: bytes) -> None:
        """Take a row; ids rise, and one that was there already does not count."""
        if not self.manifest or trade_id <= self._last:
            return
        self._last = trade_id
        while self._at < len(self.entries) and self.entries[self._at]["hi"] < trade_id:
            self._at += 1
        if self._at == len(self.entries) or trade_id < self.entries[self._at]["lo"]:
            self.unstated += 1
            return
        tally = self.tallies[self._at]
        if any(lo <= trade_id <= hi for lo, hi in self.entries[self._at]["long_holes"]):
            tally.late += 1
            return
        tally.rows += 1
        tally.digest += row_hash
        tally.sha256.update(line)

    def differences(self, report: Report, *, rows: bool) -> Iterator[str]:
        """What is not there any more, or not as the manifest says, a line each."""
        broken = [(part.lo, part.hi) for part in report.broken]
        for entry, tally in zip(self.entries, self.tallies, strict=True):
            lo, hi = entry["lo"], entry["hi"]
            if any(left <= hi and right >= lo for left, right in broken):
                continue  # said already
            where = f"ids {lo}-{hi}"
            if not any(left <= lo and hi <= right for left, right in report.answered):
                yield (
                    f"{where}: no part answers for all of them any more; {self.manifest} has "
                    f"{many(entry['rows'], 'trade')} there"
                )
            elif not rows:
                footer = report.footers.get((lo, hi))
                if footer is not None and (footer["rows"], footer["digest"]) != (
                    entry["rows"],
                    entry["digest"],
                ):
                    yield f"{where}: the footer of the part is not what {self.manifest} says"
            elif tally.rows != entry["rows"]:
                yield (
                    f"{where}: {many(tally.rows, 'trade is', 'trades are')} stored, "
                    f"{self.manifest} has {entry['rows']:,}"
                )
            elif (tally.sha256.hexdigest(), f"{tally.digest % (1 << 128):032x}") != (
                entry["sha256"],
                entry["digest"],
            ):
                yield f"{where}: other trades are stored than those of {self.manifest}"

    def notes(self) -> Iterator[str]:
        """What the manifest does not vouch for."""
        if self.unstated:
            unstated = many(self.unstated, "trade")
            yield f"{unstated} came after {self.manifest}, which does not state them"
        late = sum(tally.late for tally in self.tallies)
        if late:
            yield f"{many(late, 'trade')} came to light in holes of {self.manifest}"


# A log: docs/sot-format.md.


@dataclass(frozen=True)
class SymbolHead:
    """The tree of one symbol: where its chain begins, how many records, the root over them."""

    symbol: int
    first_seq: int
    size: int
    root: bytes

    @property
    def leaf(self) -> bytes:
        """Its leaf in the tree over all symbols."""
        return struct.pack("<IQQ32s", self.symbol, self.first_seq, self.size, self.root)


@dataclass(frozen=True)
class LogHead:
    """A signed head over all symbols: what it is called, its log, its time."""

    name: str
    store: str
    time: str
    symbols: dict[int, SymbolHead]


def check_log(options: argparse.Namespace, trusted: Trusted, verdict: Verdict) -> None:
    """Hold heads, proofs and a stream against one another."""
    heads = [head for path in options.held for head in read_heads(path, trusted, verdict)]
    # Times are whole seconds.
    heads.sort(key=lambda head: (head.time, sum(each.size for each in head.symbols.values())))
    if not options.held and not options.proof:
        raise WrongInput("give signed heads (--held), or proofs that were made with one (--proof)")
    if verdict.stamped:
        verdict.notes.append(
            f"{many(verdict.stamped, 'head bears a time stamp', 'heads bear time stamps')}; "
            "stamps are not looked at here: docs/evidence.md says how openssl checks them"
        )
    if len({head.store for head in heads}) > 1:
        verdict.blame(f"the heads are of several logs: {sorted({head.store for head in heads})}")
    grown: set[tuple[int, int, int]] = set()
    for path in options.proof:
        for where, text in lines_of(path):
            try:
                check_proof(strict_json(text), heads, trusted, grown)
            except (Bad, ValueError, KeyError, TypeError, struct.error, AttributeError) as error:
                verdict.blame(f"{where}: {error or type(error).__name__}")
    for before, after in pairwise(heads):
        check_growth(before, after, grown, verdict, proven=options.place is not None)
    if options.place is not None:
        check_stream(options.place, heads, verdict)


def read_heads(path: str, trusted: Trusted, verdict: Verdict) -> Iterator[LogHead]:
    """The heads in a file; one that is not valid goes into the verdict."""
    for where, text in lines_of(path):
        try:
            found = strict_json(text)
            payload = trusted.payload(found["head"], "the head")
            symbols = [
                SymbolHead(
                    each["symbol"],
                    int(each["first_seq"]),
                    int(each["size"]),
                    base64.b64decode(each["root"], validate=True),
                )
                for each in found["symbols"]
            ]
            check_head(payload, symbols)
        except (Bad, ValueError, KeyError, TypeError, struct.error) as error:
            verdict.blame(f"{where} is no valid head of a log: {error}")
            continue
        if found.get("stamp") is not None:
            verdict.stamped += 1
        name = f"the head of {payload['time']} in {where}"
        yield LogHead(
            name, payload["store"], payload["time"], {each.symbol: each for each in symbols}
        )


def check_head(payload: dict[str, Any], symbols: list[SymbolHead]) -> None:
    """The symbols beside a head have to be those that its root is over."""
    if payload["type"] != LOG_HEAD:
        raise Bad(f"it is {payload['type']}, not {LOG_HEAD}")
    ids = [each.symbol for each in symbols]
    if ids != sorted(set(ids)) or payload["symbols"] != len(ids):
        raise Bad("its symbols are not as many as were signed, or do not rise")
    if any(len(each.root) != 32 for each in symbols):
        raise Bad("a root has not 32 bytes")
    tree = Tree()
    for each in symbols:
        tree.add(each.leaf)
    if base64.b64encode(tree.root()).decode() != payload["root"]:
        raise Bad("the root that was signed is not over the symbols beside it")


def check_growth(
    before: LogHead,
    after: LogHead,
    grown: set[tuple[int, int, int]],
    verdict: Verdict,
    *,
    proven: bool,
) -> None:
    """No symbol of a head may be missing in a later one, smaller, or another.

    Args:
        grown: symbols and two sizes, of which proofs show that one grew out of the other.
        proven: a stream will show it.
    """
    for symbol, old in before.symbols.items():
        new = after.symbols.get(symbol)
        if new is None:
            verdict.blame(f"symbol {symbol} is in {before.name}, and not in {after.name}")
        elif new.first_seq != old.first_seq:
            verdict.blame(f"symbol {symbol} begins elsewhere in {after.name} than in {before.name}")
        elif new.size < old.size:
            verdict.blame(
                f"symbol {symbol} has {many(old.size, 'record')} in {before.name}, and "
                f"{new.size:,} in {after.name}: its end was cut"
            )
        elif new.size == old.size and new.root != old.root:
            verdict.blame(f"symbol {symbol} was rewritten between {before.name} and {after.name}")
        elif new.size > old.size and not proven and (symbol, old.size, new.size) not in grown:
            verdict.notes.append(
                f"symbol {symbol}: nothing was given that proves that its {new.size:,} records in "
                f"{after.name} grew out of the {old.size:,} in {before.name}"
            )


def check_proof(
    proof: dict[str, Any],
    heads: list[LogHead],
    trusted: Trusted,
    grown: set[tuple[int, int, int]],
) -> None:
    """Check one proof, and that its roots are signed; one of growth goes into `grown`."""
    kind = proof.get("type")
    if kind == INCLUSION:
        check_inclusion(proof)
        tree = head_of(proof, "size", "root")
        if "head" in proof:
            check_head_path(proof, tree, trusted)
        elif all(head.symbols.get(tree.symbol) != tree for head in heads):
            raise Bad("no signed head that was given vouches for its root")
    elif kind == CONSISTENCY:
        check_consistency(proof)
        for size, root in (("from_size", "from_root"), ("to_size", "to_root")):
            tree = head_of(proof, size, root)
            same_size = [
                there
                for head in heads
                if (there := head.symbols.get(tree.symbol)) and there.size == tree.size
            ]
            if same_size and tree not in same_size:
                raise Bad(f"its root of size {tree.size:,} is not that of the head that was signed")
        grown.add((proof["symbol"], int(proof["from_size"]), int(proof["to_size"])))
    else:
        said = "it has no type" if kind is None else f"its type is {kind!r}"
        raise Bad(f"it is no proof, as headrace sot prove writes one: {said}")


def head_of(proof: dict[str, Any], size: str, root: str) -> SymbolHead:
    """The tree that a proof is about."""
    found = base64.b64decode(proof[root], validate=True)
    return SymbolHead(proof["symbol"], int(proof["first_seq"]), int(proof[size]), found)


def check_inclusion(proof: dict[str, Any]) -> None:
    """The record has to be in the leaf, and the leaf in the tree."""
    size, at = int(proof["size"]), int(proof["seq"]) - int(proof["first_seq"])
    if not 0 <= at < size:
        raise Bad("the record is not within the tree")
    leaf, place = divmod(at, LEAF_RECORDS)
    before, digests = decoded(proof["before"])[0], decoded(proof["digests"])
    if len(digests) != min(LEAF_RECORDS, size - LEAF_RECORDS * leaf):
        raise Bad("its leaf has not as many digests as it must")
    if place and digests[place - 1] != before:
        raise Bad("the digest before the record is not that of its leaf")
    if "record" not in proof:
        raise Bad("it does not hold the record (headrace sot prove --record)")
    frame = base64.b64decode(proof["record"], validate=True)
    if hashlib.sha256(before + frame).digest() != digests[place]:
        raise Bad("the record is another than the one in the tree")
    if place_of(frame[4:]) != (proof["symbol"], int(proof["seq"])):
        raise Bad("the record is of another symbol or sequence")
    top, _ = climbed(node(LEAF, b"".join(digests)), leaf, leaves_of(size), decoded(proof["path"]))
    if top != decoded(proof["root"])[0]:
        raise Bad("the path does not lead to the root")


def check_head_path(proof: dict[str, Any], tree: SymbolHead, trusted: Trusted) -> None:
    """The symbol's tree has to be a leaf of the head in the proof."""
    payload = trusted.payload(proof["head"], "its head")
    if payload["type"] != LOG_HEAD:
        raise Bad(f"its head is {payload['type']}, not {LOG_HEAD}")
    path = decoded(proof["head_path"])
    top, _ = climbed(node(LEAF, tree.leaf), proof["head_index"], payload["symbols"], path)
    if base64.b64encode(top).decode() != payload["root"]:
        raise Bad("the symbol's tree is not in the head that was signed")


def check_consistency(proof: dict[str, Any]) -> None:
    """The smaller tree has to be the beginning of the larger one."""
    small, large = int(proof["from_size"]), int(proof["to_size"])
    from_root, to_root = decoded(proof["from_root"])[0], decoded(proof["to_root"])[0]
    if not 0 <= small <= large:
        raise Bad("its sizes fall")
    if small == large:
        if from_root != to_root:
            raise Bad("the roots of one size differ")
        return
    leaf, rest = divmod(small, LEAF_RECORDS)
    digests = decoded(proof["digests"])
    if len(digests) != min(LEAF_RECORDS, large - LEAF_RECORDS * leaf):
        raise Bad("its leaf has not as many digests as it must")
    path = decoded(proof["path"])
    top, left = climbed(node(LEAF, b"".join(digests)), leaf, leaves_of(large), path)
    if top != to_root:
        raise Bad("the path does not lead to the root of the larger tree")
    smaller = node(LEAF, b"".join(digests[:rest])) if rest else None
    for sibling in left:
        smaller = sibling if smaller is None else node(INNER, sibling + smaller)
    if (smaller or hashlib.sha256().digest()) != from_root:
        raise Bad("the smaller tree is not the beginning of the larger one")


def climbed(bottom: bytes, index: int, leaves: int, path: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The root that a path leads to, and the siblings on the left, from below."""
    last, siblings, left = leaves - 1, iter(path), []
    if not 0 <= index < leaves:
        raise Bad("the leaf is not within the tree")
    try:
        while last:
            if index % 2:
                left.append(next(siblings))
                bottom = node(INNER, left[-1] + bottom)
            elif index < last:
                bottom = node(INNER, bottom + next(siblings))
            index, last = index // 2, last // 2
    except StopIteration:
        raise Bad("the path is too short") from None
    if next(siblings, None) is not None:
        raise Bad("the path is too long")
    return bottom, left


def decoded(text: str) -> list[bytes]:
    """The hashes of a field."""
    joined = base64.b64decode(text, validate=True)
    if len(joined) % 32:
        raise Bad("a field of hashes is cut")
    return [joined[at : at + 32] for at in range(0, len(joined), 32)]


def node(prefix: bytes, content: bytes) -> bytes:
    """The hash of a leaf or of an inner node."""
    return hashlib.sha256(prefix + content).digest()


def leaves_of(size: int) -> int:
    """How many leaves a tree over so many records has."""
    return -(-size // LEAF_RECORDS)


class Tree:
    """A tree of RFC 6962 to which leaves are added; only the roots of perfect subtrees are kept."""

    def __init__(self) -> None:
        self.leaves = 0
        self._perfect: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        """Add a leaf at the end."""
        top, count = node(LEAF, leaf), self.leaves
        while count % 2:
            top, count = node(INNER, self._perfect.pop() + top), count // 2
        self._perfect.append(top)
        self.leaves += 1

    def root(self, unfinished: bytes = b"") -> bytes:
        """The root, with one leaf more if it is not empty."""
        parts = [*self._perfect, *([node(LEAF, unfinished)] if unfinished else [])]
        if not parts:
            return hashlib.sha256().digest()
        top = parts.pop()
        while parts:
            top = node(INNER, parts.pop() + top)
        return top


class Chain:
    """The chain and the tree of one symbol, as a stream is read.

    Args:
        heads: where its root is wanted, with what the heads say.
    """

    def __init__(self, symbol: int, first_seq: int, heads: list[tuple[str, SymbolHead]]) -> None:
        self.symbol, self.first_seq, self.size = symbol, first_seq, 0
        start = b"headrace sot v1\0" + struct.pack("<IQ", symbol, first_seq)
        self._digest = hashlib.sha256(start).digest()
        self._leaf = b""
        self._tree = Tree()
        self._wanted: dict[int, list[tuple[str, SymbolHead]]] = {}
        for head in heads:
            self._wanted.setdefault(head[1].size, []).append(head)

    def add(self, frame: bytes) -> Iterator[str]:
        """Take the next record; which heads it does not fit, in words."""
        self._digest = hashlib.sha256(self._digest + frame).digest()
        self._leaf += self._digest
        self.size += 1
        if len(self._leaf) == 32 * LEAF_RECORDS:
            self._tree.add(self._leaf)
            self._leaf = b""
        for name, head in self._wanted.get(self.size, ()):
            if (head.first_seq, head.root) != (self.first_seq, self._tree.root(self._leaf)):
                yield (
                    f"symbol {self.symbol}: its first {self.size:,} records are not those of {name}"
                )


def check_stream(path: str, heads: list[LogHead], verdict: Verdict) -> None:
    """Hold a stream, as `headrace sot recover` writes it, against every head."""
    chains: dict[int, Chain] = {}
    for frame in frames_of(path, verdict):
        symbol, seq = place_of(frame[4:])
        if symbol not in chains:
            of_symbol = [(h.name, h.symbols[symbol]) for h in heads if symbol in h.symbols]
            chains[symbol] = Chain(symbol, seq, of_symbol)
        chain = chains[symbol]
        if seq != chain.first_seq + chain.size:
            verdict.blame(
                f"symbol {symbol}: record {seq} follows {chain.first_seq + chain.size - 1}"
            )
            return
        for line in chain.add(frame):
            verdict.blame(line)
    for head in heads:
        for symbol, stated in head.symbols.items():
            size = chains[symbol].size if symbol in chains else 0
            if size < stated.size:
                verdict.blame(
                    f"symbol {symbol}: {many(size, 'record is', 'records are')} in {path}, "
                    f"{head.name} has {stated.size:,}: "
                    f"{'its end was cut' if size else 'it was dropped'}"
                )
    newest = heads[-1].symbols if heads else {}
    for symbol, chain in sorted(chains.items()):
        later = chain.size - (newest[symbol].size if symbol in newest else 0)
        if later > 0:
            last = "record" if later == 1 else f"{later:,} records"
            verdict.notes.append(f"symbol {symbol}: no head states its last {last}")


def frames_of(path: str, verdict: Verdict) -> Iterator[bytes]:
    """The frames of a stream: length and body."""
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        if file.read(8) != STREAM_BEGIN:
            raise WrongInput(f"{path} is no stream of a log (headrace sot recover)")
        at = 8
        while length := file.read(4):
            body = file.read(int.from_bytes(length, "little"))
            if len(length) < 4 or len(body) < 24 or len(body) != int.from_bytes(length, "little"):
                verdict.blame(f"{path}: the record at byte {at:,} is cut off")
                return
            yield length + body
            at += 4 + len(body)


def place_of(body: bytes) -> tuple[int, int]:
    """Symbol and sequence of a record."""
    symbol, seq = struct.unpack_from("<IQ", body, 12)
    return symbol, seq


# Snapshots of Looker's content: docs/manifests.md.


def check_snapshots(
    files: pyarrow.fs.FileSystem,
    root: str,
    trusted: Trusted,
    held: list[Statement],
    verdict: Verdict,
) -> None:
    """Hold every snapshot against the last statement about the place."""
    folder = f"{SNAPSHOTS}/manifests"
    chain = read_chain(files, root, folder, INVENTORY, trusted, verdict)
    if not chain:
        if not listed(files, f"{root}/{SNAPSHOTS}"):
            raise FileNotFoundError(f"there are no snapshots to check under {root}/{SNAPSHOTS}")
        verdict.blame(f"{folder} holds no statement")
        return
    check_held(held, lambda payload: chain if payload["type"] == INVENTORY else None, verdict)
    last = chain[max(chain)]
    names = {
        info.base_name.removesuffix(".json")
        for info in listed(files, f"{root}/{SNAPSHOTS}")
        if info.base_name.endswith(".json")
    }
    for statement in chain.values():
        if statement.payload.get("accepted"):
            verdict.notes.append(f"{statement.where}: {statement.payload['accepted']!r}")
    for stated in last.payload["snapshots"]:
        name = stated["name"]
        names.discard(name)
        try:
            check_snapshot(files, root, stated)
        except FileNotFoundError as error:
            verdict.blame(f"snapshot {name} is not whole: {error}")
        except (Bad, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            verdict.blame(f"snapshot {name}: {error}")
    for name in sorted(names):
        verdict.notes.append(f"snapshot {name}: the last statement does not name it")


def check_snapshot(files: pyarrow.fs.FileSystem, root: str, stated: dict[str, Any]) -> None:
    """Read one snapshot: its own manifest, every part, and the file that they make."""
    name = stated["name"]
    content = read_file(files, f"{root}/{SNAPSHOTS}/{name}.json")
    if hashlib.sha256(content).hexdigest() != stated["manifest_sha256"]:
        raise Bad(f"{name}.json is another than the one that was signed")
    own = json.loads(content)
    whole, size = hashlib.sha256(), 0
    for part in own["parts"]:
        packed = read_file(files, f"{root}/{part['key']}")
        if hashlib.sha256(packed).hexdigest() != part["sha256"]:
            raise Bad(f"{part['key']} is another than the one that was signed")
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            while chunk := stream.read(1 << 22):
                whole.update(chunk)
                size += len(chunk)
    if (whole.hexdigest(), size) != (stated["sha256"], stated["size_bytes"]):
        raise Bad("its parts do not make the file that was signed")


# Files, parts and rows.


def open_place(location: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system, and the path in it."""
    if "://" in location:
        files, path = pyarrow.fs.FileSystem.from_uri(location)
        return files, path
    return pyarrow.fs.LocalFileSystem(), location.rstrip("/") or "/"


def read_file(files: pyarrow.fs.FileSystem, path: str) -> bytes:
    """All of a file, as it lies there: by itself Arrow would decompress by the name's ending."""
    with files.open_input_stream(path, compression=None) as source:
        content: bytes = source.read()
    return content


def listed(files: pyarrow.fs.FileSystem, path: str) -> list[pa.fs.FileInfo]:
    """What lies directly under `path`, sorted; nothing if there is no such folder."""
    found = files.get_file_info(pyarrow.fs.FileSelector(path, allow_not_found=True))
    return sorted(found, key=lambda info: info.path)


def product_folders(files: pyarrow.fs.FileSystem, root: str) -> Iterator[tuple[str, str, str]]:
    """(exchange, product, path) of every product that has a folder under `root`."""
    for exchange in subfolders(files, root, "exchange="):
        for product in subfolders(files, exchange.path, "product="):
            yield exchange.base_name[9:], product.base_name[8:], product.path


def subfolders(files: pyarrow.fs.FileSystem, path: str, prefix: str) -> list[pa.fs.FileInfo]:
    """The folders directly under `path` whose names begin with `prefix`, sorted."""
    folders = (f for f in listed(files, path) if f.type == pyarrow.fs.FileType.Directory)
    return [folder for folder in folders if folder.base_name.startswith(prefix)]


def check(
    files: pyarrow.fs.FileSystem, report: Report, path: str, against: Entries, *, quick: bool
) -> None:
    """Check the parts of one product, one part in memory at a time."""
    parts = visible_parts(files, path, report)
    report.parts = len(parts)
    report.answered, report.missing = cover(parts)
    total, seen_to = 0, 0
    recent: set[int] = set()
    for part in parts:
        try:
            table, footer = read_part(files, part, rows=not quick)
            if table is not None:
                total += check_rows(part, table, footer, against)
                ids = set(table["trade_id"].to_pylist())
                recent = {n for n in recent if n >= part.lo}
                report.duplicates += len(recent & ids)
                recent |= ids
        except (Bad, OSError, pa.ArrowException, ValueError) as error:
            report.unreadable.append(f"{part.name}: {error}")
            report.broken.append(part)
            continue
        if part.lo <= seen_to:
            report.overlaps.append(f"{part.name} begins before {seen_to}, where another ends")
        seen_to = max(seen_to, part.hi)
        report.footers[part.lo, part.hi] = footer
        report.rows += footer["rows"]
        report.absent_ids += part.hi - part.lo + 1 - footer["rows"]
        report.long_holes += footer["long_holes"]
        if footer["rows"]:
            report.widest_pages = max(report.widest_pages, (part.hi - part.lo + 1) // PAGE_IDS)
    if not quick:
        report.digest = f"{total % (1 << 128):032x}"


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


def check_rows(part: Part, table: pa.Table, footer: dict[str, Any], against: Entries) -> int:
    """Check the rows of one part, and take them for a manifest's; the sum of their hashes."""
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
        words = (
            *side_words(side),
            trade_id,
            time_us & WORD,
            *decimal_words(price),
            *decimal_words(size),
        )
        row_hash = mix(words, *HIGH) << 64 | mix(words, *LOW)
        total += row_hash
        against.add(trade_id, row_hash, f"{trade_id},{time_us},{price},{size},{side}\n".encode())
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


def many(count: int, one: str, more: str = "") -> str:
    """A count and its noun, which is plural with an s unless `more` says otherwise."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def show(report: Report) -> None:
    """Print a report for a person."""
    first, last = (report.answered[0][0], report.answered[-1][1]) if report.answered else (0, 0)
    verdict = "WRONG" if report.wrong else "incomplete" if report.missing else "ok"
    print(f"{report.exchange} {report.product}: {verdict}")
    parts, rows = many(report.parts, "part"), many(report.rows, "trade")
    print(f"  ids {first:,} to {last:,} in {parts}, {rows}")
    absent = many(report.absent_ids, "id")
    print(f"  absent at the exchange: {absent}, long holes: {report.long_holes}")
    print(f"  widest part with trades: {many(report.widest_pages, 'page')}")
    if report.digest:
        print(f"  content digest {report.digest}")
    if report.duplicates:
        twice = many(report.duplicates, "trade is", "trades are")
        print(f"  DUPLICATES {twice} in more than one part")
    for label in ("missing", "overlaps", "unreadable", "leftovers", "foreign"):
        for item in getattr(report, label):
            print(f"  {label}: {item}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
