"""`verify_evidence.py log`: streams, heads and proofs, by who has the documents alone."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import verify_evidence
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.tree.log_head import sign_head
from headrace.sot.tree.symbol_tree import SymbolTree
from tests.support.sot_chains import Chain

VECTORS = Path(__file__).parents[2] / "vectors" / "sot"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class World:
    """A log, the list of public keys, and the heads that an auditor took home."""

    folder: Path
    key: SigningKey = field(default_factory=SigningKey.make)
    heads: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = self.folder / "keys.json"
        listed = KeyList([PublicKey(self.key.public_key, "2026-03-01T00:00:00Z")])
        self.keys.write_text(json.dumps(listed.as_dict()))
        self.store = EmbeddedStore(self.folder / "log")
        self.chains = {
            symbol: Chain.claimed(self.store, symbol, first) for symbol, first in ((3, 1), (9, 500))
        }

    def grow(self, **records: int) -> None:
        for symbol, count in records.items():
            number = int(symbol.removeprefix("s"))
            self.store.commit([self.chains[number].batch(count, data=f"order {symbol}".encode())])

    def take_home(self) -> Path:
        head = sign_head(self.store, self.key, now=NOW + timedelta(days=len(self.heads)))
        path = self.folder / f"head-{len(self.heads)}.json"
        path.write_bytes(head.as_line())
        self.heads.append(path)
        return path

    def frames(self, symbol: int) -> list[bytes]:
        run, found = b"".join(block.frames for block in self.store.scan(symbol)), []
        while run:
            stop = 4 + int.from_bytes(run[:4], "little")
            found.append(run[:stop])
            run = run[stop:]
        return found

    def stream(self, *symbols: Iterable[bytes]) -> str:
        path = self.folder / "out.sot"
        chosen = symbols or [self.frames(symbol) for symbol in self.chains]
        frames = [frame for symbol in chosen for frame in symbol]
        path.write_bytes(b"HRSOTS" + struct.pack("<H", 1) + b"".join(frames))
        return str(path)


Verify = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def world(tmp_path: Path):
    world = World(tmp_path)
    world.grow(s3=40, s9=17)
    world.take_home()
    yield world
    world.store.close()


@pytest.fixture
def verify(world: World, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Runs the program with all heads; its exit code, and what it says is wrong or worth noting."""

    def run(*arguments: str, only: tuple[Path, ...] | None = None) -> tuple[int, list[str]]:
        held = [f"--held={path}" for path in (world.heads if only is None else only)]
        trust = [f"--keys={world.keys}", f"--trust={world.key.key_id}"]
        code = verify_evidence.main(["log", *arguments, *held, *trust])
        return code, [
            line for line in capsys.readouterr().out.splitlines() if not line.startswith("every")
        ]

    return run


def rewritten(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


def with_symbol(frame: bytes, symbol: int) -> bytes:
    return frame[:16] + struct.pack("<I", symbol) + frame[20:]


def test_a_stream_as_it_was_signed_at_every_head(world: World, verify: Verify) -> None:
    world.grow(s3=8)
    world.take_home()
    world.grow(s3=100, s9=15)
    world.take_home()
    assert verify(world.stream()) == (0, [])
    world.grow(s9=2)
    note = "note: symbol 9: no head states its last 2 records"
    assert verify(world.stream()) == (0, [note])


def test_an_anchor_is_a_file_of_heads(world: World, verify: Verify) -> None:
    world.grow(s3=8)
    world.take_home()
    stamp = {"authority": "http://127.0.0.1", "response": ""}
    lines = [{**json.loads(path.read_bytes()), "stamp": stamp} for path in world.heads]
    anchor = world.folder / "heads.jsonl"
    anchor.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, [note] = verify(world.stream(), only=(anchor,))
    assert (code, note.startswith("note: 2 heads bear time stamps")) == (0, True)
    code, [_, line] = verify(world.stream(world.frames(3)[:45], world.frames(9)), only=(anchor,))
    assert code == 1
    assert "symbol 3: 45 records are in" in line


def test_what_is_no_proof_is_named_for_what_it_is(world: World, verify: Verify) -> None:
    path = world.folder / "proof.json"
    for content, said in (({}, "it has no type"), ({"type": "other"}, "its type is 'other'")):
        path.write_text(json.dumps(content))
        code, [line] = verify(f"--proof={path}")
        assert code == 1
        assert line.endswith(f"it is no proof, as headrace sot prove writes one: {said}")


def test_one_record_is_singular(world: World, verify: Verify) -> None:
    world.grow(s9=1)
    assert verify(world.stream()) == (0, ["note: symbol 9: no head states its last record"])
    code, [line] = verify(world.stream(world.frames(3), world.frames(9)[:1]))
    assert code == 1
    assert "symbol 9: 1 record is in" in line


def test_a_record_was_rewritten_and_every_digest_after_it(world: World, verify: Verify) -> None:
    frames = world.frames(3)
    frames[4] = rewritten(frames[4])
    code, [line] = verify(world.stream(frames, world.frames(9)))
    assert code == 1
    assert line.startswith(
        "WRONG: symbol 3: its first 40 records are not those of the head of 2026"
    )


def test_the_end_was_cut(world: World, verify: Verify) -> None:
    code, [line] = verify(world.stream(world.frames(3)[:39], world.frames(9)))
    assert code == 1
    assert line.startswith("WRONG: symbol 3: 39 records are in ")
    assert line.endswith("has 40: its end was cut")


def test_a_symbol_was_dropped(world: World, verify: Verify) -> None:
    code, [line] = verify(world.stream(world.frames(3)))
    assert code == 1
    assert line.startswith("WRONG: symbol 9: 0 records are in ")
    assert line.endswith("has 17: it was dropped")


def test_two_symbols_were_exchanged(world: World, verify: Verify) -> None:
    low, high = world.frames(3), world.frames(9)
    exchanged = [with_symbol(each, 9) for each in low], [with_symbol(each, 3) for each in high]
    code, lines = verify(world.stream(*exchanged))
    assert code == 1
    assert {line.split(":")[1].strip() for line in lines if "WRONG" in line} == {
        "symbol 3",
        "symbol 9",
    }


def test_an_old_copy_was_put_back(world: World, verify: Verify) -> None:
    old = world.frames(3), world.frames(9)
    world.grow(s3=5)
    world.take_home()
    code, [line] = verify(world.stream(*old))
    assert code == 1
    assert "symbol 3: 40 records are in" in line


def test_a_stream_that_is_cut_within_a_record(world: World, verify: Verify) -> None:
    path = Path(world.stream())
    path.write_bytes(path.read_bytes()[:-5])
    code, lines = verify(str(path))
    assert code == 1
    assert "is cut off" in lines[0]
    assert verify(str(world.keys))[0] == 2


def test_a_record_was_taken_out(world: World, verify: Verify) -> None:
    frames = world.frames(3)
    code, [line] = verify(world.stream([*frames[:7], *frames[8:]]))
    assert (code, line) == (1, "WRONG: symbol 3: record 9 follows 7")


def test_heads_alone_say_what_shrank_or_was_rewritten(
    world: World, verify: Verify, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other", key=world.key)
    (tmp_path / "other" / "log" / "store.id").write_bytes(
        (tmp_path / "log" / "store.id").read_bytes()
    )
    other.store.close()
    other.store = EmbeddedStore(tmp_path / "other" / "log")
    other.grow(s3=39)
    other.heads = [tmp_path, tmp_path]
    later = other.take_home()
    other.grow(s3=1, s9=3)
    latest = other.take_home()
    other.store.close()
    code, lines = verify(only=(world.heads[0], later, latest))
    assert code == 1
    assert len([line for line in lines if line.startswith("WRONG: ")]) == 2
    assert "symbol 3 has 40 records in the head of 2026-03-01" in lines[-2] + lines[-1]
    assert "its end was cut" in lines[-2] + lines[-1]
    assert "symbol 9 is in the head of 2026-03-01" in lines[-2] + lines[-1]
    world.grow(s3=1)


def test_growth_between_heads_needs_a_proof_or_the_stream(
    world: World, verify: Verify, tmp_path: Path
) -> None:
    world.grow(s3=60)
    world.take_home()
    code, [line] = verify()
    assert code == 0
    assert line.startswith("note: symbol 3: nothing was given that proves that its 100 records in")
    proof = SymbolTree(world.store, 3).consistency(40, 100).as_dict()
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(proof))
    assert verify(f"--proof={path}") == (0, [])
    path.write_text(json.dumps({**proof, "from_root": base64.b64encode(bytes(32)).decode()}))
    code, lines = verify(f"--proof={path}")
    assert code == 1
    assert "the smaller tree is not the beginning of the larger one" in lines[-1]


def test_a_head_whose_symbols_were_changed(world: World, verify: Verify) -> None:
    head = json.loads(world.heads[0].read_bytes())
    for change, said in (
        ({"symbols": head["symbols"][:1]}, "not as many as were signed"),
        ({"symbols": [{**head["symbols"][0], "size": "41"}, head["symbols"][1]]}, "not over the"),
        ({"head": {**head["head"], "key_id": "ab" * 16}}, "which is not trusted"),
    ):
        world.heads[0].write_text(json.dumps({**head, **change}))
        code, lines = verify(world.stream())
        assert code == 1
        assert any(said in line for line in lines)


def vectors() -> Any:
    return json.loads((VECTORS / "tree.json").read_text())


def proven(record: int = 116) -> dict[str, Any]:
    """The proof of a record against the signed head, as `headrace sot prove --head` prints it."""
    known = vectors()
    frames = bytes.fromhex(known["frames"])
    for _ in range(record - 100):
        frames = frames[4 + int.from_bytes(frames[:4], "little") :]
    frame = frames[: 4 + int.from_bytes(frames[:4], "little")]
    proof = next(
        each for each in known["inclusion"] if each["seq"] == str(record) and each["size"] == "40"
    )
    path = b"".join(map(bytes.fromhex, known["head_path"]))
    return {
        **proof,
        "record": base64.b64encode(frame).decode(),
        "head": known["log_head"]["head"],
        "head_index": known["head_index"],
        "head_path": base64.b64encode(path).decode(),
    }


def flipped(text: str) -> str:
    content = bytearray(base64.b64decode(text))
    content[-1] ^= 1
    return base64.b64encode(content).decode()


SPOILT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "another record": lambda proof: {"record": flipped(proof["record"])},
    "another place": lambda proof: {"seq": "117"},
    "another digest before": lambda proof: {"before": flipped(proof["before"])},
    "another leaf": lambda proof: {"digests": flipped(proof["digests"])},
    "a path that is cut": lambda proof: {"path": proof["path"][:-44]},
    "a path that is too long": lambda proof: {
        "path": base64.b64encode(base64.b64decode(proof["path"]) + bytes(32)).decode()
    },
    "another root": lambda proof: {"root": flipped(proof["root"])},
    "another size": lambda proof: {"size": "39"},
    "another symbol": lambda proof: {"symbol": 8},
    "another place in the head": lambda proof: {"head_index": 2},
    "another path in the head": lambda proof: {"head_path": flipped(proof["head_path"])},
    "no record": lambda proof: {"record": None},
    "another type": lambda proof: {"type": "headrace.sot.inclusion.v2"},
}


@pytest.mark.parametrize("kind", ["", *SPOILT])
def test_a_record_is_proven_and_spoilt_proofs_are_not(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, path = tmp_path / "keys.json", tmp_path / "proof.json"
    known = vectors()["keys"]
    keys.write_text(json.dumps(known))
    proof = proven()
    proof |= SPOILT[kind](proof) if kind else {}
    path.write_text(json.dumps({name: value for name, value in proof.items() if value is not None}))
    trust = ["--keys", str(keys), "--trust", known["keys"][0]["key_id"]]
    code = verify_evidence.main(["log", "--proof", str(path), *trust])
    out = capsys.readouterr().out
    assert code == (1 if kind else 0), out
    assert out.startswith(f"WRONG: {path}: " if kind else "everything is")


def test_proofs_of_growth_in_the_vectors_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = vectors()
    keys, path = tmp_path / "keys.json", tmp_path / "proofs.json"
    keys.write_text(json.dumps(known["keys"]))
    path.write_text("".join(json.dumps(each) + "\n" for each in known["consistency"]))
    trust = ["--keys", str(keys), "--trust", known["keys"]["keys"][0]["key_id"]]
    assert verify_evidence.main(["log", "--proof", str(path), *trust]) == 0
    path.write_text(
        "".join(
            json.dumps({**each, "to_root": flipped(each["to_root"])}) + "\n"
            for each in known["consistency"]
        )
    )
    assert verify_evidence.main(["log", "--proof", str(path), *trust]) == 1
    wrong = capsys.readouterr().out.count("WRONG: ")
    assert wrong == len(known["consistency"])
