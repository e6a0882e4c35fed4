"""`python -m headrace.sot.writing.worker DOWN UP`: an engine at the end of two pipes.

Not for people: `headrace.sot.writing.pool` starts it. It ends when its pipe does; what it has
acknowledged by then is stored, the rest is not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Final

import msgspec

from headrace.errors import HeadraceError
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.opening import open_store
from headrace.sot.writing.engine import Engine
from headrace.sot.writing.messages import (
    END,
    Ack,
    Acked,
    Done,
    Failed,
    Job,
    Upward,
    receive,
    send,
    unpack_records,
)

#: How long a commit's thread waits for Python's lock while the linking thread has it. The default
#: of 5 ms, several times per commit, would be longer than the commit.
_SWITCH_S: Final = 0.0005


class _Upstream:
    """The way up, shared by the engine's callbacks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def emit(self, message: Upward) -> None:
        try:
            send(self._descriptor, [msgspec.msgpack.encode(message)])
        except OSError:
            # The process that feeds this one has ended: so does this one.
            os._exit(1)

    def emit_done(self, size_bytes: int) -> None:
        self.emit(Done(size_bytes))

    def emit_acks(self, acks: list[Ack]) -> None:
        self.emit(Acked(acks))


def main(down: int, up: int) -> None:
    """Work until the end is announced, or the pipe breaks."""
    # An interrupt at the terminal reaches us too; the process that feeds us decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.setswitchinterval(_SWITCH_S)
    upstream = _Upstream(up)
    job = msgspec.msgpack.decode(receive(down), type=Job)
    try:
        store = open_store(job.location)
        engine = Engine(
            store, job.shards, job.options, on_acks=upstream.emit_acks, on_done=upstream.emit_done
        )
        receiver = threading.Thread(target=_receive, args=(down, engine), daemon=True)
        receiver.start()
        try:
            finished = engine.run()
        finally:
            store.close()
    except StoreUnavailable as error:
        upstream.emit(Failed(error.where, error.action, error.reason, error.hint))
    except HeadraceError as error:
        upstream.emit(Failed(job.location, "writing", error.message, error.hint))
    else:
        upstream.emit(finished)


def _receive(down: int, engine: Engine) -> None:
    """Drain the pipe, so that the process that feeds this one never waits for a commit."""
    while True:
        try:
            message = receive(down)
        except (EOFError, OSError):
            os._exit(1)
        if message == END:
            engine.end()
            return
        for arrived_s, symbol_id, run in unpack_records(message):
            engine.offer(arrived_s, symbol_id, run)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
