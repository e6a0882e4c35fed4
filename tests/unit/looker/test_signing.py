"""Signed statements of a place of snapshots: what is gone or exchanged since shows."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.vaults import dashboard, new_vault, store

import verify_evidence
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.lake.local import LocalStore
from headrace.looker.signing import Difference, SnapshotSigning
from headrace.looker.snapshots import Snapshot, delete, manifest_key, take
from headrace.manifests.chain import opening, sealing
from headrace.manifests.exceptions import ManifestDamaged, NotSigned

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


KEY = SigningKey.make()
seal = sealing(KEY)
opened = opening(KeyList([PublicKey(KEY.public_key, "")]))


@pytest.fixture
def place(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "snapshots")


@pytest.fixture
def taken(tmp_path: Path, place: LocalStore) -> list[Snapshot]:
    with new_vault(tmp_path) as vault:
        store(vault, *(dashboard(n, os.urandom(40).hex()) for n in range(9)))
        return [take(vault, place, now=lambda at=at: NOW.replace(day=at)) for at in (1, 2)]


@pytest.fixture
def signing(place: LocalStore) -> SnapshotSigning:
    return SnapshotSigning(place, opened)


def differences(signing: SnapshotSigning) -> list[tuple[str, str]]:
    return [(each.name, each.problem) for each in signing.differences()]


def test_a_statement_names_every_snapshot_and_the_statement_before(
    signing: SnapshotSigning, taken: list[Snapshot]
) -> None:
    assert signing.last() is None
    first = signing.sign(seal, NOW)
    assert [each.name for each in first.snapshots] == [each.name for each in taken]
    assert first.snapshots[0].counts == {"dashboard": 9}
    assert first.snapshots[0].sha256 == taken[0].sha256
    assert signing.sign(seal, NOW).previous == signing.chain.read(1).sha256
    assert differences(signing) == []


def test_what_a_retention_removed_is_stated(
    signing: SnapshotSigning, place: LocalStore, taken: list[Snapshot]
) -> None:
    signing.sign(seal, NOW)
    delete(place, taken[0].name)
    made = signing.sign(seal, NOW, removed=[taken[0].name])
    assert (made.removed, made.accepted) == ((taken[0].name,), "")
    assert differences(signing) == []


def test_what_is_gone_or_another_is_named_and_not_signed(
    signing: SnapshotSigning, place: LocalStore, taken: list[Snapshot]
) -> None:
    signing.sign(seal, NOW)
    old, new = (Path(place.place(manifest_key(each.name))) for each in taken)
    new.write_bytes(new.read_bytes().replace(b'"dashboard": 9', b'"dashboard": 8'))
    with pytest.raises(NotSigned, match=f"{taken[1].name} is another than that"):
        signing.sign(seal, NOW)
    old.unlink()
    assert list(signing.differences()) == [
        Difference(taken[0].name, "is gone, although the last statement has it"),
        Difference(taken[1].name, "is another than that of the last statement"),
    ]
    with pytest.raises(NotSigned, match=r"is gone.*--accept"):
        signing.sign(seal, NOW, removed=[taken[1].name])
    assert signing.sign(seal, NOW, accept="a disk failed").accepted == "a disk failed"


def test_a_part_that_was_exchanged_is_named(
    signing: SnapshotSigning, place: LocalStore, taken: list[Snapshot]
) -> None:
    signing.sign(seal, NOW)
    Path(place.place(taken[0].parts[0].key)).write_bytes(b"else")
    [(name, problem)] = differences(signing)
    assert (name, problem) == (taken[0].name, "it has another checksum than it should")


def test_a_statement_that_does_not_read_is_named(
    signing: SnapshotSigning, place: LocalStore, taken: list[Snapshot]
) -> None:
    signing.sign(seal, NOW)
    Path(place.place(signing.chain.key(1))).write_bytes(b"{}")
    with pytest.raises(ManifestDamaged, match=r"000000001.json.*no object of payload"):
        signing.last()
    assert signing.sign(seal, NOW, accept="a disk failed").sequence == 2


def test_the_same_without_our_code(
    signing: SnapshotSigning,
    place: LocalStore,
    taken: list[Snapshot],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KeyList([PublicKey(KEY.public_key, "")]).as_dict()))

    def verify(*options: str) -> tuple[int, list[str]]:
        trust = ["--keys", str(keys), "--trust", KEY.key_id]
        code = verify_evidence.main(["snapshots", place.location, *trust, *options])
        out = capsys.readouterr().out.splitlines()
        return code, [line for line in out if line.startswith("WRONG: ")]

    signing.sign(seal, NOW)
    assert verify() == (0, [])
    delete(place, taken[0].name)
    signing.sign(seal, NOW, removed=[taken[0].name])
    last = Path(place.place(signing.chain.key(2)))
    kept = tmp_path / "kept.json"
    kept.write_bytes(last.read_bytes())
    assert verify("--held", str(kept)) == (0, [])
    part = Path(place.place(taken[1].parts[0].key))
    content = part.read_bytes()
    part.write_bytes(b"else")
    code, [line] = verify()
    assert (code, line) == (
        1,
        f"WRONG: snapshot {taken[1].name}: {taken[1].parts[0].key} is another than the one that "
        "was signed",
    )
    part.write_bytes(content)
    manifest = Path(place.place(manifest_key(taken[1].name)))
    manifest.unlink()
    code, [line] = verify()
    assert (code, taken[1].name in line) == (1, True)
    last.unlink()
    code, lines = verify("--held", str(kept))
    assert code == 1
    assert any("is not there: the chain ends with 1" in line for line in lines)
