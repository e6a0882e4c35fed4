"""What is wrong in the tables that no scan of a chain would meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from headrace.sot.cql.bucket import partition
from headrace.sot.cql.chains import Chains
from headrace.sot.cql.parking import Parking
from headrace.sot.cql.session import CqlSession
from headrace.sot.exceptions import DamagedLog
from headrace.sot.position import Position
from headrace.sot.u64 import from_signed32


def found_damages(
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
