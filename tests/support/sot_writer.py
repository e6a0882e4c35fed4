"""`python sot_writer.py STREAM STORE JOURNAL PROCESSES`: a write that notes what was acknowledged.

The journal gets `symbol next_seq` per acknowledgement, in one write each: what is in it was said to
be durable before the process was killed.
"""

from __future__ import annotations

import os
import sys

from headrace.sot.opening import open_store
from headrace.sot.sources.places import find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.writing.messages import Ack
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.write import write_stream


def main(stream: str, location: str, journal: str, processes: int) -> int:
    out = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(acks: list[Ack]) -> None:
        os.write(out, b"".join(f"{ack.symbol_id} {ack.end}\n".encode() for ack in acks))

    store = open_store(location)
    options = WriteOptions(
        shards=4, processes=processes, batch_records=100, in_flight_bytes=200_000, linger_s=0.001
    )
    report = write_stream(read_places(find_places(stream)), store, options, on_acks=note)
    for line in report.repairs:
        print("repaired:", line)
    store.close()
    return 0 if report.complete else 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
