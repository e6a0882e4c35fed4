"""Records of an engine made durable: a log, a table, a bare file."""

from __future__ import annotations

import os
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.peers.environments import PROJECT, SCRIPTS
from bench.peers.job import HEADRACE, Figures, Peer, Prefect, ended_well
from bench.peers.measure import Program, Used
from headrace.sot.encoding import FRAME_ROUTE, LENGTH_BYTES
from headrace.sot.output import write_frames
from headrace.sot.sample_records import StreamSpec, generate

RECORDS, SHORT_RECORDS = 500_000, 60_000
#: What peers with a sync for each record get.
EACH, SHORT_EACH = 10_000, 1_500
BATCH = 500
#: So far behind the middle, which is where a frame begins, lies what a record says.
_WITHIN_A_RECORD = 151
_LONGEST_S = 900.0

PEERS = (
    Peer(
        "headrace sot",
        "`headrace sot write`, eight shards, on a Prefect server that is up. It checks every "
        "record and chains it by SHA-256.",
        packages=("prefect",),
    ),
    Peer(
        "SQLite, a batch",
        "A table with a primary key (symbol, sequence), WAL, `synchronous = FULL`, `INSERT OR "
        f"IGNORE`, a transaction for {BATCH} records. A second run reads all of its input again.",
        script="log_sqlite.py",
        options={"batch": BATCH},
    ),
    Peer(
        "SQLite, each record",
        "The same with a transaction for each record, of fewer records.",
        script="log_sqlite.py",
        rounds=1,
        options={"batch": 1},
    ),
    Peer(
        "file, a batch",
        f"Frames appended, `fsync` after {BATCH}. A second run counts whole frames, cuts off a "
        "torn one and leaves so many out of its input.",
        script="log_file.py",
        options={"batch": BATCH},
    ),
    Peer(
        "file, each record",
        "The same with an `fsync` for each record, of fewer records.",
        script="log_file.py",
        rounds=1,
        options={"batch": 1},
    ),
)


class Log:
    """See the module.

    Args:
        prefect: the server for our own command.
        short: fewer records.
        scratch: where the input lies.
    """

    peers: Sequence[Peer] = PEERS

    def __init__(self, prefect: Prefect, scratch: Path, *, short: bool) -> None:
        self._prefect = prefect
        self._scratch = scratch
        self._many, self._few = (SHORT_RECORDS, SHORT_EACH) if short else (RECORDS, EACH)
        self.about = (
            f"{self._many:,} records of 300 bytes, eight symbols in turn, from a file to a "
            f"durable acknowledgement; {self._few:,} where each record is synced by itself. The "
            "kill comes after half of the time of a clean run. Then one byte in the middle of "
            "the largest file is changed: is that noticed when the log is read and checked by "
            "its own means?"
        )

    def clean(self, peer: Peer, scratch: Path) -> Figures:
        """All records once."""
        used, figures = self._run(peer, scratch)
        lost = self._lost(peer, scratch)
        return {
            **lost,
            "records": self._records(peer),
            "records_per_s": round(self._records(peer) / used.wall_s),
            "wall_s": used.wall_s,
            "cpu_s": used.cpu_s,
            "peak_mb": used.peak_mb,
            **figures,
            "change_noticed": self._noticed(peer, scratch),
            "ended": ended_well(used.code, used.last_line),
        }

    def killed(self, peer: Peer, scratch: Path, clean: Figures) -> Figures:
        """Killed after half of the time, then again."""
        first, _ = self._run(peer, scratch, kill_after_s=clean["wall_s"] / 2)
        second, _ = self._run(peer, scratch)
        return {
            **self._lost(peer, scratch),
            "second_s": second.wall_s,
            "was_killed": first.code == -9,
            "ended": ended_well(second.code, second.last_line),
        }

    def _records(self, peer: Peer) -> int:
        return self._few if peer.options.get("batch") == 1 else self._many

    def _stream(self, peer: Peer) -> Path:
        records = self._records(peer)
        path = self._scratch / f"stream-{records}.frames"
        if not path.exists():
            with path.open("wb") as out:
                spec = StreamSpec(records=records, size_bytes=300)
                write_frames((made.body for made in generate(spec)), out)
        return path

    def _run(
        self, peer: Peer, scratch: Path, kill_after_s: float = float("inf")
    ) -> tuple[Used, Figures]:
        stream = str(self._stream(peer))
        subprocess.run(["sync"], check=True)  # what is dirty does not count for what comes next
        figures: Figures = {}
        if not peer.script:
            store = str(scratch / "store")
            command = [
                sys.executable,
                *HEADRACE,
                "sot",
                "write",
                stream,
                "--store",
                store,
                "--json",
            ]
            with self._prefect.watched(figures):
                return _ended(command, scratch, kill_after_s), figures
        batch = str(peer.options["batch"])
        where = str(scratch / ("log.sqlite" if "sqlite" in peer.script else "log.frames"))
        command = [sys.executable, str(SCRIPTS / peer.script), stream, where, batch]
        return _ended(command, scratch, kill_after_s), figures

    def _lost(self, peer: Peer, scratch: Path) -> Figures:
        wanted = set(_keys(self._stream(peer), head=8))
        found = list(_stored(peer, scratch))
        if not set(found) <= wanted:
            raise RuntimeError(f"{peer.name} holds records that were not in its input")
        return {"missing": len(wanted - set(found)), "repeated": len(found) - len(set(found))}

    def _noticed(self, peer: Peer, scratch: Path) -> bool:
        """Whether a changed byte is found by the peer's own check."""
        if self._complains(peer, scratch):
            raise RuntimeError(f"{peer.name} reports an error in a log that was not changed")
        files = [file for file in scratch.rglob("*") if file.is_file() and file.name != "log.txt"]
        largest = max(files, key=lambda file: file.stat().st_size)
        with largest.open("r+b") as file:
            file.seek(largest.stat().st_size // 2 + _WITHIN_A_RECORD)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        return self._complains(peer, scratch)

    def _complains(self, peer: Peer, scratch: Path) -> bool:
        if not peer.script:
            command = [*HEADRACE, "sot", "verify", "--store", str(scratch / "store")]
            done = subprocess.run([sys.executable, *command], capture_output=True, check=False)
            return done.returncode != 0
        if "sqlite" in peer.script:
            database = sqlite3.connect(scratch / "log.sqlite")
            said = database.execute("PRAGMA integrity_check").fetchall()
            database.close()
            return said != [("ok",)]
        return len(list(_keys(scratch / "log.frames"))) != self._records(peer)


def _ended(command: list[str], scratch: Path, kill_after_s: float) -> Used:
    """Run a program, and kill it after so many seconds of its own."""
    program = Program(command, scratch / "log.txt", cwd=PROJECT, environment=os.environ)
    began = time.monotonic()
    return program.wait(_LONGEST_S, lambda: time.monotonic() - began >= kill_after_s)


def _stored(peer: Peer, scratch: Path) -> Iterator[tuple[int, int]]:
    """Symbol and sequence of every record that a peer holds."""
    if not peer.script:
        out = scratch / "recovered.frames"
        command = [*HEADRACE, "sot", "recover", str(out), "--store", str(scratch / "store")]
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        yield from _keys(out, head=8)
        out.unlink()
    elif "sqlite" in peer.script:
        database = sqlite3.connect(scratch / "log.sqlite")
        yield from database.execute("SELECT symbol, seq FROM log")
        database.close()
    else:
        yield from _keys(scratch / "log.frames")


def _keys(path: Path, *, head: int = 0) -> Iterator[tuple[int, int]]:
    """Symbol and sequence of the frames of a file, as far as they can be read."""
    content, offset = path.read_bytes(), head
    try:
        while offset < len(content):
            length, symbol, seq = FRAME_ROUTE.unpack_from(content, offset)
            yield symbol, seq
            offset += LENGTH_BYTES + length
    except struct.error:
        return
