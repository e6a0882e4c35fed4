"""`python tests/support/sot_vectors.py`: writes tests/vectors/sot again.

The vectors are what another language is tested against, so they change only with the version of
the encoding. Integers are text in them: JSON readers of some languages round those from 2**53 on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from headrace.sot.chain import follow, genesis
from headrace.sot.encoding import check_body, encode
from headrace.sot.exceptions import MalformedRecord
from headrace.sot.frames import STREAM_MAGIC, frame
from headrace.sot.record import (
    HASH_CARRIED,
    BalanceEvent,
    Input,
    OrderCompletion,
    OrderPlacement,
    OrderUpdate,
    Record,
    Trade,
)
from tests.support.tree_vectors import make_tree

FOLDER = Path(__file__).parent.parent / "vectors" / "sot"
TOP = 2**64 - 1

UPDATE = OrderUpdate(71, 8, 5, 0, 1, 2, 6_512_345, 100, 40, "c-1")
TRADE = Trade(900, 5, 1, 6_512_345, 40, 70, 71, 9, 8)
BALANCES = (BalanceEvent(8, 1, 2, -40, 960, 60), BalanceEvent(9, 2, 2, 40, 40, 0))


def records() -> list[tuple[str, Record]]:
    """Single records: the smallest, each part alone, everything at once, the ends of the ranges."""

    def one(**parts: Any) -> Record:
        fields: dict[str, Any] = {
            "output_seq": 1,
            "symbol_id": 5,
            "prev_hash": 0,
            "hash": 0,
            "input": Input(1, 0, 5, b""),
        }
        return Record(**{**fields, **parts})

    return [
        ("nothing but an input", one()),
        ("a system record", one(symbol_id=0, input=Input(2, 7, 0, b"heartbeat"))),
        ("an order update", one(order_update=UPDATE)),
        ("a trade decides the symbol", one(input=Input(3, 0, 4, b"x"), trades=(TRADE,))),
        (
            "everything",
            one(
                output_seq=2,
                prev_hash=0x0123456789ABCDEF,
                input=Input(4, 0xDEADBEEF, 6, b"\x00\x01\xff"),
                order_update=UPDATE,
                trades=(TRADE, msgspec.structs.replace(TRADE, trade_id=901, symbol_id=6)),
                balance_events=BALANCES,
                order_placements=(OrderPlacement(72, 8, 5, 1, 0, 6_600_000, 3, "größe ид 🛶"),),
                order_completions=(OrderCompletion(70, 9, 5, 1, 40),),
            ),
        ),
        (
            "the ends of the ranges",
            one(
                output_seq=TOP,
                symbol_id=2**32 - 1,
                prev_hash=TOP,
                hash=TOP,
                hash_version=HASH_CARRIED,
                input=Input(TOP, 2**32 - 1, 2**32 - 1, b"\xff" * 3),
                balance_events=(
                    BalanceEvent(TOP, 2**32 - 1, 255, -(2**63), TOP, 2**63),
                    BalanceEvent(0, 0, 0, 2**63 - 1, 2**63 - 1, 0),
                ),
            ),
        ),
    ]


def chain() -> list[Record]:
    """Five records of symbol 5; their hashes are filled in by the caller."""
    return [
        Record(
            output_seq=seq,
            symbol_id=5,
            prev_hash=0,
            hash=0,
            input=Input(10 + seq, seq, 5, b"order %d" % seq),
            order_update=UPDATE if seq % 2 else None,
            balance_events=BALANCES[: seq % 3],
        )
        for seq in range(1, 6)
    ]


def textual(value: Any) -> Any:
    """Integers as text, bytes as hexadecimal digits."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: textual(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [textual(inner) for inner in value]
    return textual({name: getattr(value, name) for name in value.__struct_fields__})


def hashed(record: Record) -> Record:
    """The record with its hash of version 1."""
    return msgspec.structs.replace(record, hash=xxh3_64_intdigest(encode(record)[8:]))


def make_records() -> list[dict[str, Any]]:
    made = []
    for name, record in records():
        whole = record if record.hash_version == HASH_CARRIED else hashed(record)
        body = encode(whole)
        made.append(
            {"name": name, "record": textual(whole), "body": body.hex(),
             "xxh3_64_behind_the_hash": str(xxh3_64_intdigest(body[8:]))}
        )  # fmt: skip
    return made


def make_chain() -> dict[str, Any]:
    position = genesis(5)
    stream = STREAM_MAGIC
    links = []
    for record in chain():
        linked = hashed(msgspec.structs.replace(record, prev_hash=position.hash))
        framed = frame(encode(linked))
        followed = follow(framed, 0, 5, position)
        assert followed.error is None
        position = followed.position
        stream += framed
        links.append(
            {"record": textual(linked), "frame": framed.hex(), "hash": str(position.hash),
             "digest": position.digest.hex()}
        )  # fmt: skip
    starts = [
        {"symbol_id": str(symbol), "first_seq": str(first),
         "digest": genesis(symbol, first).digest.hex()}
        for symbol, first in ((0, 1), (5, 1), (5, 0), (2**32 - 1, TOP))
    ]  # fmt: skip
    return {"genesis": starts, "symbol_id": "5", "first_seq": "1", "links": links,
            "stream": stream.hex()}  # fmt: skip


def make_malformed() -> list[dict[str, str]]:
    """Bodies that no reader may accept, and the field that is wrong."""
    body = encode(hashed(records()[4][1]))
    corrupt = {
        "another encoding version": (8, 2),
        "neither with nor without an order update": (10, 2),
        "a symbol that is not the first trade's": (12, 9),
        "more trades than there is room for": (52, 200),
        "fewer trades than there are": (52, 1),
        "text that is not UTF-8": (len(body) - 2, 0xC0),
    }
    made = []
    for name, (at, value) in corrupt.items():
        changed = body[:at] + bytes([value]) + body[at + 1 :]
        made.append({"name": name, "body": changed.hex(), "field": field_of(changed)})
    for name, changed in (("cut off", body[:-1]), ("a byte too many", body + b"\0")):
        made.append({"name": name, "body": changed.hex(), "field": field_of(changed)})
    return made


def field_of(body: bytes) -> str:
    """The field that is named."""
    try:
        check_body(body)
    except MalformedRecord as error:
        return error.field
    raise AssertionError("it was accepted")


def files() -> dict[str, Any]:
    """Every file of the folder."""
    return {
        "records.json": make_records(),
        "chain.json": make_chain(),
        "malformed.json": make_malformed(),
        "tree.json": make_tree(),
    }


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file_name, content in files().items():
        (FOLDER / file_name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
