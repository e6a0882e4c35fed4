"""A signal stops a run wherever it meets the main thread, and a second one ends the process."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading

import pytest

from headrace.signals import leave_on_signals, stop_on_signals

SIGNALS = [signal.SIGTERM, signal.SIGINT]

#: It sends itself two signals, and would say so if it lived on.
TWICE = """
import os, signal
from headrace.signals import stop_on_signals
with stop_on_signals() as stop:
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.wait(10)
    print("kept what is complete", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    print("still there", flush=True)
"""


@pytest.mark.parametrize("sign", SIGNALS)
def test_the_first_signal_sets_the_stop_and_what_was_before_comes_back(sign: signal.Signals):
    before = signal.getsignal(sign)
    with stop_on_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), sign)
        assert stop.wait(10)
    assert signal.getsignal(sign) is before


def test_a_second_signal_ends_the_process():
    end = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (end.returncode, end.stdout) == (130, "kept what is complete\n")


LEAVES = """
import os, signal, sys, time
from headrace.signals import leave_on_signals, stop_on_signals

def give_back():
    print("given back", flush=True)
    time.sleep(float(sys.argv[3]))

def send(times):
    for _ in range(times):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.2)

with leave_on_signals(give_back):
    with stop_on_signals() as stop:
        send(1)
        assert stop.wait(10)
        print("the run ended", flush=True)
    try:
        send(int(sys.argv[2]))
        time.sleep(30)
    except BaseException as error:
        print("raised", error, flush=True)
"""


@pytest.mark.parametrize("sign", SIGNALS)
@pytest.mark.parametrize(("times", "takes_s"), [(1, 0.0), (1, 60.0), (2, 60.0)])
def test_around_a_run_a_signal_gives_back_what_is_held_and_ends_the_process_in_time(
    sign: signal.Signals, times: int, takes_s: float
):
    end = subprocess.run(
        [sys.executable, "-c", LEAVES, str(int(sign)), str(times), str(takes_s)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (end.returncode, end.stdout) == (130, "the run ended\ngiven back\n")
    assert "Traceback" not in end.stderr


@pytest.mark.parametrize("sign", SIGNALS)
def test_after_it_the_handlers_are_those_of_before(sign: signal.Signals):
    before = signal.getsignal(sign)
    with leave_on_signals(lambda: pytest.fail("it was not asked for")):
        assert signal.getsignal(sign) is not before
    assert signal.getsignal(sign) is before


@pytest.mark.timeout(20)
def test_a_signal_that_comes_while_the_main_thread_holds_the_lock_of_the_event():
    with stop_on_signals() as stop:
        # Where `stop.wait` and `stop.set` are for a moment whenever they are called.
        with stop._cond:
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)


@pytest.mark.timeout(20)
def test_a_signal_that_comes_while_the_main_thread_holds_the_lock_of_a_log_queue(
    caplog: pytest.LogCaptureFixture,
):
    from logging.handlers import QueueHandler

    from headrace.signals import log

    lines: queue.Queue[object] = queue.Queue()
    handler = QueueHandler(lines)
    log.addHandler(handler)
    try:
        with stop_on_signals() as stop:
            # As Prefect's own handler is, while it puts a line into its queue.
            with lines.mutex:
                os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(10)
            assert "SIGTERM" in lines.get(timeout=10).getMessage()  # type: ignore[attr-defined]
    finally:
        log.removeHandler(handler)


def test_in_another_thread_there_are_no_handlers_and_nothing_fails():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def body() -> None:
        with stop_on_signals() as stop:
            seen.append((signal.getsignal(signal.SIGTERM) is before, stop.is_set()))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [(True, False)]


def test_the_thread_behind_it_ends_with_the_block():
    with stop_on_signals():
        (grace,) = (each for each in threading.enumerate() if each.name == "headrace-signals")
    grace.join(10)
    assert not grace.is_alive()
