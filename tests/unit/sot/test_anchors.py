"""Anchors: heads put into each kind of place, and every way in which a log may not fit them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.evidence.statements import canonical
from headrace.sot.anchors.compare import (
    Comparison,
    PlaceReport,
    anchor_line,
    keep_head,
    stamped_bytes,
)
from headrace.sot.anchors.exceptions import (
    AnchorsMisconfigured,
    AnchorsMissing,
    AnchorsUnavailable,
    StampRefused,
)
from headrace.sot.anchors.places import FileAnchors, GitAnchors, open_place
from headrace.sot.anchors.timestamps import check_stamp, load_roots, request_stamp
from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.tree.log_head import LogHead, sign_head
from headrace.sot.verify import verify_store
from headrace.sot.verify_plan import Mode
from tests.support.sot_chains import Chain
from tests.support.timestamps import Authority, authority

KEY = SigningKey.make()
KEYS = KeyList([PublicKey(KEY.public_key, "2026-01-01T00:00:00Z")])
NOW = datetime(2026, 1, 31, 3, 45, tzinfo=UTC)


def grow(folder: Path, records: int, *, data: bytes = b"order") -> None:
    store = EmbeddedStore(folder, volumes=3)
    for symbol_id in (1, 2, 3):
        store.commit([Chain.claimed(store, symbol_id).batch(records, data=data)])
    store.close()


def head_of(folder: Path, days: int = 0, key: SigningKey = KEY) -> LogHead:
    store = EmbeddedStore(folder)
    head = sign_head(store, key, now=NOW + timedelta(days=days))
    store.close()
    return head


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    grow(folder, 20)
    return folder


@pytest.fixture
def anchors(tmp_path: Path) -> FileAnchors:
    return FileAnchors(str(tmp_path / "anchors.jsonl"))


def held(folder: Path, *places: FileAnchors | GitAnchors, keys: KeyList = KEYS) -> PlaceReport:
    store = EmbeddedStore(folder)
    [report] = Comparison(store, keys).hold_against(places)
    store.close()
    return report


def test_a_log_that_grows_fits_all_that_was_anchored(log: Path, anchors: FileAnchors) -> None:
    assert held(log, anchors) == PlaceReport(anchors.where)
    assert held(log, anchors).empty
    for days in range(3):
        [kept] = keep_head(head_of(log, days), None, [anchors])
        assert not kept.failure
        grow(log, 7)
    report = held(log, anchors)
    assert (report.heads, report.misfit, report.last) == (3, "", "2026-02-02T03:45:00Z")


def rewrite(log: Path) -> None:
    """Other content from some record on, and every digest after it."""
    shutil.rmtree(log)
    grow(log, 20, data=b"other")


def cut(log: Path) -> None:
    shutil.rmtree(log)
    grow(log, 19)


def drop_a_symbol(log: Path) -> None:
    (log / "volume-0002.sot").unlink()
    (log / "volume-0002.tip").unlink()


def swap(log: Path) -> None:
    """What symbol 1 said is in the chain of symbol 2, and the other way."""
    shutil.rmtree(log)
    store = EmbeddedStore(log, volumes=3)
    for symbol_id, data in ((1, b"2"), (2, b"1"), (3, b"order")):
        store.commit([Chain.claimed(store, symbol_id).batch(20, data=data)])
    store.close()


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (rewrite, "symbol 1: .*first 20 records are not those"),
        (cut, "symbol 1: .*had 20 records, 19 are left"),
        (drop_a_symbol, "symbol 2: .*had 20 records, which cannot be read"),
        (swap, "symbol 1: .*first 20 records are not those"),
    ],
)
def test_what_the_holder_of_the_store_did_is_named(
    log: Path, anchors: FileAnchors, tamper: Callable[[Path], None], named: str
) -> None:
    keep_head(head_of(log), None, [anchors])
    store_id = (log / "store.id").read_bytes()
    tamper(log)
    (log / "store.id").write_bytes(store_id)
    store = EmbeddedStore(log)
    assert verify_store(store, Mode.FULL, processes=0).good, "by itself it is a sound log"
    store.close()
    report = held(log, anchors)
    assert report.heads == 0
    assert re.search(f"line 1: {named}", report.misfit), report.misfit
    assert "signed on 2026-01-31T03:45:00Z" in report.misfit


def test_an_old_copy_is_named_by_the_first_head_after_it(
    log: Path, anchors: FileAnchors, tmp_path: Path
) -> None:
    keep_head(head_of(log), None, [anchors])
    shutil.copytree(log, tmp_path / "old")
    grow(log, 5)
    keep_head(head_of(log, 1), None, [anchors])
    report = held(tmp_path / "old", anchors)
    assert report.heads == 1
    assert "line 2: symbol 1" in report.misfit
    assert "had 25 records, 20 are left" in report.misfit


def test_another_log_does_not_fit(log: Path, anchors: FileAnchors) -> None:
    keep_head(head_of(log), None, [anchors])
    (log / "store.id").write_text("0" * 32 + "\n")
    assert "this one is 0000" in held(log, anchors).misfit


def test_a_file_whose_heads_are_to_be_checked_exists(tmp_path: Path) -> None:
    path = tmp_path / "mistyped.jsonl"
    with pytest.raises(AnchorsMissing, match="does not exist"):
        open_place(str(path), there=True)
    assert not path.exists()
    path.touch()
    assert open_place(str(path), there=True).where == str(path)


def test_a_place_of_another_log_takes_no_head(
    log: Path, tmp_path: Path, anchors: FileAnchors, repository: Path
) -> None:
    second = tmp_path / "second"
    grow(second, 3)
    first_head, second_head = head_of(log), head_of(second)
    for place in (anchors, open_place(f"git:{repository}")):
        assert [kept.failure for kept in keep_head(first_head, None, [place])] == [""]
        [kept] = keep_head(second_head, None, [place])
        assert f"heads of log {first_head.store_id}, this one is of" in kept.failure
        assert second_head.store_id in kept.failure
        assert "Name another place" in kept.failure
        assert held(log, place).heads == 1
        assert not held(log, place).misfit, "the first log fits still"


def test_a_head_that_was_changed_or_that_another_key_signed_does_not_fit(
    log: Path, anchors: FileAnchors
) -> None:
    good = head_of(log)
    fields = json.loads(good.as_line())
    shorter = json.loads(good.as_line())
    shorter["symbols"][0]["size"] = "19"
    later = json.loads(good.as_line())
    later["head"]["payload"]["time"] = "2030-01-01T00:00:00Z"
    stranger = json.loads(head_of(log, key=SigningKey.make()).as_line())
    for line, named in (
        (canonical(shorter), "not over the symbols"),
        (canonical(later), "signature is not that of key"),
        (canonical(stranger), "not in the list of public keys"),
        (canonical({**fields, "symbols": [{"symbol": -1}]}), "KeyError"),
        (b"[]", "it is no signed head"),
        (b"{", "Expecting"),
    ):
        Path(anchors.where).write_bytes(line + b"\n")
        assert named in held(log, anchors).misfit


def test_a_line_that_a_kill_cut_off_is_named_and_does_not_spoil_the_next(
    log: Path, anchors: FileAnchors
) -> None:
    Path(anchors.where).write_bytes(b'{"head": ')
    keep_head(head_of(log), None, [anchors])
    assert "line 1" in held(log, anchors).misfit
    assert len(list(anchors.lines())) == 2


def git(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@localhost")
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def test_a_git_repository_keeps_them_with_its_origin(
    log: Path, repository: Path, tmp_path: Path
) -> None:
    place = open_place(f"git:{repository}")
    assert held(log, place).heads == 0
    [kept] = keep_head(head_of(log), None, [place])
    assert "no origin" in kept.protection
    assert held(log, place).heads == 1
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(repository, "remote", "add", "origin", str(tmp_path / "origin.git"))
    assert held(log, place).heads == 0, "the origin is what counts"
    [kept] = keep_head(head_of(log, 1), None, [place])
    assert kept.protection == "pushed to origin"
    assert held(log, place).heads == 2
    # The working tree was rewritten: the origin still has what was pushed.
    (repository / "sot-heads.jsonl").write_text("")
    git(repository, "commit", "-q", "-a", "-m", "nothing to see")
    assert held(log, place).heads == 2
    shutil.rmtree(tmp_path / "origin.git")
    assert "ls-remote" in held(log, place).unreachable
    [kept] = keep_head(head_of(log, 2), None, [place])
    assert "push" in kept.failure


@pytest.mark.parametrize("location", ["", "ftp://x/y", "git:/", "/", "/no/such/folder/x", "s3://"])
def test_what_is_no_place_is_named(location: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_place(location)
    assert isinstance(caught.value, AnchorsMisconfigured)


def test_a_file_that_cannot_be_written_is_a_failure_of_that_place_alone(
    log: Path, anchors: FileAnchors, tmp_path: Path
) -> None:
    other = FileAnchors(str(tmp_path / "other.jsonl"))
    Path(anchors.where).mkdir()
    kept = keep_head(head_of(log), None, [anchors, other])
    assert kept[0].failure
    assert not kept[1].failure
    with pytest.raises(AnchorsUnavailable):
        list(anchors.lines())


@pytest.fixture
def tsa(tmp_path: Path) -> Iterator[Authority]:
    with authority(tmp_path / "tsa") as made:
        yield made


def test_a_head_is_stamped_and_the_stamp_is_checked(
    log: Path, anchors: FileAnchors, tsa: Authority
) -> None:
    head = head_of(log)
    stamp = request_stamp(tsa.url, stamped_bytes(head))
    roots = load_roots(str(tsa.certificates))
    now = datetime.now(UTC)
    assert abs(check_stamp(stamp, stamped_bytes(head), roots, now=now) - now) < timedelta(minutes=5)
    keep_head(head, stamp, [anchors])
    store = EmbeddedStore(log)
    [report] = Comparison(store, KEYS, roots).hold_against([anchors])
    assert (report.heads, report.stamped, report.misfit) == (1, 1, "")
    # The stamp of another head does not fit.
    Path(anchors.where).write_bytes(anchor_line(head_of(log, 1), stamp))
    [report] = Comparison(store, KEYS, roots).hold_against([anchors])
    assert "Mismatch between messages" in report.misfit
    store.close()


def test_an_expired_certificate_of_the_authority_is_named(tsa: Authority) -> None:
    now = datetime.now(UTC)
    tsa.certify(now - timedelta(days=9), now - timedelta(days=2))
    stamp = request_stamp(tsa.url, b"message")
    roots = load_roots(str(tsa.certificates))
    with pytest.raises(StampRefused, match="Authority of the tests had expired on"):
        check_stamp(stamp, b"message", roots, now=now)


def test_a_stamp_of_yesterday_outlives_the_certificate(tsa: Authority) -> None:
    stamp = request_stamp(tsa.url, b"message")
    roots = load_roots(str(tsa.certificates))
    check_stamp(stamp, b"message", roots, now=datetime.now(UTC) + timedelta(days=99))


def test_what_an_authority_may_answer_is_named(tsa: Authority, tmp_path: Path) -> None:
    good = request_stamp(tsa.url, b"message")
    with authority(tmp_path / "another") as another:
        others = load_roots(str(another.certificates))
    with pytest.raises(StampRefused, match="certificate"):
        check_stamp(good, b"message", others, now=datetime.now(UTC))
    tsa.body = good.response
    with pytest.raises(StampRefused, match="another request"):
        request_stamp(tsa.url, b"message")
    tsa.body = bytes.fromhex("30053003020102")  # PKIStatusInfo: rejection
    with pytest.raises(StampRefused, match="refused"):
        request_stamp(tsa.url, b"message")
    tsa.body = b"<html>"
    with pytest.raises(StampRefused, match="no answer of RFC 3161"):
        request_stamp(tsa.url, b"message")
    tsa.status = 503
    with pytest.raises(StampRefused, match="503"):
        request_stamp(tsa.url, b"message")
    with pytest.raises(StampRefused):
        request_stamp("http://127.0.0.1:9/", b"message")
    with pytest.raises(ConfigurationError):
        request_stamp("nowhere", b"message")
    with pytest.raises(ConfigurationError, match="no certificates"):
        load_roots(str(tsa.folder / "serial"))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_roots(str(tsa.folder / "absent"))
