"""The two chains of a symbol: the engine's 64-bit hash, and our 256-bit digest.

Both are defined per record, so that it does not matter how records were cut into batches, and by
which store. With `frame` = u32 length, then the body (`headrace.sot.encoding`):

    hash[n]   = xxh3_64(body[n] without its first 8 bytes, which hold the hash)   (hash version 1)
    digest[n] = SHA-256(digest[n-1] || frame[n]),   digest before the first: `genesis`

`follow` is the one loop that checks records, whether they are about to be written or were read
back: framing, canonical form, symbol, sequence, link and hash. It runs for every record, at some
2 microseconds each; that is why it is one function, on raw bytes, and free of objects.

`link` and `link_run` chain a stream that its engine did not chain, with hashes of version 1.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec
from xxhash import xxh3_64_intdigest

from headrace.sot.encoding import (
    BALANCE_EVENT,
    COMPLETION,
    ENCODING_VERSION,
    FRAME_HEADER,
    HASH_BYTES,
    HEADER,
    LENGTH_BYTES,
    MIN_FRAME_BYTES,
    ORDER_UPDATE,
    PLACEMENT,
    TRADE,
    check_body,
)
from headrace.sot.exceptions import (
    ChainError,
    ForkError,
    GapError,
    MalformedRecord,
    WrongHash,
    WrongLink,
)
from headrace.sot.frames import end_of_frame
from headrace.sot.record import HASH_XXH3_V1, U64_MAX

DIGEST_BYTES: Final = 32
#: What the first record of a symbol carries as `prev_hash`.
GENESIS_HASH: Final = 0
DEFAULT_FIRST_SEQ: Final = 1
_GENESIS_DOMAIN: Final = b"headrace sot v1\0"


@dataclass(frozen=True, slots=True)
class Position:
    """A point between two records of a symbol's chain: all before it is known by two hashes.

    Attributes:
        next_seq: the sequence that comes next, 0 to 2**64 (the last means that the chain is full).
        hash: the engine's hash of the record before it; what the next one must name.
        digest: our 256-bit digest over everything before it, 32 bytes.
    """

    next_seq: int
    hash: int
    digest: bytes

    @property
    def last_seq(self) -> int | None:
        """The sequence just before, None before 0."""
        return self.next_seq - 1 if self.next_seq else None

    @property
    def full(self) -> bool:
        """Whether no sequence is left."""
        return self.next_seq > U64_MAX


class SentPosition(msgspec.Struct, frozen=True, array_like=True):
    """A position between processes; its sequence is text, since it may be 2**64."""

    next_seq: str
    hash: int
    digest: bytes

    @classmethod
    def of(cls, position: Position) -> SentPosition:
        """The form in which a position is sent."""
        return cls(str(position.next_seq), position.hash, position.digest)

    @property
    def position(self) -> Position:
        """The position again."""
        return Position(int(self.next_seq), self.hash, self.digest)


def genesis(symbol_id: int, first_seq: int = DEFAULT_FIRST_SEQ) -> Position:
    """The position before the first record of a symbol.

    Its digest is SHA-256 over the domain, the symbol (u32) and the first sequence (u64), little
    endian: chains of two symbols, or chains that begin elsewhere, never share a digest.
    """
    start = symbol_id.to_bytes(4, "little") + first_seq.to_bytes(8, "little")
    digest = hashlib.sha256(_GENESIS_DOMAIN + start).digest()
    return Position(first_seq, GENESIS_HASH, digest)


_UPDATE: Final = ORDER_UPDATE.size
_TRADE: Final = TRADE.size
_BALANCE: Final = BALANCE_EVENT.size
_PLACEMENT: Final = PLACEMENT.size
_COMPLETION: Final = COMPLETION.size
_HEADER: Final = HEADER.size
#: From the beginning of a frame to the first byte that the hash covers.
_HASHED_FROM: Final = LENGTH_BYTES + HASH_BYTES
_FIXED: Final = LENGTH_BYTES + _HEADER
#: Symbol of the order update and of the first trade, from the beginning of a frame.
_UPDATE_SYMBOL: Final = _FIXED + 16
_TRADE_SYMBOL: Final = _FIXED + 8


@dataclass(frozen=True, slots=True)
class FollowResult:
    """How far a run continues a chain.

    Attributes:
        position: the chain's end after the records that do.
        offset: where the first frame begins that does not, or the run's length.
        digests: behind each record that does, one after the other.
        error: why it does not: a `ChainError`, or a `MalformedRecord` if it is no record at all;
            None at the end of the run or of what was asked for, and where the frame is another
            symbol's.
    """

    position: Position
    offset: int
    digests: bytes
    error: ChainError | MalformedRecord | None = None


def follow(
    run: bytes,
    offset: int,
    symbol_id: int,
    position: Position,
    *,
    max_records: int = U64_MAX,
    max_bytes: int = U64_MAX,
) -> FollowResult:
    """Check frame after frame against the chain of `symbol_id`, until one does not continue it.

    Args:
        run: frames.
        offset: where to begin in it.
        symbol_id: whose chain it is.
        position: where the chain ends.
        max_records, max_bytes: stop behind so many records, or behind the one that reaches so many
            bytes; `error` is None then.
    """
    expected = position.next_seq
    previous = position.hash
    digest = position.digest
    size = len(run)
    unpack = FRAME_HEADER.unpack_from
    sha256 = hashlib.sha256
    from_bytes = int.from_bytes
    digests: list[bytes] = []
    append = digests.append
    start = offset
    last = expected + max_records
    until = min(size - MIN_FRAME_BYTES + 1, offset + max_bytes)
    while offset < until and expected < last:
        (length, hash_, version, hash_version, has_update, symbol, seq, prev_hash, input_symbol,
         data, trades, balances, placements, completions) = unpack(run, offset)  # fmt: skip
        stop = offset + LENGTH_BYTES + length
        if symbol != symbol_id or seq != expected or prev_hash != previous:
            break
        rest = (
            length
            - _HEADER
            - data
            - trades * _TRADE
            - balances * _BALANCE
            - placements * _PLACEMENT
            - completions * _COMPLETION
        )
        if has_update:
            rest -= _UPDATE
            at = offset + (_TRADE_SYMBOL + _UPDATE if trades else _UPDATE_SYMBOL)
            content_symbol = from_bytes(run[at : at + 4], "little")
        elif trades:
            at = offset + _TRADE_SYMBOL
            content_symbol = from_bytes(run[at : at + 4], "little")
        else:
            content_symbol = input_symbol
        if (
            stop > size
            or version != ENCODING_VERSION
            or has_update > 1
            or content_symbol != symbol_id
            or rest < 0
        ):
            break
        # What is left are the texts, one per order: each with its length, in UTF-8.
        at = stop - rest
        texts = has_update + placements
        while texts:
            if rest < 2:
                break
            begin = at + 2
            at = begin + run[at] + (run[at + 1] << 8)
            rest = stop - at
            if rest < 0:
                break
            text = run[begin:at]
            if not text.isascii() and not _is_utf8(text):
                break
            texts -= 1
        if texts or rest:
            break
        if (
            hash_version == HASH_XXH3_V1
            and xxh3_64_intdigest(run[offset + _HASHED_FROM : stop]) != hash_
        ):
            break
        digest = sha256(digest + run[offset:stop]).digest()
        append(digest)
        previous = hash_
        expected += 1
        offset = stop
    reached = Position(expected, previous, digest)
    if offset == size or expected >= last or offset >= start + max_bytes:
        return FollowResult(reached, offset, b"".join(digests))
    return FollowResult(reached, offset, b"".join(digests), _why(run, offset, symbol_id, reached))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _why(
    run: bytes, offset: int, symbol_id: int, position: Position
) -> ChainError | MalformedRecord | None:
    """What is wrong with the frame at `offset`; the slow twin of the loop above."""
    try:
        stop = end_of_frame(run, offset)
        if stop is None:
            left = len(run) - offset
            return MalformedRecord("", f"the frame is cut off, {left} bytes are left")
        check_body(run[offset + LENGTH_BYTES : stop])
    except MalformedRecord as error:
        return error
    _, hash_, _, hash_version, _, symbol, seq, prev_hash, *_ = FRAME_HEADER.unpack_from(run, offset)
    if symbol != symbol_id:
        return None
    if hash_version == HASH_XXH3_V1:
        computed = xxh3_64_intdigest(run[offset + _HASHED_FROM : stop])
        if computed != hash_:
            return WrongHash(
                symbol, seq, f"its hash is {hash_:016x}, its content has {computed:016x}"
            )
    reason = why_not_next(symbol, seq, prev_hash, position)
    if reason is None:
        raise RuntimeError(f"symbol {symbol}, seq {seq}: the two checks of a record disagree")
    return reason


def why_not_next(symbol_id: int, seq: int, prev_hash: int, position: Position) -> ChainError | None:
    """Why a sound record does not come next, None if it does.

    A sequence before `position` gives a `ForkError`; whether it is the identical duplicate only
    the store can show.
    """
    if seq < position.next_seq:
        return ForkError(symbol_id, seq, f"the chain already goes to seq {position.next_seq - 1}")
    if seq > position.next_seq:
        return GapError(symbol_id, seq, position.next_seq)
    if prev_hash != position.hash:
        return WrongLink(
            symbol_id,
            seq,
            f"prev_hash is {prev_hash:016x}, the record before it has {position.hash:016x}",
        )
    return None


_VERSION: Final = slice(12, 13)
_UP_TO_PREV: Final = slice(14, 28)
_BEHIND_PREV: Final = 36
_HASH_VERSION: Final = bytes([HASH_XXH3_V1])


def link(frame: bytes, prev_hash: int) -> tuple[bytes, int]:
    """The frame with its links filled in, and its hash.

    Args:
        frame: one whole frame; what it has as hash, hash version and prev_hash is replaced.
        prev_hash: hash of the symbol's record before it.
    """
    covered = b"".join(
        (
            frame[_VERSION],
            _HASH_VERSION,
            frame[_UP_TO_PREV],
            prev_hash.to_bytes(8, "little"),
            frame[_BEHIND_PREV:],
        )
    )
    hash_: int = xxh3_64_intdigest(covered)
    return b"".join((frame[:LENGTH_BYTES], hash_.to_bytes(8, "little"), covered)), hash_


def link_run(
    run: bytes, offset: int, symbol_id: int, position: Position, max_records: int
) -> bytes:
    """Link the frames at `offset` that are next in the chain of `symbol_id`.

    A frame keeps its length, so that offsets into the result are offsets into `run`.

    Args:
        run: frames as they came.
        offset: where to begin in it.
        symbol_id: whose chain it is.
        position: where the chain ends.
        max_records: link so many at most.

    Returns:
        The linked frames, up to the first that is not next, not whole, or carries a hash already.
    """
    expected, prev_hash = position.next_seq, position.hash
    linked: list[bytes] = []
    while len(run) - offset >= MIN_FRAME_BYTES and len(linked) < max_records:
        length, given, _, _, _, symbol, seq, prev, *_ = FRAME_HEADER.unpack_from(run, offset)
        stop = offset + LENGTH_BYTES + length
        if symbol != symbol_id or seq != expected or stop > len(run) or given or prev:
            break
        frame, prev_hash = link(run[offset:stop], prev_hash)
        linked.append(frame)
        expected += 1
        offset = stop
    return b"".join(linked)
