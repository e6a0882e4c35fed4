"""With JSON asked for, every line on standard error is JSON, whatever wrote it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import asyncio, logging, sys, threading, traceback, warnings
from headrace.cli import entry, main

class Broken:
    def __del__(self):
        raise ValueError("in a destructor")

async def forgotten():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)

def command():
    warnings.warn("an odd value", stacklevel=1)
    logging.getLogger("some.library").error("two\\nlines")
    logging.getLogger("prefect.console").handlers = [logging.StreamHandler()]
    logging.getLogger("prefect.console").warning("12:00 | WARNING | by its own handler")
    print("printed", file=sys.stderr)
    print("a question? ", end="", file=sys.stderr, flush=True)
    print('{"is": "JSON already"}', file=sys.stderr)
    print("not \\udcff UTF-8 \\u2026", file=sys.stderr)
    asyncio.run(forgotten())
    thread = threading.Thread(target=lambda: {}["absent"], name="worker-7")
    thread.start()
    thread.join()
    Broken()
    raise RuntimeError("at last")

main.main = command
entry.main()
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**os.environ, "PYTHONIOENCODING": "ascii", **environment},
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_whatever_writes_there_writes_json() -> None:
    done = run("backfill", "--log-format", "json")
    lines = [json.loads(line) for line in done.stderr.decode("utf-8").splitlines()]
    messages = [str(line.get("message")) for line in lines]
    for words in (
        "an odd value",
        "two",
        "12:00 | WARNING | by its own handler",
        "printed",
        "a question? ",
        "ZeroDivisionError",
        "the thread worker-7 ended: KeyError: 'absent'",
        "ValueError: in a destructor",
        "the process ended: RuntimeError: at last",
    ):
        assert any(words in message for message in messages), (words, messages)
    assert {"is": "JSON already"} in lines
    thread = next(line for line in lines if "worker-7" in str(line.get("message")))
    assert "Traceback" in thread["traceback"]
    assert done.returncode == 1


def test_a_variable_asks_for_it_too_and_an_option_goes_before_it() -> None:
    assert run("backfill", HEADRACE_LOG_FORMAT="json").stderr.startswith(b"{")
    human = run("backfill", "--log-format=human", HEADRACE_LOG_FORMAT="json")
    assert not human.stderr.startswith(b"{")
