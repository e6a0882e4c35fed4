"""Heads of a lake in anchors: what does not fit is named, also where the lake was put back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.audit.signing import Signing
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.manifests.anchored import AnchorReport, hold_against, keep_head
from headrace.manifests.chain import Link, opening, sealing
from headrace.manifests.lakes import LakeManifests
from headrace.sot.anchors.places import LAKE, FileAnchors, open_places
from tests.support.audits import NOW, PRODUCT, Bench

KEY = SigningKey.make()


@pytest.fixture
def manifests(bench: Bench) -> LakeManifests:
    bench.keep(1, 1_000)
    return LakeManifests(
        bench.raw.store, "coinbase", opening(KeyList([PublicKey(KEY.public_key, "")]))
    )


@pytest.fixture
def place(tmp_path: Path) -> FileAnchors:
    return FileAnchors(str(tmp_path / "heads.jsonl"))


@pytest.fixture
def sign(bench: Bench, manifests: LakeManifests) -> Callable[[], Link]:
    def run() -> Link:
        signing = Signing(bench.raw, manifests, sealing(KEY))
        signing.sign(PRODUCT, newest=0, newest_answer=None, now=NOW)
        return manifests.sign_head(sealing(KEY), NOW)

    return run


def test_every_head_that_was_kept_is_there(
    manifests: LakeManifests, place: FileAnchors, sign: Callable[[], Link]
) -> None:
    assert hold_against(manifests, place) == AnchorReport(place.where)
    for _ in range(2):
        assert keep_head(manifests, sign(), [place]) == [AnchorReport(place.where, 1)]
    sign()  # Killed before it was kept.
    assert hold_against(manifests, place) == AnchorReport(place.where, 2)


def test_a_lake_that_was_put_back_does_not_fit(
    bench: Bench,
    manifests: LakeManifests,
    place: FileAnchors,
    sign: Callable[[], Link],
    tmp_path: Path,
) -> None:
    lake = Path(bench.raw.store.location)
    keep_head(manifests, sign(), [place])
    shutil.copytree(lake, tmp_path / "copy")
    bench.keep(1_001, 2_000)
    keep_head(manifests, sign(), [place])
    shutil.rmtree(lake)
    shutil.move(tmp_path / "copy", lake)
    report = hold_against(manifests, place)
    assert report.heads == 1
    assert report.misfit.endswith("line 2: head 2 of the lake is not there any more")
    sign()
    assert "head 2 of the lake is another than" in hold_against(manifests, place).misfit


def test_a_place_of_another_lake_takes_no_head(
    manifests: LakeManifests, place: FileAnchors, sign: Callable[[], Link]
) -> None:
    payload = {"type": "headrace.lake-head.v1", "lake": "0" * 32, "sequence": 1}
    path = Path(place.where)
    path.write_bytes(KEY.sign(payload).as_line())
    before = path.read_bytes()
    assert "this one has no id" in hold_against(manifests, place).misfit
    head = sign()
    own = head.payload["lake"]
    misfit = hold_against(manifests, place).misfit
    assert f"of lake {'0' * 32}, this one is {own}: name another place" in misfit
    [kept] = keep_head(manifests, head, [place])
    assert f"heads of lake {'0' * 32}, this one is of lake {own}" in kept.unavailable
    assert path.read_bytes() == before


def test_what_was_changed_in_a_place_is_named(
    manifests: LakeManifests, place: FileAnchors, sign: Callable[[], Link]
) -> None:
    keep_head(manifests, sign(), [place])
    path = Path(place.where)
    content = path.read_bytes()
    for spoilt, said in (
        (content.replace(b'"sequence":1', b'"sequence":2', 1), "signature is not that of key"),
        (b"{}", "no object of payload"),
        (KEY.sign({"type": "headrace.sot.head.v1"}).as_line(), "it is no headrace.lake-head.v1"),
    ):
        path.write_bytes(spoilt)
        assert said in hold_against(manifests, place).misfit


def test_a_place_that_does_not_take_a_head_is_named(
    manifests: LakeManifests, place: FileAnchors, sign: Callable[[], Link], tmp_path: Path
) -> None:
    [good, broken] = open_places(f"{place.where}, git:{_repository(tmp_path)}", LAKE)
    kept = keep_head(manifests, sign(), [broken, good])
    assert [bool(each.unavailable) for each in kept] == [True, False]
    assert hold_against(manifests, good).heads == 1


def _repository(folder: Path) -> Path:
    """A folder that looks like a repository and is none."""
    made = folder / "broken"
    (made / ".git").mkdir(parents=True)
    return made
