"""What is proven about real processes: alive, dead, unreaped, reborn, out of sight."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.leases.model import Process
from headrace.leases.this_machine import THIS_MACHINE, Liveness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="proofs come from /proc")


def liveness(process: Process, *, one_machine: bool = True) -> Liveness:
    return THIS_MACHINE.liveness(process, one_machine=one_machine)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process that says who it is and then does nothing."""
    code = (
        "from headrace.leases.this_machine import THIS_MACHINE as m\n"
        "print(m.me().model_dump_json(), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


def said_by(child: subprocess.Popen[str]) -> Process:
    assert child.stdout is not None
    return Process.model_validate_json(child.stdout.readline())


def test_we_are_alive() -> None:
    me = THIS_MACHINE.me()
    assert me.pid == os.getpid()
    assert None not in (me.boot_id, me.start_ticks, me.pid_ns)
    assert liveness(me) is Liveness.ALIVE


def test_a_neighbour_from_birth_to_burial(child: subprocess.Popen[str]) -> None:
    neighbour = said_by(child)
    assert neighbour.pid == child.pid
    assert liveness(neighbour) is Liveness.ALIVE
    os.kill(child.pid, 9)
    deadline = time.monotonic() + 10
    while liveness(neighbour) is Liveness.ALIVE and time.monotonic() < deadline:
        time.sleep(0.01)
    # No process has waited for it yet: it is a zombie, its pid is still there.
    assert Path(f"/proc/{child.pid}").exists()
    assert liveness(neighbour) is Liveness.GONE
    child.wait()
    assert liveness(neighbour) is Liveness.GONE


def test_a_reborn_pid_is_another_process() -> None:
    me = THIS_MACHINE.me()
    assert me.start_ticks is not None
    assert liveness(me.model_copy(update={"start_ticks": me.start_ticks - 1})) is Liveness.GONE


def test_a_pid_of_another_namespace_proves_nothing() -> None:
    elsewhere = THIS_MACHINE.me().model_copy(update={"pid_ns": "pid:[1]", "pid": 2**22 + 1})
    assert liveness(elsewhere) is Liveness.UNKNOWN


def test_a_reboot_is_a_proof_only_where_no_other_machine_writes() -> None:
    before = THIS_MACHINE.me().model_copy(update={"boot_id": "before"})
    assert liveness(before, one_machine=True) is Liveness.GONE
    assert liveness(before, one_machine=False) is Liveness.UNKNOWN
    namesake = before.model_copy(update={"host": "elsewhere"})
    assert liveness(namesake, one_machine=True) is Liveness.UNKNOWN


def test_unknown_facts_prove_nothing() -> None:
    me = THIS_MACHINE.me()
    for unknown in ("boot_id", "start_ticks"):
        assert liveness(me.model_copy(update={unknown: None})) is Liveness.UNKNOWN


def test_a_process_whose_first_thread_ended_is_alive() -> None:
    """Linux shows such a process as a zombie, although its other threads go on."""
    code = (
        "import ctypes, threading, time\n"
        "from headrace.leases.this_machine import THIS_MACHINE as m\n"
        "print(m.me().model_dump_json(), flush=True)\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        try:
            process = said_by(child)
            stat = Path(f"/proc/{child.pid}/stat")
            deadline = time.monotonic() + 10
            while ") Z " not in stat.read_text() and time.monotonic() < deadline:
                time.sleep(0.01)
            if ") Z " not in stat.read_text():
                pytest.skip("the first thread did not end")
            assert liveness(process) is Liveness.ALIVE
        finally:
            child.kill()


def test_boot_time_moves_forward() -> None:
    first = THIS_MACHINE.boot_s()
    assert THIS_MACHINE.boot_s() >= first > 0
