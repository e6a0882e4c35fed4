"""Chains of records for tests of stores: small, valid, and as odd as needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.sot.chain import Position, follow, genesis, link
from headrace.sot.encoding import encode
from headrace.sot.frames import frame
from headrace.sot.record import HASH_CARRIED, HASH_XXH3_V1, Input, Record
from headrace.sot.store import Answer, Batch, Head, SotStore


@dataclass
class Chain:
    """One symbol's engine: every call to `batch` produces its next records."""

    symbol_id: int
    position: Position
    epoch: int = 1
    frames: bytes = b""
    input_seq: int = field(default=0)

    @classmethod
    def claimed(cls, store: SotStore, symbol_id: int, first_seq: int = 1) -> Chain:
        """A chain whose symbol was claimed just now."""
        return cls.at(store.claim(symbol_id, first_seq=first_seq))

    @classmethod
    def at(cls, head: Head) -> Chain:
        """A chain that goes on from a head."""
        return cls(head.symbol_id, head.position, head.epoch)

    def batch(
        self,
        count: int = 1,
        *,
        data: bytes = b"order",
        hashes: Iterable[int] = (),
        input_seqs: Iterable[int] = (),
    ) -> Batch:
        """The next records as one batch. `hashes` are carried instead of computed."""
        before = self.position
        carried, given = iter(hashes), iter(input_seqs)
        run = b""
        position = before
        for _ in range(count):
            self.input_seq = next(given, self.input_seq + 1)
            hash_ = next(carried, None)
            record = Record(
                output_seq=position.next_seq,
                symbol_id=self.symbol_id,
                prev_hash=position.hash,
                hash=hash_ or 0,
                hash_version=HASH_XXH3_V1 if hash_ is None else HASH_CARRIED,
                input=Input(self.input_seq, 0, self.symbol_id, data),
            )
            framed = frame(encode(record))
            if hash_ is None:
                framed, _ = link(framed, position.hash)
            followed = follow(framed, 0, self.symbol_id, position)
            assert followed.error is None, followed.error
            position = followed.position
            run += framed
        self.position = position
        self.frames += run
        return Batch(self.symbol_id, self.epoch, before, position, run)

    def write(self, store: SotStore, count: int = 1, **kind: object) -> Batch:
        """Make the next batch and store it."""
        batch = self.batch(count, **kind)  # type: ignore[arg-type]
        (outcome,) = store.commit([batch])
        assert outcome.answer is Answer.COMMITTED, outcome
        return batch


def fresh_chain(symbol_id: int, first_seq: int = 1) -> Chain:
    """A chain that no store knows."""
    return Chain(symbol_id, genesis(symbol_id, first_seq))


def stored_frames(store: SotStore, symbol_id: int, **span: int) -> bytes:
    """All frames of a scan, which must be without gaps."""
    run, expected = b"", None
    for block in store.scan(symbol_id, **span):
        assert expected is None or block.first_seq == expected
        expected = block.first_seq + block.count
        run += block.frames
    return run
