"""`SotStore` over a CQL cluster, and how it is opened.

`open_cql` makes the keyspace and the tables if they do not exist. `Parking` keeps records until
their predecessor arrives: adding and removing are conditional steps, too, on a counter of changes.
Their order is then the cluster's own, and does not depend on the clocks of clients. Both may be
repeated.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

from headrace.sot.chain import DIGEST_BYTES, Position
from headrace.sot.cql.chains import Chains
from headrace.sot.cql.commits import Commits
from headrace.sot.cql.scan import Scan
from headrace.sot.cql.session import CqlSession, CqlSettings, Patience, Uncertain, parse_location
from headrace.sot.cql.tables import FORMAT, META, TABLES, TILES, partition
from headrace.sot.encoding import from_signed, from_signed32, signed_ranges, to_signed, to_signed32
from headrace.sot.exceptions import DamagedLog, NewerLog, StoreMisconfigured
from headrace.sot.frames import in_groups
from headrace.sot.record import U64_MAX
from headrace.sot.store import Batch, BatchLimits, Block, Head, Outcome, Parked, by_symbol
from headrace.stopping import STOP, StopEvent

_STEP_BYTES: Final = 512 * 2**10
_STEP_RECORDS: Final = 100
_PAGE: Final = 50


class Parking:
    """The table of parked records."""

    def __init__(self, session: CqlSession) -> None:
        self._session = session

    def park(self, records: Iterable[Parked]) -> None:
        """Keep these, durable."""
        self._apply(records, self._added)

    def unpark(self, records: Iterable[Parked]) -> None:
        """Remove these."""
        self._apply(records, self._removed)

    def parked(self, symbol_id: int) -> Iterator[Parked]:
        """What is parked for the symbol, by unsigned sequence.

        Raises:
            DamagedLog: a body is not the one that was parked.
        """
        for signed in signed_ranges(0, U64_MAX):
            key = to_signed32(symbol_id)
            for row in self._session.pages("parked", key, *signed, page=_PAGE):
                seq = from_signed(row.seq)
                if row.body is None or hashlib.sha256(row.body).digest() != row.digest:
                    raise DamagedLog(
                        f"{self._session.settings.keyspace}.sot_parked",
                        "a parked record is not the one that was parked",
                        symbol_id=symbol_id,
                        seq=seq,
                    )
                yield Parked(symbol_id, seq, row.body, row.reason)

    def _added(self, record: Parked) -> Any:
        key = (to_signed32(record.symbol_id), to_signed(record.seq), _digest(record))
        return self._session.bound("park", *key, record.reason, record.body)

    def _removed(self, record: Parked) -> Any:
        key = (to_signed32(record.symbol_id), to_signed(record.seq), _digest(record))
        return self._session.bound("unpark", *key)

    def _apply(self, records: Iterable[Parked], statement: Any) -> None:
        for symbol_id, group in by_symbol(records):
            for step in in_groups(
                group, _STEP_RECORDS, _STEP_BYTES, lambda record: len(record.body)
            ):
                self._change(symbol_id, [statement(record) for record in step])

    def _change(self, symbol_id: int, statements: list[Any]) -> None:
        """Apply them in one step of the symbol's partition, however often it takes."""
        patience = Patience(self._session, f"parking records of symbol {symbol_id}")
        key = to_signed32(symbol_id)
        while True:
            rows = self._session.read("parked_changes", key, serial=True)
            changes = rows[0].changes if rows else None
            condition = (
                self._session.bound("parked_first", key)
                if changes is None
                else self._session.bound("parked_change", changes + 1, key, changes)
            )
            try:
                if self._session.conditional(condition, *statements):
                    return
                reason = "others change what is parked at the same time"
            except Uncertain as lost:
                reason = lost.reason
            patience.pause(reason)


def _digest(record: Parked) -> bytes:
    return hashlib.sha256(record.body).digest()


def find_damages(
    session: CqlSession,
    chains: Chains,
    parking: Parking,
    verified: Callable[[int], Position | None],
) -> Iterator[DamagedLog]:
    """Stray buckets, parked records that were changed, notes that the chains contradict."""
    keyspace = session.settings.keyspace
    buckets: dict[int, set[int]] = defaultdict(set)
    for row in session.read("with_chain"):
        buckets[from_signed32(row.symbol_id)].add(row.bucket)
    for symbol_id in chains.symbols():
        try:
            last = chains.last(symbol_id)
            noted = verified(symbol_id)
            for _ in parking.parked(symbol_id):
                pass
        except DamagedLog as error:
            yield error
            continue
        end = last.number if last else -1
        # What was begun since the partitions were listed is above `end`, and no stray.
        for stray in sorted(number for number in buckets[symbol_id] if number > end):
            yield DamagedLog(
                partition(keyspace, symbol_id, stray),
                f"the bucket lies behind bucket {end}, which leads nowhere",
                symbol_id=symbol_id,
                seq=last.head.next_seq if last else None,
            )
        if noted is not None and (last is None or noted.next_seq > last.head.next_seq):
            yield DamagedLog(
                partition(keyspace, symbol_id, max(end, 0)),
                f"it was verified up to seq {noted.next_seq - 1}, and ends before that",
                symbol_id=symbol_id,
                seq=last.head.next_seq if last else None,
                last_seq=noted.next_seq - 1,
            )


_BATCH_RECORDS: Final = 5000
_ID_NOTE: Final = "store_id"
#: Tiles in one partition.
_TILES_IN_PART: Final = 65536


class CqlStore:
    """The log in one keyspace. Made by `open_cql`.

    Forks and overwriting are kept out by conditions that the cluster itself checks; see
    `headrace.sot.cql.chains` and `commits`.
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

    def moved_heads(self, known: Mapping[int, Position]) -> Iterator[Head]:
        """As `SotStore.moved_heads`."""
        damage: DamagedLog | None = None
        for symbol_id in self._chains.symbols():
            try:
                head = self.head(symbol_id)
            except DamagedLog as error:
                damage = damage or error
                continue
            if head is not None and known.get(symbol_id) != head.position:
                yield head
        if damage is not None:
            raise damage

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
        return list(find_damages(self._session, self._chains, self._parking, self.verified))

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

    def read_tiles(self, symbol_id: int, level: int, first: int, count: int) -> list[bytes | None]:
        """As `SotStore.read_tiles`."""
        found: list[bytes | None] = [None] * count
        end = first + count
        for part in range(first // _TILES_IN_PART, (end - 1) // _TILES_IN_PART + 1):
            rows = self._session.read("tiles", to_signed32(symbol_id), level, part, first, end)
            for row in rows:
                if len(row.tile or b"") == DIGEST_BYTES:
                    found[row.number - first] = row.tile
        return found

    def write_tile(self, symbol_id: int, level: int, number: int, tile: bytes) -> None:
        """As `SotStore.write_tile`."""
        part = number // _TILES_IN_PART
        self._session.write("keep_tile", to_signed32(symbol_id), level, part, number, tile)

    def store_id(self) -> str:
        """As `SotStore.store_id`."""
        patience = Patience(self._session, "naming the log")
        while True:
            rows = self._session.read("note", _ID_NOTE, serial=True)
            if rows:
                return str(rows[0].value)
            try:
                made = self._session.bound("new_note", _ID_NOTE, uuid4().hex)
                self._session.conditional(made)
            except Uncertain as lost:
                patience.pause(lost.reason)

    def close(self) -> None:
        """As `SotStore.close`."""
        self._session.close()


def open_cql(
    location: str | CqlSettings, *, create: bool = True, stop: StopEvent = STOP, **given: Any
) -> CqlStore:
    """The store at a location.

    Args:
        location: `cql://HOST[,HOST...][:PORT]/KEYSPACE[?option=value]`, or settings.
        create: make what is missing; without it, a keyspace that holds no log is an error.
        stop: ends waits for a cluster in trouble.
        given: fields of `CqlSettings` on top of a location.

    Raises:
        StoreMisconfigured: the location, or there is no log and none may be made.
        StoreUnavailable: the cluster does not answer.
        NewerLog: a later version wrote it.
    """
    settings = parse_location(location, **given) if isinstance(location, str) else location
    session = CqlSession(settings, stop=stop)
    try:
        have_tables(session, create=create)
        session.prepare()
    except BaseException:
        session.close()
        raise
    return CqlStore(session)


def have_tables(session: CqlSession, *, create: bool) -> None:
    """Compare what is there with what must be; make it only where something is missing.

    Making a table twice at the same moment can leave a cluster with two of its name, so nothing is
    asked for that is there already.
    """
    keyspace = session.settings.keyspace
    present = _tables(session)
    missing = [name for name in TABLES if name not in present]
    # Tiles came later than the rest, and are derived: a log of before gets their table at once.
    if missing not in ([], [TILES]) and not create:
        raise StoreMisconfigured(
            session.location, "it holds no source-of-truth log", hint="Look at --store"
        )
    if missing:
        if not present:
            _make_keyspace(session)
        for name in missing:
            statement = f"CREATE TABLE IF NOT EXISTS {keyspace}.{name} {TABLES[name]}"
            session.patiently("making tables", partial(session.driver.execute, statement))
        if META in missing:
            statement = f"INSERT INTO {keyspace}.{META} (name, value) VALUES ('format', '{FORMAT}')"
            session.patiently("making tables", lambda: session.driver.execute(statement))
    _check_format(session)


def _make_keyspace(session: CqlSession) -> None:
    settings = session.settings
    # The name was checked; the data centre's comes from the cluster or from the settings.
    centre = session.local_dc.replace("'", "''")
    statement = (
        f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', '{centre}': {settings.replication}}}"
    )
    session.patiently("making the keyspace", lambda: session.driver.execute(statement))


def _tables(session: CqlSession) -> set[str]:
    query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
    keyspace = session.settings.keyspace
    rows = session.patiently("reading", lambda: session.driver.execute(query, (keyspace,)))
    return {row.table_name for row in rows}


def _check_format(session: CqlSession) -> None:
    keyspace = session.settings.keyspace
    query = f"SELECT value FROM {keyspace}.{META} WHERE name = 'format'"
    rows = list(session.patiently("reading", lambda: session.driver.execute(query)))
    where = f"{session.location}, table {META}"
    if not rows or not (rows[0].value or "").isdecimal():
        raise DamagedLog(where, "the format of the log is not noted, or is no number")
    found = int(rows[0].value)
    if found > FORMAT:
        raise NewerLog(where, found, FORMAT)
    if found != FORMAT:
        raise DamagedLog(where, f"format {found} never was")
