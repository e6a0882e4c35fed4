"""The vectors hold, by our code and by a second implementation written from the documentation."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from support.sot_vectors import FOLDER, files, textual
from xxhash import xxh3_64_intdigest

from headrace.sot.encoding import decode
from headrace.sot.exceptions import MalformedRecord
from headrace.sot.frames import frame

RECORDS = json.loads((FOLDER / "records.json").read_text())
CHAIN = json.loads((FOLDER / "chain.json").read_text())
MALFORMED = json.loads((FOLDER / "malformed.json").read_text())

U8, U16, U32, U64 = 1, 2, 4, 8
#: Widths in the order of docs/sot-format.md; a minus sign marks a signed value.
ORDER_UPDATE = {"order_id": U64, "user_id": U64, "symbol_id": U32, "side": U8, "kind": U8,
                "status": U8, "price": U64, "quantity": U64, "filled": U64}  # fmt: skip
TRADE = {"trade_id": U64, "symbol_id": U32, "taker_side": U8, "price": U64, "quantity": U64,
         "maker_order_id": U64, "taker_order_id": U64, "maker_user_id": U64,
         "taker_user_id": U64}  # fmt: skip
BALANCE = {"user_id": U64, "asset_id": U32, "kind": U8, "delta": -U64, "available": U64,
           "frozen": U64}  # fmt: skip
PLACEMENT = {"order_id": U64, "user_id": U64, "symbol_id": U32, "side": U8, "kind": U8,
             "price": U64, "quantity": U64}  # fmt: skip
COMPLETION = {"order_id": U64, "user_id": U64, "symbol_id": U32, "reason": U8, "filled": U64}


def number(text: str, width: int) -> bytes:
    return int(text).to_bytes(abs(width), "little", signed=width < 0)


def fields(item: dict[str, str], layout: dict[str, int]) -> bytes:
    return b"".join(number(item[name], width) for name, width in layout.items())


def text(content: str) -> bytes:
    encoded = content.encode()
    return len(encoded).to_bytes(2, "little") + encoded


def by_the_book(record: dict[str, Any]) -> bytes:
    """docs/sot-format.md, sentence by sentence."""
    given, update = record["input"], record["order_update"]
    data = bytes.fromhex(given["data"])
    lists = ("trades", "balance_events", "order_placements", "order_completions")
    return b"".join(
        [
            number(record["hash"], U64),
            number("1", U8),
            number(record["hash_version"], U8),
            number("0" if update is None else "1", U16),
            number(record["symbol_id"], U32),
            number(record["output_seq"], U64),
            number(record["prev_hash"], U64),
            number(given["input_seq"], U64),
            number(given["crc"], U32),
            number(given["symbol_id"], U32),
            number(str(len(data)), U32),
            *(number(str(len(record[name])), U32) for name in lists),
            b"" if update is None else fields(update, ORDER_UPDATE),
            *(fields(trade, TRADE) for trade in record["trades"]),
            *(fields(event, BALANCE) for event in record["balance_events"]),
            *(fields(order, PLACEMENT) for order in record["order_placements"]),
            *(fields(done, COMPLETION) for done in record["order_completions"]),
            data,
            b"" if update is None else text(update["client_order_id"]),
            *(text(order["client_order_id"]) for order in record["order_placements"]),
        ]
    )


@pytest.mark.parametrize("vector", RECORDS, ids=lambda vector: vector["name"])
def test_a_record_and_its_body(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["body"])
    assert by_the_book(vector["record"]) == body
    assert textual(decode(body)) == vector["record"]
    assert str(xxh3_64_intdigest(body[8:])) == vector["xxh3_64_behind_the_hash"]


def test_a_chain() -> None:
    hash_, digest = "0", bytes.fromhex(CHAIN["genesis"][1]["digest"])
    stream = b"HRSOTS\x01\x00"
    for link in CHAIN["links"]:
        body = by_the_book(link["record"])
        framed = len(body).to_bytes(4, "little") + body
        assert framed == bytes.fromhex(link["frame"]) == frame(body)
        assert link["record"]["prev_hash"] == hash_
        hash_ = str(xxh3_64_intdigest(body[8:]))
        digest = hashlib.sha256(digest + framed).digest()
        assert (link["hash"], link["record"]["hash"], link["digest"]) == (
            hash_,
            hash_,
            digest.hex(),
        )
        stream += framed
    assert stream.hex() == CHAIN["stream"]


@pytest.mark.parametrize("start", CHAIN["genesis"])
def test_where_a_chain_begins(start: dict[str, str]) -> None:
    content = b"headrace sot v1\0" + number(start["symbol_id"], 4) + number(start["first_seq"], 8)
    assert hashlib.sha256(content).hexdigest() == start["digest"]


@pytest.mark.parametrize("vector", MALFORMED, ids=lambda vector: vector["name"])
def test_what_is_malformed_is_refused(vector: dict[str, str]) -> None:
    with pytest.raises(MalformedRecord) as raised:
        decode(bytes.fromhex(vector["body"]))
    assert raised.value.field == vector["field"]


def test_the_files_are_what_the_code_makes(tmp_path: Path) -> None:
    assert set(files()) == {path.name for path in FOLDER.iterdir()}
    for name, content in files().items():
        made = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        assert (FOLDER / name).read_text() == made
