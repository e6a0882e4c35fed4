"""The stop event: parents stop their children, children stop alone."""

import gc
import sys
import threading
import weakref

import pytest

from headrace.stopping import StopEvent, Stopped


def test_a_parent_stops_all_below_it():
    parent = StopEvent()
    child = parent.child()
    grandchild = child.child()
    parent.set()
    assert child.is_set()
    assert grandchild.is_set()


def test_a_child_stops_alone():
    parent = StopEvent()
    child, sibling = parent.child(), parent.child()
    child.set()
    assert not parent.is_set()
    assert not sibling.is_set()
    parent.set()
    assert sibling.is_set()


def test_a_child_of_what_was_stopped_is_born_stopped():
    parent = StopEvent()
    parent.set()
    assert parent.child().is_set()


def test_check_raises_only_once_the_stop_was_asked_for():
    stop = StopEvent()
    stop.check()
    stop.set()
    with pytest.raises(Stopped, match="stopped on request"):
        stop.check()


def test_sleep_wakes_and_raises_when_a_parent_is_stopped():
    parent = StopEvent()
    child = parent.child()
    timer = threading.Timer(0.05, parent.set)
    timer.start()
    with pytest.raises(Stopped):
        child.sleep(60)
    timer.join()


@pytest.mark.parametrize("seconds", [0, -1, 0.001])
def test_sleep_ends_by_itself(seconds):
    StopEvent().sleep(seconds)


def test_sleep_does_not_begin_once_the_stop_was_asked_for():
    stop = StopEvent()
    stop.set()
    with pytest.raises(Stopped):
        stop.sleep(60)


def test_a_parent_does_not_keep_its_children_alive():
    parent = StopEvent()
    child = weakref.ref(parent.child())
    gc.collect()
    assert child() is None
    parent.set()


@pytest.fixture
def hasty_threads():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_children_born_while_the_stop_is_asked_for_are_stopped():
    for _ in range(40):
        parent = StopEvent()
        born = [parent.child() for _ in range(200)]
        begin = threading.Barrier(2)

        def bear(parent=parent, born=born, begin=begin):
            begin.wait()
            born.extend(parent.child() for _ in range(200))

        thread = threading.Thread(target=bear)
        thread.start()
        begin.wait()
        parent.set()
        thread.join()
        assert all(child.is_set() for child in born)
