"""The command under odd circumstances: many of them for the price of one start.

A process loads the command once; each case is a fork of it that changes what a real environment
would, and then begins as the `headrace` script does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PROGRAM = """
import io, json, os, resource, sys, tempfile, time
from headrace.cli import (
    doctor, entry, lease, looker, main, metrics, pipelines, quota, sot, up,
)
import headrace.cli.config, headrace.cli.looker.contents, headrace.cli.sot.commands

def change(case):
    os.environ.update(case["set"])
    for name in case["unset"]:
        os.environ.pop(name, None)
    time.tzset()
    for name, limit in case["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    if case["umask"] is not None:
        os.umask(case["umask"])
    if case["folder"]:
        os.chdir(case["folder"])
    if case["folder_gone"]:
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            open(number, "wb", closefd=False), encoding=case["encoding"], line_buffering=True
        )
        setattr(sys, name, stream)
    for number in case["closed"]:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    if case["user"]:
        os.setgroups([])
        os.setgid(case["user"])
        os.setuid(case["user"])

def run(case):
    places = [case["stdout"] or tempfile.mktemp(), case["stderr"] or tempfile.mktemp()]
    child = os.fork()
    if child == 0:
        code = 99
        try:
            for number, place in enumerate(places, 1):
                os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT, 0o666), number)
            change(case)
            sys.argv = ["headrace", *case["words"]]
            entry.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            if code == 99:
                os.write(2, b"Traceback: it escaped")
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = [open(place, "rb").read(100_000) if os.path.isfile(place) else b"" for place in places]
    return [ended, *(text.decode(case["encoding"], "replace") for text in said)]

print(json.dumps([run(case) for case in json.load(sys.stdin)]))
"""


@dataclass(frozen=True)
class Case:
    """What is different, and which command meets it."""

    words: Sequence[str]
    set: dict[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    limits: dict[str, int] = field(default_factory=dict)
    umask: int | None = None
    folder: str = ""
    folder_gone: bool = False
    encoding: str = "utf-8"
    closed: Sequence[int] = ()
    stdout: str = ""
    stderr: str = ""
    user: int = 0


@dataclass(frozen=True)
class Ended:
    """What became of it."""

    code: int
    out: str
    err: str


def run_cases(cases: Sequence[Case], home: Path) -> list[Ended]:
    """Run each with this state folder, and nothing of the developer's own settings."""
    foreign = ("PREFECT_", "HEADRACE_", "AWS_", "COLUMNS")
    own = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([asdict(case) for case in cases]),
        env={**own, "HEADRACE_HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"},
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return [Ended(*each) for each in json.loads(done.stdout.splitlines()[-1])]
