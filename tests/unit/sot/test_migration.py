"""An unsharded log, led over and back, with damage, kills and differences on the way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, get_args

import pytest

from headrace.errors import ConfigurationError
from headrace.run.report import Status
from headrace.sot.chain import link
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.encoding import decode, encode
from headrace.sot.exceptions import (
    DamagedLog,
    ForkError,
    GapError,
    StoreMisconfigured,
    StoreUnavailable,
    WrongHash,
    WrongLink,
)
from headrace.sot.frames import STREAM_MAGIC, bodies, frame, identity, join
from headrace.sot.migration import Backfill, Migration, compare, relink
from headrace.sot.recover import recover
from headrace.sot.requests import MigrateAction, MigrateRequest
from headrace.sot.sample_records import StreamSpec, generate
from headrace.sot.store import Batch, Outcome
from headrace.sot.tree.checking import consistency_holds
from headrace.sot.tree.symbol_tree import SymbolTree
from headrace.sot.unsharded_log import OldLog, Phase, WrongPhase
from headrace.stopping import StopEvent
from tests.support.sot_chains import Chain

SYMBOLS = (0, 8, 16, 4096, 2**32 - 1)


def global_chain(records: int = 300) -> list[bytes]:
    """Outputs of one engine, chained over all symbols as the old log has them."""
    made, prev_hash = [], 0
    spec = StreamSpec(records=records, symbol_ids=SYMBOLS, hot_share=0.5, size_bytes=400)
    for number, each in enumerate(generate(spec), 1):
        body = each.body[:16] + number.to_bytes(8, "little") + each.body[24:]
        framed, prev_hash = link(frame(body), prev_hash)
        made.append(framed[4:])
    return made


CHAIN = global_chain()


@pytest.fixture
def old(tmp_path: Path) -> OldLog:
    log = OldLog(tmp_path / "old.sqlite", create=True)
    log.append(CHAIN[:200])
    return log


@pytest.fixture
def new(tmp_path: Path) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(tmp_path / "new", volumes=2)
    yield store
    store.close()


def step(old: OldLog, new: Any, action: str, **fields: Any) -> Any:
    request = MigrateRequest(store="x", old=old.location, action=action, **fields)
    return Migration(request, new, StopEvent(), lambda _: None).execute("run")


def source(tmp_path: Path, records: list[bytes]) -> str:
    path = tmp_path / f"source-{len(records)}.sot"
    path.write_bytes(STREAM_MAGIC + join(records))
    return str(path)


def test_the_old_log_takes_its_chain_once(old: OldLog) -> None:
    assert old.append(CHAIN[150:250]) == 50
    assert list(old.bodies()) == CHAIN[:250]
    assert list(old.bodies(100, 120)) == CHAIN[99:119]
    assert old.head().next_seq == 251


def test_the_old_log_refuses_what_does_not_continue_it(old: OldLog) -> None:
    other = decode(CHAIN[250])
    with pytest.raises(GapError):
        old.append(CHAIN[201:202])
    with pytest.raises(ForkError):
        old.append([_changed(CHAIN[10])])
    with pytest.raises(WrongHash):
        old.append([CHAIN[200][:-1] + bytes([CHAIN[200][-1] ^ 1])])
    wrong = encode(type(other)(**{**_fields(other), "output_seq": 201, "hash_version": 0}))
    with pytest.raises(WrongLink):
        old.append([wrong])
    assert list(old.bodies()) == CHAIN[:200]


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _changed(body: bytes) -> bytes:
    record = decode(body)
    framed, _ = link(frame(body[:-9] + bytes(1) + body[-8:]), record.prev_hash)
    return framed[4:]


def test_from_the_first_step_to_the_last_and_nothing_lost(
    tmp_path: Path, old: OldLog, new: EmbeddedStore
) -> None:
    assert step(old, new, "status").details["phase"] == "old"
    step(old, new, "begin")
    assert step(old, new, "write", source=source(tmp_path, CHAIN[:220])).status is Status.PARTIAL
    assert step(old, new, "backfill").details["added"] == 220
    written = step(old, new, "write", source=source(tmp_path, CHAIN[:240]))
    assert (written.status, written.details["written"]) == (Status.DONE, 20)
    assert step(old, new, "compare").details["equal"]
    assert step(old, new, "switch").details["reads"] == "new"
    step(old, new, "write", source=source(tmp_path, CHAIN[:260]))
    assert step(old, new, "back").details["reads"] == "old"
    assert list(old.bodies()) == CHAIN[:260]
    step(old, new, "write", source=source(tmp_path, CHAIN))
    step(old, new, "switch")
    ended = step(old, new, "end")
    assert (ended.details["phase"], ended.details["behind"]) == ("ended", 0)
    with pytest.raises(WrongPhase):
        step(old, new, "write", source=source(tmp_path, CHAIN))
    assert_same_outputs(tmp_path, new)


def test_heads_of_a_log_that_is_being_led_over_are_consistent(
    tmp_path: Path, old: OldLog, new: EmbeddedStore
) -> None:
    heads: list[tuple[int, bytes]] = []

    def note(action: str, records: int = 0) -> None:
        given = {"source": source(tmp_path, CHAIN[:records])} if records else {}
        step(old, new, action, **given)
        if new.head(8) is not None:
            tree = SymbolTree(new, 8)
            heads.append((tree.size, tree.root()))

    note("begin")
    note("write", 220)
    note("backfill")
    for records in (231, 240):
        note("write", records)
    note("switch")
    note("write", 260)
    note("back")
    note("write", 300)
    note("switch")
    note("end")
    tree = SymbolTree(new, 8)
    assert len({size for size, _ in heads}) > 4
    for smaller, larger in combinations_with_replacement(heads, 2):
        proof = tree.consistency(smaller[0], larger[0])
        assert (proof.from_root, proof.to_root) == (smaller[1], larger[1])
        assert consistency_holds(proof)


def assert_same_outputs(tmp_path: Path, new: EmbeddedStore) -> None:
    """The replay of the new log is the old one in order, but for sequence, link and hash."""
    report = recover(new, str(tmp_path / "replay.sot"))
    assert report.complete
    replayed = (tmp_path / "replay.sot").read_bytes()[len(STREAM_MAGIC) :]
    assert [_content(body) for body in bodies(replayed)] == [_content(body) for body in CHAIN]


def _content(body: bytes) -> dict[str, Any]:
    fields = _fields(decode(body))
    for name in ("output_seq", "prev_hash", "hash"):
        del fields[name]
    return fields


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ((), "switch"),
        ((), "back"),
        ((), "end"),
        ((), "backfill"),
        (("begin",), "end"),
        (("begin", "switch"), "begin"),
        (("begin", "switch", "end"), "back"),
    ],
)
def test_a_step_that_does_not_lead_on_is_refused(
    old: OldLog, new: EmbeddedStore, path: tuple[str, ...], wrong: str
) -> None:
    for action in path:
        assert step(old, new, action).status is Status.DONE
    before = old.phase()
    with pytest.raises(WrongPhase, match="does not lead on"):
        step(old, new, wrong)
    assert old.phase() is before


def test_a_step_taken_twice_is_taken_once(old: OldLog, new: EmbeddedStore) -> None:
    for action in ("begin", "begin", "backfill", "backfill", "switch", "switch", "end", "end"):
        assert step(old, new, action).status is Status.DONE, action
    assert old.phase() is Phase.ENDED


class Killed(Exception):
    """In place of a kill: nothing of ours is tidied up."""


class Store:
    """The new log, dying at its n-th commit, before or after the records are in."""

    def __init__(self, inner: EmbeddedStore, at: int, *, stored: bool, error: Exception) -> None:
        self._inner = inner
        self._left = at
        self._stored = stored
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, batches: list[Batch]) -> list[Outcome]:
        self._left -= 1
        if self._left == 0:
            if self._stored:
                self._inner.commit(batches)
            raise self._error
        return self._inner.commit(batches)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_a_backfill_that_was_killed_goes_on(
    old: OldLog, new: EmbeddedStore, at: int, stored: bool
) -> None:
    step(old, new, "begin")
    with pytest.raises(Killed):
        Backfill(old, Store(new, at, stored=stored, error=Killed()), batch=7).run()
    Backfill(old, new, batch=11).run()
    found = compare(old, new)
    assert (found.differences, found.records, found.symbols) == ([], 200, len(SYMBOLS))


def test_a_new_log_in_trouble_is_left_behind_until_reads_are_switched(
    tmp_path: Path, old: OldLog, new: EmbeddedStore
) -> None:
    step(old, new, "begin")
    step(old, new, "backfill")
    down = StoreUnavailable("there", "writing", "no answer")
    sick = Store(new, 1, stored=False, error=down)
    behind = step(old, sick, "write", source=source(tmp_path, CHAIN[:210]))
    assert (behind.status, behind.details["behind"]) == (Status.PARTIAL, 10)
    assert old.head().next_seq == 211
    step(old, new, "backfill")
    step(old, new, "switch")
    sick = Store(new, 1, stored=False, error=down)
    with pytest.raises(StoreUnavailable):
        step(old, sick, "write", source=source(tmp_path, CHAIN[:220]))
    assert step(old, new, "backfill").details["behind"] == 0


def test_a_difference_is_named_and_nothing_is_switched(old: OldLog, new: EmbeddedStore) -> None:
    step(old, new, "begin")
    step(old, new, "backfill")
    before = {symbol_id: new.head(symbol_id) for symbol_id in SYMBOLS}
    head = new.claim(8, first_seq=1)
    extra = next(body for body in CHAIN[200:] if identity(body)[0] == 8)
    framed, after = relink(extra, head.position)
    new.commit([Batch(8, head.epoch, head.position, after, framed)])
    report = step(old, new, "switch")
    assert report.status is Status.PARTIAL
    assert old.phase() is Phase.DUAL
    assert before[8] is not None
    assert report.problems == (
        f"symbol 8, seq {before[8].position.next_seq}: the logs differ from here on",
    )


def test_a_symbol_that_only_one_log_has_is_named(old: OldLog, new: EmbeddedStore) -> None:
    step(old, new, "begin")
    assert len(compare(old, new).differences) == len(SYMBOLS)
    Backfill(old, new).run()
    head = new.claim(77, first_seq=1)
    assert compare(old, new).equal, "a claim alone is no record"
    Chain.at(head).write(new, 2)
    assert compare(old, new).differences == ["symbol 77: the old log has nothing of it"]


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("DELETE FROM engine_output_log WHERE output_seq = 90", 90),
        ("UPDATE engine_output_log SET hash = hash + 1 WHERE output_seq = 120", 120),
        ("UPDATE engine_output_log SET output_data = zeroblob(400) WHERE output_seq = 7", 7),
        ("DELETE FROM engine_output_log WHERE output_seq = 1", 1),
    ],
)
def test_damage_in_the_old_log_is_named_and_not_led_over(
    old: OldLog, new: EmbeddedStore, statement: str, seq: int
) -> None:
    step(old, new, "begin")
    with closing(sqlite3.connect(old.path)) as db:
        db.execute(statement)
        db.commit()
    with pytest.raises(DamagedLog, match=rf"output_seq {seq}\b"):
        step(old, new, "backfill")
    with pytest.raises(DamagedLog):
        step(old, new, "switch")
    assert old.phase() is Phase.DUAL


@pytest.mark.parametrize("action", get_args(MigrateAction))
def test_no_action_makes_an_old_log(tmp_path: Path, new: EmbeddedStore, action: str) -> None:
    path = tmp_path / "mistyped.sqlite"
    request = MigrateRequest(
        store="x", old=str(path), action=action, source=source(tmp_path, CHAIN[:20])
    )
    with pytest.raises(StoreMisconfigured, match="no such file"):
        Migration(request, new, StopEvent(), lambda _: None).execute("run")
    assert not path.exists()


def test_what_is_no_old_log_is_refused(tmp_path: Path, old: OldLog, new: EmbeddedStore) -> None:
    with pytest.raises(StoreMisconfigured, match="no such file"):
        OldLog(tmp_path / "absent")
    (tmp_path / "text").write_text("not a database, and long enough to be looked at" * 20)
    with pytest.raises(DamagedLog, match="Name the file of the unsharded log"):
        OldLog(tmp_path / "text")
    with closing(sqlite3.connect(tmp_path / "other")) as db:
        db.execute("CREATE TABLE trades (a)")
    with pytest.raises(StoreMisconfigured, match="no unsharded log"):
        OldLog(tmp_path / "other", create=True)
    with pytest.raises(ConfigurationError, match="needs a source"):
        step(old, new, "write")


def test_a_cursor_that_is_damaged_or_ahead_is_no_cursor(old: OldLog, new: EmbeddedStore) -> None:
    step(old, new, "begin")
    for value, what in (("{", "cannot be read"), ('{"old_next": 1}', "cannot be read")):
        _set_cursor(old, value)
        with pytest.raises(DamagedLog, match=what):
            step(old, new, "backfill")
    _set_cursor(old, '{"old_next": 100, "next_seqs": {"0": 60, "8": 9, "16": 9, "4096": 9}}')
    with pytest.raises(DamagedLog, match="had everything up to"):
        step(old, new, "backfill")


def _set_cursor(old: OldLog, value: str) -> None:
    with closing(sqlite3.connect(old.path)) as db:
        db.execute("INSERT OR REPLACE INTO migration VALUES ('cursor', ?)", (value,))
        db.commit()


def test_malformed_input_keeps_what_came_before(
    tmp_path: Path, old: OldLog, new: EmbeddedStore
) -> None:
    path = tmp_path / "cut.sot"
    path.write_bytes((STREAM_MAGIC + join(CHAIN[:210]))[:-3])
    report = step(old, new, "write", source=str(path))
    assert report.status is Status.PARTIAL
    assert "cut.sot" in report.problems[0]
    assert old.head().next_seq == 210


@pytest.mark.parametrize("phase", ["dual", "new"])
@pytest.mark.parametrize(
    ("at", "value", "named"),
    [
        (24, b"\1" * 8, "is not that of its content"),
        (9, b"\0", "prev_hash|is not that"),
        (8, b"\7", "encoding_version: is 7"),
    ],
)
def test_a_record_that_does_not_fit_ends_a_write_behind_all_before_it(
    tmp_path: Path, old: OldLog, new: EmbeddedStore, phase: str, at: int, value: bytes, named: str
) -> None:
    step(old, new, "begin")
    step(old, new, "switch" if phase == "new" else "backfill")
    corrupt = bytearray(CHAIN[230])
    corrupt[at : at + len(value)] = value
    if at == 9:  # another hash version, so that only its link shows it
        corrupt[24:32] = b"\1" * 8
    records = [*CHAIN[200:230], bytes(corrupt), *CHAIN[231:]]
    report = step(old, new, "write", source=source(tmp_path, records))
    assert report.status is Status.PARTIAL
    assert report.details["written"] == 30
    assert old.head().next_seq == 231
    [problem] = report.problems
    assert f"symbol {identity(CHAIN[230])[0]}, seq 231" in problem
    assert any(part in problem for part in named.split("|"))
    assert compare(old, new).equal
    again = step(old, new, "write", source=source(tmp_path, CHAIN))
    assert (again.status, again.details["written"]) == (Status.DONE, 70)


def test_a_write_without_a_source_makes_no_old_log(tmp_path: Path, new: EmbeddedStore) -> None:
    for given in ("", str(tmp_path / "absent.sot")):
        request = MigrateRequest(
            store="x", old=str(tmp_path / "fresh"), action="write", source=given
        )
        with pytest.raises(ConfigurationError):
            Migration(request, new, StopEvent(), lambda _: None).execute("run")
        assert not (tmp_path / "fresh").exists()


def test_a_stop_ends_a_write_with_both_logs_alike(
    tmp_path: Path, old: OldLog, new: EmbeddedStore
) -> None:
    step(old, new, "begin")
    step(old, new, "backfill")
    stop = StopEvent()
    request = MigrateRequest(
        store="x", old=old.location, action="write", source=source(tmp_path, CHAIN), batch=10
    )
    report = Migration(request, new, stop, lambda _: stop.set()).execute("run")
    assert report.stopped
    assert old.head().next_seq < 300
    assert compare(old, new).equal


@pytest.mark.parametrize("column", ["hash", "prev_hash", "output_data"])
@pytest.mark.parametrize("value", ["'x'", "1.5", "x'00'", "''"])
def test_a_column_of_another_type_is_damage(old: OldLog, column: str, value: str) -> None:
    with closing(sqlite3.connect(old.path)) as db:
        db.execute(f"UPDATE engine_output_log SET {column} = {value} WHERE output_seq = 7")
        db.commit()
    with pytest.raises(DamagedLog, match="output_seq 7"):
        list(old.bodies())


def test_a_head_of_another_type_is_damage(old: OldLog, new: EmbeddedStore) -> None:
    with closing(sqlite3.connect(old.path)) as db:
        db.execute("UPDATE engine_output_log SET hash = 'x' WHERE output_seq = 200")
        db.commit()
    with pytest.raises(DamagedLog, match="output_seq 200"):
        step(old, new, "status")
