"""Many threads and processes on one vault: nothing lost, and no writer finds it locked."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.vaults import dashboard, new_vault

from headrace.looker.vault import Vault

THREADS, UPSERTS, PROCESSES = 50, 200, 4

_WRITER = """
import sys, threading
from support.vaults import dashboard
from headrace.looker.vault import Vault

path, number, threads, upserts = sys.argv[1], *map(int, sys.argv[2:])
vault = Vault.open(path, check=False)
session = vault.sessions.begin("extract")
failed = []

def write(thread):
    try:
        for n in range(upserts):
            vault.upsert_many(session, [dashboard(f"{number}-{thread}-{n}"), dashboard("shared", f"{number}-{thread}-{n}")])
    except BaseException as error:
        failed.append(error)

workers = [threading.Thread(target=write, args=(n,)) for n in range(threads)]
for worker in workers: worker.start()
for worker in workers: worker.join()
for error in failed: print(repr(error), file=sys.stderr)
sys.exit(bool(failed))
"""  # noqa: E501


def _start(path: Path, number: int, threads: int, upserts: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), str(number), str(threads), str(upserts)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_fifty_threads_in_four_processes_beside_a_reader(tmp_path: Path) -> None:
    with new_vault(tmp_path) as vault:
        path = vault.path
        done = threading.Event()
        problems: list[BaseException] = []

        def read() -> None:
            # A reader that keeps its transaction open is what fails a deferred writer.
            try:
                while not done.is_set():
                    with vault.file.reading() as db:
                        db.execute("SELECT COUNT(*) FROM item").fetchone()
                        time.sleep(0.05)
            except BaseException as error:  # noqa: BLE001 - reported by the test
                problems.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        # 50 threads in all, each with its 200 upserts.
        shares = [THREADS // PROCESSES + (n < THREADS % PROCESSES) for n in range(PROCESSES)]
        writers = [_start(path, n, share, UPSERTS) for n, share in enumerate(shares)]
        errors = [writer.communicate()[1] for writer in writers]
        done.set()
        reader.join()
        assert [writer.returncode for writer in writers] == [0] * PROCESSES, errors
        assert problems == []
        assert vault.contents.counts() == {"dashboard": (THREADS * UPSERTS + 1, 0)}
        # Every change of the one that all of them write is in its history.
        assert len(vault.contents.history("dashboard", "shared")) == THREADS * UPSERTS
    with Vault.open(path):
        pass  # and the file is whole


def test_a_writer_killed_in_the_middle_holds_no_other_up_and_leaves_whole_batches(
    tmp_path: Path,
) -> None:
    with new_vault(tmp_path) as vault:
        for round_ in range(5):
            writer = _start(vault.path, round_, 4, 100_000)
            before = vault.contents.counts().get("dashboard", (0, 0))[0]
            deadline = time.monotonic() + 30
            while vault.contents.counts().get("dashboard", (0, 0))[0] < before + 20:
                assert time.monotonic() < deadline
                assert writer.poll() is None
                time.sleep(0.01)
            os.kill(writer.pid, signal.SIGKILL)
            writer.communicate()
            vault.upsert_many(round_ + 1, [dashboard(f"after-{round_}")])
            # Each batch holds one item of its own and one version of the shared one.
            own = sum(1 for row in vault.contents.rows() if row.id[0].isdigit())
            assert own == len(vault.contents.history("dashboard", "shared"))
    with Vault.open(vault.path):
        pass
