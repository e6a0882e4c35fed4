"""The writers: an engine in this process, or one in each of several processes.

`python -m headrace.sot.writing.pool DOWN UP` is such a process, an engine at the end of two pipes,
and not for people. It ends when its pipe does; what it has acknowledged by then is stored, the rest
is not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from headrace.errors import HeadraceError
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.opening import open_store
from headrace.sot.store import SotStore
from headrace.sot.writing.engine import Engine
from headrace.sot.writing.messages import (
    END,
    Ack,
    Acked,
    Done,
    Failed,
    Finished,
    Job,
    Upward,
    make_pipe,
    pack_records,
    receive,
    send,
    unpack_records,
)
from headrace.sot.writing.options import WriteOptions, child_environment, shard_of


class Credit:
    """A number of bytes that are taken before work is handed on and given back when it is done.

    One piece may exceed what there is: it goes alone.

    Args:
        size_bytes: how many there are.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._used = 0
        self._changed = threading.Condition()
        self._over = False

    def take(self, size_bytes: int) -> bool:
        """Wait for room, then take it; False if none will ever be given back."""
        with self._changed:
            while not self._over and self._used and self._used + size_bytes > self._size:
                self._changed.wait()
            self._used += size_bytes
            return not self._over

    def give_back(self, size_bytes: int) -> None:
        """Work of this size is done."""
        with self._changed:
            self._used -= size_bytes
            self._changed.notify_all()

    def end(self) -> None:
        """Release every waiting thread: the other side has stopped."""
        with self._changed:
            self._over = True
            self._changed.notify_all()


OnAcks = Callable[[list[Ack]], None]


class WriterPool(Protocol):
    """Takes runs of frames; acknowledges them through a callback given to it."""

    def send(self, arrived_s: float, runs: dict[int, list[bytes]]) -> None:
        """Hand in frames by symbol; waits while too much is under way.

        Raises:
            StoreUnavailable: a writer gave up, or died.
        """

    def finish(self) -> list[Finished]:
        """Wait until all of it is committed or parked.

        Raises:
            StoreUnavailable: a writer gave up, or died.
        """

    def abandon(self) -> None:
        """Stop every writer, after an error; what was acknowledged is stored."""


class InProcess:
    """One engine in a thread of this process: for stores that make writers wait, and small jobs.

    Args:
        store: where to.
        options: of the write.
        on_acks: called with what became durable.
    """

    def __init__(self, store: SotStore, options: WriteOptions, on_acks: OnAcks) -> None:
        self._credit = Credit(options.in_flight_bytes)
        self._engine = Engine(
            store, range(options.shards), options, on_acks=on_acks, on_done=self._credit.give_back
        )
        self._finished: Finished | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sot-engine", daemon=True)
        self._thread.start()

    def send(self, arrived_s: float, runs: dict[int, list[bytes]]) -> None:
        """See `WriterPool.send`."""
        for symbol_id, pieces in sorted(runs.items(), key=lambda item: len(item[1])):
            run = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if not self._credit.take(len(run)):
                self._thread.join()
                self._raise()
            self._engine.offer(arrived_s, symbol_id, run)

    def finish(self) -> list[Finished]:
        """See `WriterPool.finish`."""
        self._engine.end()
        self._thread.join()
        self._raise()
        return [self._finished] if self._finished else []

    def abandon(self) -> None:
        """See `WriterPool.abandon`."""
        self._engine.end()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._finished = self._engine.run()
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asks
            self._error = error
        finally:
            self._credit.end()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


#: Buffers of a megabyte come and go: kept by the allocator instead of being given back to the
#: kernel each time, they cost a tenth less processor time at records of 1.7 kB.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "134217728"}


class _Worker:
    """A process with an engine, and the thread that listens to it."""

    def __init__(self, job: Job, credit: Credit, on_acks: OnAcks, acks_lock: threading.Lock):
        down_there, self._down = make_pipe()
        self._up, up_there = make_pipe()
        descriptors = (down_there, up_there)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.sot.writing.pool", *map(str, descriptors)],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                env={**_ALLOCATOR, **child_environment()},
            )
        except OSError:
            os.close(self._down)
            os.close(self._up)
            raise
        finally:
            os.close(down_there)
            os.close(up_there)
        self._open = True
        self._location = job.location
        self._credit = credit
        self._on_acks = on_acks
        self._acks_lock = acks_lock
        self._outcome: Finished | Failed | Exception | None = None
        self._listener = threading.Thread(target=self._listen, name="sot-listener", daemon=True)
        self._listener.start()
        self.send([msgspec.msgpack.encode(job)])

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send one message; waits while the worker's pipe is full."""
        try:
            send(self._down, pieces)
        except OSError:  # it has ended: its last message says why
            self.check()
            raise

    def finish(self) -> Finished:
        self._listener.join()
        self._process.wait()
        self._release()
        return self._result()

    def stop(self) -> None:
        """A worker whose pipe is closed ends by itself."""
        self._release()
        self._listener.join()
        self._process.wait()

    def check(self) -> None:
        """Raise what made it stop."""
        self._listener.join()
        self._result()

    @property
    def alive(self) -> bool:
        return self._listener.is_alive()

    def _release(self) -> None:
        if self._open:
            self._open = False
            os.close(self._down)

    def _result(self) -> Finished:
        if isinstance(self._outcome, Finished):
            return self._outcome
        if isinstance(self._outcome, Exception):
            raise self._outcome
        if isinstance(self._outcome, Failed):
            failed = self._outcome
            raise StoreUnavailable(failed.where, failed.action, failed.reason, hint=failed.hint)
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise StoreUnavailable(
            self._location,
            "writing",
            f"a writer process ended by {how}",
            hint="What was acknowledged is stored; start the write again, it goes on from there",
        )

    def _listen(self) -> None:
        try:
            decoder = msgspec.msgpack.Decoder(Upward)
            while self._outcome is None:
                message = decoder.decode(receive(self._up))
                if isinstance(message, Done):
                    self._credit.give_back(message.size_bytes)
                elif isinstance(message, Acked):
                    with self._acks_lock:
                        self._on_acks(message.acks)
                else:
                    self._outcome = message
        except EOFError:
            pass  # it ended without a message; its exit code says how
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asks
            self._outcome = error
        finally:
            os.close(self._up)
            if not isinstance(self._outcome, Finished):
                self._credit.end()


class Processes:
    """Shards spread over processes: for an embedded store, whose writers need the processor.

    Args:
        location: of the store; each process opens it for itself.
        options: of the write.
        count: how many processes; more than there are shards would idle.
        on_acks: called with what became durable, from one thread at a time.
    """

    def __init__(self, location: str, options: WriteOptions, count: int, on_acks: OnAcks) -> None:
        self._options = options
        self._credit = Credit(options.in_flight_bytes)
        self._count = max(1, min(count, options.shards))
        lock = threading.Lock()
        self._workers: list[_Worker] = []
        try:
            for place in range(self._count):
                shards = list(range(place, options.shards, self._count))
                job = Job(location, shards, options)
                self._workers.append(_Worker(job, self._credit, on_acks, lock))
        except BaseException:
            self.abandon()
            raise

    def send(self, arrived_s: float, runs: dict[int, list[bytes]]) -> None:
        """See `WriterPool.send`."""
        shares: list[dict[int, bytes]] = [{} for _ in self._workers]
        for symbol_id, pieces in runs.items():
            shard = shard_of(symbol_id, self._options.shards)
            run = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            shares[shard % self._count][symbol_id] = run
        # The lighter share first: it need not wait for the heavier one's room.
        order = sorted(range(self._count), key=lambda place: sum(map(len, shares[place].values())))
        for place in order:
            if shares[place]:
                self._send_one(self._workers[place], arrived_s, shares[place])

    def finish(self) -> list[Finished]:
        """See `WriterPool.finish`."""
        for worker in self._workers:
            worker.send([END])
        return [worker.finish() for worker in self._workers]

    def abandon(self) -> None:
        """See `WriterPool.abandon`."""
        for worker in self._workers:
            worker.stop()

    def _send_one(self, worker: _Worker, arrived_s: float, runs: dict[int, bytes]) -> None:
        if not self._credit.take(sum(map(len, runs.values()))):
            for other in self._workers:
                if not other.alive:
                    other.check()
        worker.send(pack_records(arrived_s, runs))


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
