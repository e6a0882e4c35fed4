"""`SotStore` over a CQL cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headrace.sot.cql.chains import Chains
from headrace.sot.cql.commits import Commits
from headrace.sot.cql.inspection import found_damages
from headrace.sot.cql.parking import Parking
from headrace.sot.cql.scanning import Scan
from headrace.sot.cql.session import CqlSession
from headrace.sot.exceptions import DamagedLog
from headrace.sot.position import DIGEST_BYTES, Position
from headrace.sot.store import Batch, BatchLimits, Block, Head, Outcome, Parked
from headrace.sot.u64 import from_signed, to_signed, to_signed32

_BATCH_RECORDS: Final = 5000


class CqlStore:
    """The log in one keyspace. Made by `open_cql`.

    Forks and overwriting are kept out by conditions that the cluster itself checks; see
    `headrace.sot.cql.commits` and `chains`.
    """

    def __init__(self, session: CqlSession) -> None:
        self._session = session
        self._chains = Chains(session)
        self._commits = Commits(session, self._chains)
        self._parking = Parking(session)

    @property
    def location(self) -> str:
        """As `SotStore.location`: hosts, port and keyspace."""
        return self._session.location

    @property
    def limits(self) -> BatchLimits:
        """As `SotStore.limits`."""
        return BatchLimits(_BATCH_RECORDS, self._session.settings.batch_bytes)

    def symbols(self) -> list[int]:
        """As `SotStore.symbols`."""
        return self._chains.symbols()

    def head(self, symbol_id: int) -> Head | None:
        """As `SotStore.head`."""
        bucket = self._chains.last(symbol_id)
        return bucket.symbol_head if bucket else None

    def claim(self, symbol_id: int, *, first_seq: int) -> Head:
        """As `SotStore.claim`."""
        return self._chains.claim(symbol_id, first_seq)

    def claim_all(self, symbol_ids: Sequence[int], *, first_seq: int) -> list[Head]:
        """As `SotStore.claim_all`: one after the other, since each is a partition of its own."""
        return [self._chains.claim(symbol_id, first_seq) for symbol_id in symbol_ids]

    def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
        """As `SotStore.commit`."""
        return self._commits.commit(batches)

    def scan(
        self, symbol_id: int, *, from_seq: int = 0, to_seq: int | None = None
    ) -> Iterator[Block]:
        """As `SotStore.scan`."""
        return Scan(self._session, self._chains, symbol_id).blocks(from_seq, to_seq)

    def damages(self) -> list[DamagedLog]:
        """As `SotStore.damages`."""
        return list(found_damages(self._session, self._chains, self._parking, self.verified))

    def repairs(self) -> list[str]:
        """As `SotStore.repairs`: the cluster repairs itself."""
        return []

    def park(self, records: Iterable[Parked]) -> None:
        """As `SotStore.park`."""
        kept = list(records)
        for symbol_id in {record.symbol_id for record in kept}:
            self._chains.register(symbol_id)
        self._parking.park(kept)

    def parked(self, symbol_id: int) -> Iterator[Parked]:
        """As `SotStore.parked`."""
        return self._parking.parked(symbol_id)

    def unpark(self, records: Iterable[Parked]) -> None:
        """As `SotStore.unpark`."""
        self._parking.unpark(records)

    def verified(self, symbol_id: int) -> Position | None:
        """As `SotStore.verified`."""
        rows = self._session.read("symbol", to_signed32(symbol_id))
        if not rows or rows[0].verified_next is None:
            return None
        row = rows[0]
        if row.verified_hash is None or len(row.verified_digest or b"") != DIGEST_BYTES:
            where = f"{self._session.settings.keyspace}.sot_symbols"
            reason = "what was verified is noted incompletely"
            raise DamagedLog(where, reason, symbol_id=symbol_id)
        return Position(row.verified_next, from_signed(row.verified_hash), row.verified_digest)

    def mark_verified(self, symbol_id: int, position: Position) -> None:
        """As `SotStore.mark_verified`."""
        self._session.write(
            "note_verified",
            position.next_seq,
            to_signed(position.hash),
            position.digest,
            to_signed32(symbol_id),
        )

    def close(self) -> None:
        """As `SotStore.close`."""
        self._session.close()
