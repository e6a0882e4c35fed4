"""Manifests of a product: what is stated, what is refused, and that no two follow the same one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.signing import Signing
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.lake.answer_evidence import Answer
from headrace.lake.exceptions import PartUnreadable
from headrace.lake.store import Store
from headrace.manifests.chain import opening, sealing
from headrace.manifests.exceptions import ManifestDamaged, ManifestTooNew, NotSigned
from headrace.manifests.lakes import LakeManifests
from headrace.manifests.statement import MANIFEST_TYPE, Manifest
from tests.lake_samples import FETCHED_AT
from tests.support.audits import NOW, PRODUCT, Bench, kinds, only

PREFIX = f"_headrace/manifests/exchange=coinbase/product={PRODUCT}/"


KEY = SigningKey.make()
seal = sealing(KEY)
opened = opening(KeyList([PublicKey(KEY.public_key, "")]))


def manifests(bench: Bench, store: Store | None = None) -> LakeManifests:
    return LakeManifests(store or bench.raw.store, "coinbase", opened)


def sign(bench: Bench, *, newest: int = 0, answer: Answer | None = None, **how: Any) -> Manifest:
    signing = Signing(bench.raw, manifests(bench), seal, **how)
    return signing.sign(PRODUCT, newest=newest, newest_answer=answer, now=NOW)


def file_of(bench: Bench, name: str) -> Path:
    return Path(bench.raw.store.place(PREFIX + name))


def test_a_manifest_states_the_product_and_names_the_one_before(bench: Bench) -> None:
    bench.keep(1, 2_000, [500, *range(1_900, 2_001)])
    bench.keep(3_001, 4_000)
    newest = Answer(None, NOW, 1_000, 3_501, 4_500, (3_999, 4_001))
    first = sign(bench, newest=4_500, answer=newest)
    assert (first.sequence, first.previous, first.rows, first.parts) == (1, None, 1_102, 2)
    assert first.answered == ((1, 2_000), (3_001, 4_000))
    assert first.missing == ((2_001, 3_000), (4_001, 4_500))
    assert (first.absent_ids, first.newest, first.newest_answer) == (1_898, 4_500, newest)
    bench.keep(2_001, 3_000)
    second = sign(bench)
    assert (
        second.previous == hashlib.sha256(file_of(bench, "000000001.json").read_bytes()).hexdigest()
    )
    assert [(c.kind, c.lo, c.hi, c.rows) for c in second.changes] == [("new", 2_001, 3_000, 1_000)]
    stated = manifests(bench).last(PRODUCT)
    assert stated is not None
    assert stated.manifest == second
    assert [entry.name for entry in stated.entries] == bench.names()
    assert second.lake == first.lake


def test_rows_are_read_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.keep(1, 1_000)
    sign(bench)
    bench.keep(1_001, 2_000)
    read: list[int] = []
    whole = type(bench.raw).verified
    monkeypatch.setattr(
        type(bench.raw), "verified", lambda raw, part: read.append(part.lo) or whole(raw, part)
    )
    sign(bench)
    assert read == [1_001]
    sign(bench, deep=True)
    assert sorted(read[1:]) == [1, 1_001]


def test_lists_of_parts_that_did_not_change_are_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("lakes", "statement"):
        monkeypatch.setattr(f"headrace.manifests.{module}.LIST_PARTS", 2)
    for lo in range(1, 5_000, 1_000):
        bench.keep(lo, lo + 999)
    first = sign(bench)
    assert [each.parts for each in first.lists] == [2, 2, 1]
    bench.keep(5_001, 6_000)
    second = sign(bench)
    assert second.lists[:2] == first.lists[:2]
    assert len(list(file_of(bench, "").glob("parts-*.json"))) == 4


def test_lost_and_changed_rows_are_not_signed_without_a_reason(bench: Bench) -> None:
    lost = bench.keep(1, 1_000)
    bench.keep(1_001, 2_000)
    sign(bench)
    bench.path(lost).unlink()
    with pytest.raises(NotSigned, match=r"manifest 1 the ids 1-1000 are lost.*--accept"):
        sign(bench)
    assert manifests(bench).chain(PRODUCT).length() == 1
    made = sign(bench, accept="the exchange took them back")
    assert made.accepted == "the exchange took them back"
    assert sign(bench, accept="for nothing").accepted == ""


def test_parts_that_cannot_be_read_or_overlap_are_not_signed(bench: Bench) -> None:
    part = bench.keep(1, 1_000)
    bench.keep(501, 1_500)
    with pytest.raises(NotSigned, match="overlap"):
        sign(bench)
    bench.path(part).write_bytes(b"PAR1")
    with pytest.raises(NotSigned, match="part-000000000001"):
        sign(bench)


def test_a_product_without_parts_is_not_signed(bench: Bench) -> None:
    with pytest.raises(NotSigned, match="nothing of it is stored"):
        sign(bench)


def test_of_two_that_sign_at_once_one_follows_the_other(bench: Bench) -> None:
    bench.keep(1, 1_000)
    raced = False

    def while_another_signs(payload: dict[str, Any]) -> bytes:
        nonlocal raced
        if not raced:
            raced = True
            sign(bench)
        return seal(payload)

    signing = Signing(bench.raw, manifests(bench), while_another_signs)
    made = signing.sign(PRODUCT, newest=0, newest_answer=None, now=NOW)
    assert made.sequence == 2
    assert made.previous == manifests(bench).chain(PRODUCT).read(1).sha256


DAMAGE: dict[str, tuple[bytes, str]] = {
    "cut off": (b'{"payload": {"type": "headrace.lake', "damaged"),
    "another statement": (seal({"type": "headrace.lake-head.v1"}), "no headrace.lake-manifest.v1"),
    "another number": (seal({"type": MANIFEST_TYPE, "sequence": 7}), "number 7"),
    "without fields": (seal({"type": MANIFEST_TYPE, "sequence": 1}), "lake"),
    "of another key": (
        sealing(SigningKey.make())({"type": MANIFEST_TYPE, "sequence": 1}),
        "not in the list of public keys",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_manifest_is_named_and_a_reason_goes_on_behind_it(
    bench: Bench, kind: str
) -> None:
    content, said = DAMAGE[kind]
    bench.keep(1, 1_000)
    sign(bench)
    file_of(bench, "000000001.json").write_bytes(content)
    with pytest.raises(ManifestDamaged, match=said) as error:
        sign(bench)
    assert "000000001.json" in str(error.value)
    made = sign(bench, accept="the disk failed")
    assert (made.sequence, made.previous) == (2, hashlib.sha256(content).hexdigest())
    assert made.accepted == "the disk failed"


def test_a_manifest_of_a_newer_version_is_left_alone(bench: Bench) -> None:
    bench.keep(1, 1_000)
    sign(bench)
    newer = seal({"type": MANIFEST_TYPE.replace("v1", "v9"), "sequence": 1})
    file_of(bench, "000000001.json").write_bytes(newer)
    for accept in ("", "whatever"):
        with pytest.raises(ManifestTooNew, match="version 9; this version reads up to 1"):
            sign(bench, accept=accept)


@pytest.mark.parametrize("gone", [True, False])
def test_a_list_of_parts_that_is_not_what_was_written_is_named(bench: Bench, gone: bool) -> None:
    bench.keep(1, 1_000)
    (part_list,) = sign(bench).lists
    path = file_of(bench, f"parts-{part_list.sha256}.json")
    if gone:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b'"rows":1000', b'"rows":1001'))
    with pytest.raises(ManifestDamaged, match=part_list.sha256):
        sign(bench)


def test_the_head_of_a_lake_shows_that_a_manifest_is_gone(bench: Bench) -> None:
    bench.keep(1, 1_000)
    sign(bench)
    sign(bench)
    manifests(bench).sign_head(seal, NOW)
    assert manifests(bench).last(PRODUCT) is not None
    last = file_of(bench, "000000002.json")
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(ManifestDamaged, match="head says that it exists"):
        manifests(bench).last(PRODUCT)
    last.write_bytes(content + b" ")
    with pytest.raises(ManifestDamaged, match="another digest"):
        manifests(bench).last(PRODUCT)
    last.write_bytes(content)
    sign(bench)
    assert manifests(bench).last(PRODUCT) is not None


def test_an_audit_says_what_changed_since_the_manifest(bench: Bench) -> None:
    pieces = [bench.keep(1, 1_000), bench.keep(1_001, 2_000)]
    bench.save_checkpoint()
    held = replace(bench, manifests=manifests(bench))
    assert kinds(held.audit()) == []
    sign(bench)
    assert kinds(held.audit()) == []
    bench.raw.merge(PRODUCT, pieces)
    bench.keep(2_001, 3_000)
    bench.save_checkpoint()
    found = held.audit()
    assert kinds(found) == ["since_manifest"]
    assert not found.wrong
    message = only(found, "since_manifest").message
    assert "1 range new with 1,000 trades, 1 range merged: same rows" in message
    bench.path(bench.raw.parts(PRODUCT).parts[1]).unlink()
    bench.save_checkpoint()
    assert kinds(held.audit()) == ["since_manifest"]  # what no manifest has is not missed
    bench.path(bench.raw.parts(PRODUCT).parts[0]).unlink()
    lost = only(held.audit(), "lost")
    assert (lost.range, lost.wrong) == ((1, 2_000), True)


def test_an_audit_names_a_manifest_that_cannot_be_used(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bench.save_checkpoint()
    sign(bench)
    file_of(bench, "000000001.json").write_bytes(b"")
    found = replace(bench, manifests=manifests(bench)).audit()
    assert kinds(found) == ["manifest_unreadable"]
    assert found.wrong
    assert not found.to_repair


def test_without_public_keys_an_audit_compares_and_says_what_it_could_not_check(
    bench: Bench,
) -> None:
    bench.keep(1, 1_000)
    bench.save_checkpoint()
    sign(bench)
    keyless = LakeManifests(bench.raw.store, "coinbase", opening(KeyList()), trusted=False)
    found = replace(bench, manifests=keyless).audit()
    assert kinds(found) == ["manifest_unchecked"]
    assert not found.wrong


def test_ids_of_63_bits_are_stated_exactly(bench: Bench) -> None:
    highest = 2**63 - 1
    bench.raw.write_empty(PRODUCT, 1, highest, source="localhost", fetched_at=FETCHED_AT)
    made = sign(bench)
    assert made.answered == ((1, highest),)
    payload = manifests(bench).chain(PRODUCT).read(1).payload
    assert payload["answered"] == [["1", str(highest)]]
    assert payload["absent_ids"] == str(highest)


def test_rows_that_have_to_be_compared_and_cannot_be_read_are_named(bench: Bench) -> None:
    pieces = [bench.keep(1, 1_000), bench.keep(1_001, 2_000)]
    bench.save_checkpoint()
    sign(bench)
    pieces.append(bench.keep(2_001, 3_000))
    merged = bench.path(bench.raw.merge(PRODUCT, pieces).part)
    content = bytearray(merged.read_bytes())
    content[100:2_000] = bytes(1_900)
    merged.write_bytes(content)
    found = replace(bench, manifests=manifests(bench)).audit()
    assert merged.name in only(found, "unreadable").message
    with pytest.raises(PartUnreadable):
        sign(bench)
