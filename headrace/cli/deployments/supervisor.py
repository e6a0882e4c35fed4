"""The serving process: `python -m headrace.cli.deployments.supervisor HOME PLAN FOLDER`.

Keeps the runner alive (see `runner`), whatever ends it: an API that was away for too long, a kill,
too little memory. What a runner that died left running is ended first, so that no run goes on
unsupervised. Ends at a signal, and when `down` has no record of it any more.

Needs nothing but the standard library and psutil: some 25 MB beside the runner's 150.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headrace.cli.server.process import TOKEN_VARIABLE, end_others_carrying
from headrace.cli.server.state import DEPLOYMENTS, ServingNote, StateFolder, read_note, write_note

_LOOK_EVERY_S = 1.0
_LOOKS_BEFORE_THE_END = 3
#: A runner that lived this long is restarted at once; others wait twice as long each time.
_GOOD_LIFE_S = 60.0
_LONGEST_PAUSE_S = 30.0
#: How long the runner may take to end its runs, which keep what is complete (8 s at most).
_END_TIMEOUT_S = 20.0


class Supervisor:
    """Starts `command` again and again until `end`.

    Args:
        folder: the state folder, with the note on this process.
        token: what this process is known by.
        command: the runner.
    """

    def __init__(self, folder: StateFolder, token: str, command: Sequence[str]) -> None:
        self._folder = folder
        self._token = token
        self._command = list(command)
        self._over = threading.Event()
        self._unknown_looks = 0
        self._next_look = 0.0

    def end(self) -> None:
        """Begin to end; may be called from a signal handler."""
        self._over.set()

    def run(self) -> None:
        """Keep the runner alive until `end`."""
        pause_s = 1.0
        while not self._over.is_set():
            began = time.monotonic()
            child = subprocess.Popen(self._command)
            self._watch(child)
            if not self._over.is_set():
                lived_s = time.monotonic() - began
                pause_s = 1.0 if lived_s > _GOOD_LIFE_S else min(2 * pause_s, _LONGEST_PAUSE_S)
                # Before what it left is ended, which takes seconds: nothing is served in them.
                self._report(f"the runner ended with {child.returncode}; again in {pause_s:g} s")
            end_others_carrying(self._token, grace_s=_END_TIMEOUT_S)
            self._over.wait(pause_s)

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        """Return when the child has ended, by itself or because it is over."""
        while child.poll() is None:
            if self._over.wait(0.2) or self._is_unknown():
                self._over.set()
                self._end(child)

    @staticmethod
    def _end(child: subprocess.Popen[bytes]) -> None:
        child.terminate()
        try:
            child.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _is_unknown(self) -> bool:
        """Whether three looks in a row found no record of this process."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK_EVERY_S
        record = self._folder.read_record(DEPLOYMENTS)
        known = record is not None and record.token == self._token
        self._unknown_looks = 0 if known else self._unknown_looks + 1
        return self._unknown_looks >= _LOOKS_BEFORE_THE_END

    def _report(self, line: str) -> None:
        sys.stderr.write(f"supervisor: {line}\n")
        sys.stderr.flush()
        note = read_note(self._folder, self._token) or ServingNote(token=self._token)
        restarted = msgspec.structs.replace(note, restarts=note.restarts + 1, deployments=[])
        write_note(self._folder, restarted)


def main(home: str, plan: str, folder: str) -> None:
    """Serve until a signal."""
    token = os.environ[TOKEN_VARIABLE]
    runner = [sys.executable, "-m", "headrace.cli.deployments.runner", home, plan, folder]
    supervisor = Supervisor(StateFolder(Path(home)), token, runner)
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda _number, _frame: supervisor.end())
    supervisor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
