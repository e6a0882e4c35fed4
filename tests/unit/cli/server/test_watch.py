"""When a server that was not stopped ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from headrace.cli.server import ProcessRecord, StateFolder
from headrace.cli.server.launch import watch
from headrace.cli.server.state import SERVER, UsersLock
from headrace.locks import locked

RECORD = ProcessRecord(name=SERVER, pid=1, token="mine", started_at=0.0, kept=False)


class StillWatchingError(Exception):
    pass


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path)


def looks_until_the_end(
    folder: StateFolder, between: Callable[[int], None] = lambda look: None
) -> int:
    """Return how often it looked; raise if it would go on for ever."""
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        if looks == 20:
            raise StillWatchingError
        between(looks)
        looks += 1

    ended: list[bool] = []
    watch(folder, "mine", lambda: ended.append(True), sleep=sleep)
    assert ended == [True]
    return looks


def test_without_a_user_it_ends(folder: StateFolder) -> None:
    folder.write_record(RECORD)
    assert looks_until_the_end(folder) == 3


def test_with_a_user_it_stays(folder: StateFolder) -> None:
    folder.write_record(RECORD)
    with UsersLock(folder.users_lock).held(), pytest.raises(StillWatchingError):
        looks_until_the_end(folder)


def test_kept_it_stays(folder: StateFolder) -> None:
    folder.write_record(msgspec.structs.replace(RECORD, kept=True))
    with pytest.raises(StillWatchingError):
        looks_until_the_end(folder)


def test_replaced_or_forgotten_it_ends_even_when_used(folder: StateFolder) -> None:
    with UsersLock(folder.users_lock).held():
        assert looks_until_the_end(folder) == 3
        folder.write_record(msgspec.structs.replace(RECORD, token="another", kept=True))
        assert looks_until_the_end(folder) == 3


def test_a_gap_between_two_users_is_no_reason(folder: StateFolder) -> None:
    def user_at_the_third_look(look: int) -> None:
        folder.write_record(msgspec.structs.replace(RECORD, kept=look == 2))

    assert looks_until_the_end(folder, user_at_the_third_look) == 6


def test_it_says_that_it_ends_before_it_does(folder: StateFolder) -> None:
    folder.write_record(RECORD)
    looks_until_the_end(folder)
    assert folder.read_record(SERVER) == msgspec.structs.replace(RECORD, ending=True)


def test_the_note_on_another_is_left_alone(folder: StateFolder) -> None:
    another = msgspec.structs.replace(RECORD, token="another's")
    folder.write_record(another)
    looks_until_the_end(folder)
    assert folder.read_record(SERVER) == another


def test_while_a_command_is_at_it_it_does_not_end(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.server.launch._LOOK_EVERY_S", 0.01)
    folder.write_record(RECORD)
    with locked(folder.control_lock, limit_s=1), pytest.raises(StillWatchingError):
        looks_until_the_end(folder)
    assert folder.read_record(SERVER) == RECORD


def test_a_holder_that_came_just_before_keeps_it(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def after_another_command(path: Path, *, limit_s: float) -> Iterator[None]:
        """They had the lock, and wanted the server to stay."""
        folder.write_record(msgspec.structs.replace(RECORD, kept=True))
        with locked(path, limit_s=limit_s):
            yield

    monkeypatch.setattr("headrace.cli.server.launch.locked", after_another_command)
    folder.write_record(RECORD)
    with pytest.raises(StillWatchingError):
        looks_until_the_end(folder)
