"""A crowd of processes that want one lease, each as if it were a machine of its own.

    python -m tests.lease_crowd LOCATION PROCESSES ROUNDS FOLDER

Each takes the lease `ROUNDS` times. While it holds it, it takes a lock on `FOLDER/inside`, on which
no other process may be waiting or working, and appends its token to `FOLDER/tokens`. With
`PROCESSES` 1 the process says `holding` first, and goes on after a line on stdin.
"""

from __future__ import annotations

import fcntl
import os
import random
import sys
import time
from pathlib import Path
from uuid import uuid4

from headrace.leases import LeaseHeld, LeaseLost, hold, open_leases
from headrace.leases.model import Process
from headrace.leases.this_machine import Liveness, ThisMachine

NAME = "coinbase/BTC-USD"
TTL_S = 5.0
LIMIT_S = 100.0


class Alone(ThisMachine):
    """This machine, which no other process of the crowd can know to be the same."""

    def __init__(self) -> None:
        self._me = (
            super().me().model_copy(update={"boot_id": uuid4().hex, "host": f"h{os.getpid()}"})
        )

    def me(self) -> Process:
        return self._me

    def liveness(self, process: Process, *, one_machine: bool) -> Liveness:
        return Liveness.UNKNOWN


def take_turns(location: str, rounds: int, folder: Path, *, alone: bool) -> None:
    store = open_leases(location)
    store._machine = Alone()
    deadline = time.monotonic() + LIMIT_S
    while rounds:
        try:
            with hold(store, NAME, run_id=str(os.getpid()), ttl_s=TTL_S) as lease:
                if alone:
                    print("holding", flush=True)
                    sys.stdin.readline()
                with (folder / "inside").open("ab") as inside:
                    lease.check()
                    fcntl.flock(inside, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    with (folder / "tokens").open("a") as tokens:
                        tokens.write(f"{lease.token}\n")
                    time.sleep(0.02)
            rounds -= 1
        except LeaseHeld:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.05, 0.3))
        except LeaseLost:
            # Twenty processes starve each other; one that lost its lease has written nothing.
            if alone:
                raise


def main() -> int:
    location, processes, rounds, folder = sys.argv[1:5]
    alone = processes == "1"
    children = []
    for _ in range(0 if alone else int(processes)):
        if pid := os.fork():
            children.append(pid)
            continue
        code = 1
        try:
            take_turns(location, int(rounds), Path(folder), alone=False)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    if alone:
        try:
            take_turns(location, 1, Path(folder), alone=True)
        except LeaseLost as loss:
            print(f"lost: {loss.reason}", flush=True)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in children)


if __name__ == "__main__":
    sys.exit(main())
