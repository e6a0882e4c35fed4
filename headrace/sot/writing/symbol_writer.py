"""One symbol's writer: what comes next is linked, the rest is compared, held or parked.

It has two positions: where the store's chain ends (`stored`), and where it will end once everything
linked so far is committed (`position`). What lies between is `pending`. If the store's chain turns
out to end elsewhere, the writer resumes there and takes the same records again: a duplicate is a
no-op, so that is always safe.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.amounts import counted
from headrace.errors import HeadraceError
from headrace.sot.chain import Position, follow, genesis, link, link_run, why_not_next
from headrace.sot.encoding import FRAME_HEADER, LENGTH_BYTES, PREV_HASH
from headrace.sot.exceptions import ChainError, ForkError, GapError, WrongHash
from headrace.sot.frames import RunIndex, frame
from headrace.sot.store import Batch, BatchLimits, Head, Parked, SotStore
from headrace.sot.tree.tiles import TileWriter
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.pending import Pending, Piece, SymbolParking, best_first
from headrace.sot.writing.stats import Problem, Problems

#: Parked records linked at once: the store removes them before more are.
_SLICE: Final = 2000


class SymbolWriter:
    """Links the records of one symbol.

    Args:
        head: as the claim gave it.
        store: to look up what a repeated record has to be equal to.
        options: of the write.
        problems: get what does not fit.
        parking: the symbol's parked records; read from the store if left out.

    Attributes:
        pending: linked, and not stored.
        duplicates, refused: records that were stored already; that were neither stored nor parked.
        attempts: in a row at the batch in flight that got no answer.
        blocked: why nothing more is written to it; "" while all is well.
    """

    def __init__(
        self,
        head: Head,
        store: SotStore,
        options: WriteOptions,
        problems: Problems,
        parking: SymbolParking | None = None,
    ) -> None:
        self.symbol_id = head.symbol_id
        self.epoch = head.epoch
        self.stored = head.position
        self.position = head.position
        self.held_bytes = 0
        self.duplicates = 0
        self.refused = 0
        self.attempts = 0
        self.blocked = ""
        self._first_seq = head.first_seq
        self._tiles = TileWriter(store, head.symbol_id, head.first_seq, head.position.next_seq)
        self._store = store
        self._limits = _limits(store.limits, options)
        self.pending = Pending(head.symbol_id, self._limits)
        self._options = options
        self._problems = problems
        self._parking = parking or SymbolParking.loaded(
            store, head.symbol_id, options.parked_records
        )
        self._held: dict[int, list[bytes]] = {}
        self._known: RunIndex | None = None

    @classmethod
    def refusing(
        cls, symbol_id: int, store: SotStore, options: WriteOptions, problems: Problems
    ) -> SymbolWriter:
        """A writer for a symbol that could not be claimed; block it before it gets records."""
        head = Head(symbol_id, 0, options.first_seq, genesis(symbol_id, options.first_seq))
        return cls(head, store, options, problems, SymbolParking(store, symbol_id, 0))

    @property
    def parked(self) -> int:
        """Records that are parked, and those that will be at the end."""
        return self._parking.count + sum(map(len, self._held.values()))

    def take(self, run: bytes, arrived_s: float) -> None:
        """Link, compare, hold, park or refuse every record of a run of this symbol's frames.

        Raises:
            DamagedLog, StoreUnavailable: a record had to be compared with one that the store does
                not give.
        """
        if self.blocked:
            self.refused += _count(run)
            return
        offset = 0
        while offset < len(run):
            length, _, _, _, _, _, seq, *_ = FRAME_HEADER.unpack_from(run, offset)
            stop = offset + LENGTH_BYTES + length
            if seq < self.position.next_seq:
                offset += self._compare_known(run, offset, stop, seq)
                continue
            linked, error = self._append(run, offset, arrived_s)
            if not linked:
                self._hold_or_refuse(run[offset + LENGTH_BYTES : stop], seq, error)
                linked = stop - offset
            elif self._held:
                self._link_held(arrived_s)
            offset += linked
        self._link_parked(arrived_s)

    def next_batches(self) -> list[Batch]:
        """What to commit next, within the store's limits; nothing while a commit is under way."""
        return self.pending.send(self.epoch)

    def committed(self, now_s: float) -> list[Piece]:
        """The first batch in flight is stored; returns its pieces."""
        flight = self.pending.committed()
        self.stored = flight.batch.after
        self.attempts = 0
        for piece in flight.pieces:
            self._tiles.add(piece.before.next_seq, piece.digests)
        if self._parking.linked:
            self._parking.release(self.stored.next_seq)
            self._link_parked(now_s)
        return flight.pieces

    def resume_at(self, head: Head) -> None:
        """The store's chain ends at `head`: take everything that is not committed again."""
        pieces = self.pending.withdraw()
        self.stored = self.position = head.position
        self._known = None
        for piece in pieces:
            self.take(piece.run, piece.arrived_s)

    def block(self, kind: str, message: str) -> None:
        """Write nothing more: what is pending is refused, the store keeps what it has."""
        lost = self.pending.records + sum(map(len, self._held.values()))
        self.blocked = message
        self._report(kind, self.stored.next_seq, message, records=max(lost, 1))
        self.refused += lost
        self.pending.withdraw()
        self._held.clear()
        self.held_bytes = 0

    def park_held(self) -> None:
        """Move what waits for a predecessor from memory into the store."""
        for seq, bodies in sorted(self._held.items()):
            for body in bodies:
                self._park(seq, body, "gap")
        self._parking.flush()
        self._held.clear()
        self.held_bytes = 0

    def finish(self) -> None:
        """The stream is over: park what is held, and name what is missing."""
        if self.blocked:
            return
        self.park_held()
        self._parking.flush()
        waiting, there = [], 0
        for parked in self._store.parked(self.symbol_id):
            there += 1
            if parked.seq > self.stored.next_seq:
                waiting.append(parked.seq)
            elif parked.seq == self.stored.next_seq and parked.reason == "gap":
                # Its predecessor is there, but is not the one that it names.
                error = why_not_next(
                    self.symbol_id,
                    parked.seq,
                    int.from_bytes(parked.body[PREV_HASH], "little"),
                    self.stored,
                )
                if error is not None:
                    self._report(error.kind, parked.seq, f"{error.message}; it is parked")
        self._parking.set_count(there)
        self.duplicates += self._parking.duplicates
        if waiting:
            gap = GapError(self.symbol_id, waiting[0], self.stored.next_seq)
            message = (
                f"{gap.message}; {counted(len(waiting), 'record is', 'records are')} "
                "parked until it arrives"
            )
            self._report("gap", waiting[0], message, last_seq=waiting[-1], records=len(waiting))

    def _append(
        self, run: bytes, offset: int, arrived_s: float
    ) -> tuple[int, HeadraceError | None]:
        """Link what comes next: how many bytes of it, and what is wrong with the frame behind."""
        start, source = offset, run
        if self._options.chain:
            source, start = (
                link_run(run, offset, self.symbol_id, self.position, self._limits.records),
                0,
            )
            if not source:
                return 0, self._why_not_linked(run, offset)
        followed = follow(
            source,
            start,
            self.symbol_id,
            self.position,
            max_records=self._limits.records,
            max_bytes=self._limits.size_bytes,
        )
        size = followed.offset - start
        if size:
            whole = start == 0 and followed.offset == len(source)
            piece = Piece(
                source if whole else source[start : followed.offset],
                followed.digests,
                self.position,
                followed.position,
                arrived_s,
            )
            self.pending.add(piece)
            self.position = followed.position
        return size, followed.error

    def _why_not_linked(self, run: bytes, offset: int) -> ChainError:
        _, _, _, _, _, symbol, seq, *_ = FRAME_HEADER.unpack_from(run, offset)
        unlinked = why_not_next(symbol, seq, self.position.hash, self.position)
        return unlinked or WrongHash(
            symbol, seq, "it carries a hash already", hint="Leave out --chain"
        )

    def _compare_known(self, run: bytes, offset: int, stop: int, seq: int) -> int:
        """A sequence that the chain has: a no-op if it is the same record, else a fork.

        Returns:
            How many bytes were compared.
        """
        known = self._find(seq)
        if known is None:
            reason = f"the chain begins at seq {self._first_seq}"
            self._refuse(ForkError(self.symbol_id, seq, reason), seq)
            return stop - offset
        again, start = run, offset
        if self._options.chain:
            before = Position(seq, _prev_hash(known.frame(seq)), b"")
            again = link_run(run, offset, self.symbol_id, before, self._limits.records)
            start = 0
            if not again:  # it carries hashes, as what we recover does
                again, start = run, offset
        count, size = known.same(seq, again, start)
        if count:
            self.duplicates += count
            return size
        given = again[start : start + stop - offset]
        if given == known.frame(seq):
            self.duplicates += 1
            return stop - offset
        body = run[offset + LENGTH_BYTES : stop]
        error = ForkError(
            self.symbol_id,
            seq,
            f"other content than the record stored there (hash {_hash(given):016x}, stored "
            f"{_hash(known.frame(seq)):016x}), which was kept",
        )
        self._report(error.kind, seq, error.message)
        self._park(seq, body, error.kind)
        return stop - offset

    def _find(self, seq: int) -> RunIndex | None:
        """The run that holds a record of the chain, pending or stored."""
        if self._known is not None and self._known.holds(seq):
            return self._known
        if seq >= self.stored.next_seq:
            return self.pending.find(seq)
        for block in self._store.scan(self.symbol_id, from_seq=seq, to_seq=seq):
            stored = RunIndex(block.first_seq, block.frames)
            self._known = stored
            if stored.holds(seq):
                return stored
        return None

    def _hold_or_refuse(self, body: bytes, seq: int, error: HeadraceError | None) -> None:
        if isinstance(error, GapError):
            self._held.setdefault(seq, []).append(body)
            self.held_bytes += len(body)
        elif isinstance(error, ChainError) and error.kind == "link":
            self._report(error.kind, seq, error.message)
            self._park(seq, body, error.kind)
        elif error is not None:
            self._refuse(error, seq)
        else:
            raise RuntimeError(f"symbol {self.symbol_id}, seq {seq}: neither linked nor refused")

    def _link_held(self, arrived_s: float) -> None:
        """Those whose predecessor has arrived; the first that fits, of several at one sequence."""
        while bodies := self._held.pop(self.position.next_seq, None):
            seq = self.position.next_seq
            for body in bodies:
                self.held_bytes -= len(body)
                framed = frame(body)
                if seq < self.position.next_seq:
                    self._compare_known(framed, 0, len(framed), seq)
                    continue
                linked, error = self._append(framed, 0, arrived_s)
                if not linked:
                    self._hold_or_refuse(body, seq, error)

    def _link_parked(self, arrived_s: float) -> None:
        """Parked records whose predecessor has arrived, a slice at a time."""
        parking = self._parking
        lowest_seq = parking.lowest_seq
        if lowest_seq is None or lowest_seq > self.position.next_seq or parking.linked:
            return
        parking.flush()
        parking.lowest_seq = None
        forks: list[Parked] = []
        for parked in best_first(self._store.parked(self.symbol_id)):
            framed = frame(parked.body)
            if parked.seq < self.position.next_seq:
                if self._is_stored(framed, parked.seq):
                    parking.linked.append(parked)
                elif parked.reason != "fork":
                    forks.append(parked)
            elif parked.seq > self.position.next_seq:
                parking.lowest_seq = parked.seq
                break
            elif self._append(framed, 0, arrived_s)[0]:
                parking.linked.append(parked)
            if len(parking.linked) >= _SLICE:
                parking.lowest_seq = self.position.next_seq
                break
        for parked in forks:
            reason = "a parked record has other content than the one stored there since"
            error = ForkError(self.symbol_id, parked.seq, reason)
            self._report(error.kind, parked.seq, error.message)
        parking.reclassify(forks, "fork")
        if self._held:
            self._link_held(arrived_s)
        if parking.linked and not self.pending:
            parking.release(self.stored.next_seq)

    def _is_stored(self, framed: bytes, seq: int) -> bool:
        known = self._find(seq)
        if known is None:
            return False
        return known.frame(seq) in (framed, link(framed, _prev_hash(known.frame(seq)))[0])

    def _park(self, seq: int, body: bytes, reason: str) -> None:
        if not self._parking.park(seq, body, reason):
            self.refused += 1
            self._report("full", seq, f"symbol {self.symbol_id}, seq {seq}: the park is full")

    def _refuse(self, error: HeadraceError, seq: int) -> None:
        self.refused += 1
        kind = error.kind if isinstance(error, ChainError) else "malformed"
        message = error.message
        if kind == "malformed":
            message = f"symbol {self.symbol_id}, seq {seq}: {message}"
        self._report(kind, seq, message)

    def _report(
        self, kind: str, seq: int, message: str, *, last_seq: int | None = None, records: int = 1
    ) -> None:
        self._problems.add(Problem(kind, self.symbol_id, seq, last_seq, message), records)


def _limits(limits: BatchLimits, options: WriteOptions) -> BatchLimits:
    if options.batch_records is None:
        return limits
    return replace(limits, records=min(options.batch_records, limits.records))


def _count(run: bytes) -> int:
    return RunIndex(0, run).last_seq + 1


def _prev_hash(framed: bytes) -> int:
    prev_hash: int = FRAME_HEADER.unpack_from(framed)[7]
    return prev_hash


def _hash(framed: bytes) -> int:
    return int.from_bytes(framed[LENGTH_BYTES : LENGTH_BYTES + 8], "little")
