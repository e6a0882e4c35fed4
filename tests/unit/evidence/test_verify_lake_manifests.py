"""`verify_evidence.py lake`: who holds the store and the code, and not the key, is found out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import verify_evidence
from headrace.audit.signing import Signing
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.lake import RawLake, open_lake
from headrace.manifests.chain import opening, sealing
from headrace.manifests.lakes import LakeManifests
from tests.lake_samples import FETCHED_AT, SOURCE, trades

PRODUCT, OTHER = "BTC-USD", "ETH-USD"
NOW = datetime(2026, 3, 2, tzinfo=UTC)


@dataclass
class World:
    """A signed lake of two products, the list of public keys, and what an auditor took home."""

    folder: Path
    key: SigningKey = field(default_factory=SigningKey.make)

    def __post_init__(self) -> None:
        self.lake = self.folder / "lake"
        self.keys = self.folder / "keys.json"
        self.kept = self.folder / "kept.json"
        self.public = KeyList([PublicKey(self.key.public_key, "2026-03-01T00:00:00Z")])
        self.keys.write_text(json.dumps(self.public.as_dict()))
        for product in (PRODUCT, OTHER):
            self.keep(product, 1, 1_000)
            self.keep(product, 1_001, 4_000, trades([1_001, 3_900, 4_000]))

    @property
    def raw(self) -> RawLake:
        return open_lake(self.lake).raw("coinbase", cell_pages=5)

    @property
    def manifests(self) -> LakeManifests:
        return LakeManifests(self.raw.store, "coinbase", opening(self.public))

    def keep(self, product: str, lo: int, hi: int, rows: pa.Table | None = None) -> Path:
        """A part with a right footer, in the place of one of its range."""
        rows = trades(range(lo, hi + 1)) if rows is None else rows
        stored = self.raw.write(
            product, lo, hi, rows, source=SOURCE, fetched_at=FETCHED_AT, replace=True
        )
        return Path(self.raw.store.place(stored.part.key))

    def sign(self, key: SigningKey | None = None, accept: str = "") -> None:
        """Sign both products and the lake's head, as `headrace audit --sign` does."""
        seal = sealing(key or self.key)
        signing = Signing(self.raw, self.manifests, seal, accept=accept)
        for product in (PRODUCT, OTHER):
            signing.sign(product, newest=0, newest_answer=None, now=NOW)
        self.manifests.sign_head(seal, NOW)

    def file(self, product: str, name: str) -> Path:
        """A file of a product's manifests."""
        return Path(self.raw.store.place(self.manifests.chain(product).prefix + name))

    def head(self, number: int) -> Path:
        return self.lake / f"_headrace/manifests/heads/{number:09d}.json"

    def part(self, product: str, lo: int) -> Path:
        parts = self.raw.parts(product).parts
        return Path(self.raw.store.place(next(p.key for p in parts if p.lo == lo)))

    def take_home(self) -> None:
        """Keep the last head, as an auditor or an anchor does."""
        heads = sorted(self.head(1).parent.glob("*.json"))
        self.kept.write_bytes(heads[-1].read_bytes())


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.sign()
    return world


@pytest.fixture
def verify(world: World, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list]]:
    """Runs the program; its exit code and what it says is wrong."""

    def run(*options: str, held: bool = False) -> tuple[int, list[str]]:
        kept = ["--held", str(world.kept)] if held else []
        trust = ["--keys", str(world.keys), "--trust", world.key.key_id]
        code = verify_evidence.main(["lake", str(world.lake), *trust, *kept, *options])
        out = capsys.readouterr().out.splitlines()
        return code, [line.removeprefix("WRONG: ") for line in out if line.startswith("WRONG: ")]

    return run


def other_price(ids: range) -> pa.Table:
    table = trades(ids)
    prices = ["6001.99000000", *table["price"].to_pylist()[1:]]
    return table.set_column(2, table.schema.field("price"), pa.array(prices, pa.string()))


def test_a_lake_as_it_was_signed(world: World, verify) -> None:
    world.take_home()
    assert verify(held=True) == (0, [])
    world.keep(PRODUCT, 4_001, 5_000)
    assert verify(held=True) == (0, [])
    world.sign()
    assert verify(held=True) == (0, [])
    assert verify("--quick") == (0, [])


def test_merged_parts_hold_what_was_signed(world: World, verify) -> None:
    world.raw.merge(PRODUCT, [*world.raw.parts(PRODUCT).parts])
    assert verify() == (0, [])


def test_trades_that_came_to_light_in_a_hole_are_only_noted(world: World, verify, capsys) -> None:
    world.keep(PRODUCT, 1_001, 4_000, trades([1_001, 2_000, 3_900, 4_000]))
    trust = ["--keys", str(world.keys), "--trust", world.key.key_id]
    assert verify_evidence.main(["lake", str(world.lake), *trust]) == 0
    assert "1 trade came to light in holes of manifest 1" in capsys.readouterr().out


def test_ids_that_are_missing_are_no_damage(world: World, verify) -> None:
    world.keep(PRODUCT, 6_001, 7_000)
    assert verify() == (4, [])


def test_a_part_that_was_deleted(world: World, verify) -> None:
    world.part(PRODUCT, 1).unlink()
    code, [line] = verify()
    assert code == 1
    assert line == (
        "coinbase BTC-USD: ids 1-1000: no part answers for all of them any more; manifest 1 has "
        "1,000 trades there"
    )
    assert verify("--quick") == (1, [line])


@pytest.mark.parametrize("merged", [False, True])
def test_another_price_under_a_right_footer(world: World, verify, merged: bool) -> None:
    world.keep(PRODUCT, 1, 1_000, other_price(range(1, 1_001)))
    if merged:
        world.raw.merge(PRODUCT, [*world.raw.parts(PRODUCT).parts])
    line = "coinbase BTC-USD: ids 1-1000: other trades are stored than those of manifest 1"
    assert verify() == (1, [line])


def test_a_trade_that_was_taken_out(world: World, verify) -> None:
    world.keep(PRODUCT, 1, 1_000, trades(range(1, 1_000)))
    line = "coinbase BTC-USD: ids 1-1000: 999 trades are stored, manifest 1 has 1,000"
    assert verify() == (1, [line])


def test_a_part_that_cannot_be_read_is_named_once(world: World, verify) -> None:
    world.part(PRODUCT, 1).write_bytes(b"PAR1")
    code, [line] = verify()
    assert code == 1
    assert line.startswith("coinbase BTC-USD: part-000000000001-000000001000.parquet: ")


def test_the_last_manifest_was_removed(world: World, verify) -> None:
    world.sign()
    world.file(PRODUCT, "000000002.json").unlink()
    line = "coinbase BTC-USD: manifest 2 is missing or not valid; heads of the lake name it"
    assert verify() == (1, [line])


def test_the_last_manifest_was_removed_with_its_head(world: World, verify) -> None:
    world.sign()
    world.take_home()
    world.file(PRODUCT, "000000002.json").unlink()
    world.head(2).unlink()
    assert verify() == (0, [])
    code, [line] = verify(held=True)
    assert code == 1
    assert line.startswith("headrace.lake-head.v1 2, which ")
    assert line.endswith("holds, is not there: the chain ends with 1")


def test_all_heads_were_removed(world: World, verify) -> None:
    world.head(1).unlink()
    code, [line] = verify()
    assert (code, "heads holds no valid head" in line) == (1, True)


def test_an_old_copy_of_the_lake_was_put_back(world: World, verify, tmp_path: Path) -> None:
    shutil.copytree(world.lake, tmp_path / "copy")
    world.keep(PRODUCT, 4_001, 5_000)
    world.sign()
    world.take_home()
    shutil.rmtree(world.lake)
    shutil.move(tmp_path / "copy", world.lake)
    assert verify() == (0, [])
    code, [line] = verify(held=True)
    assert code == 1
    assert "is not there: the chain ends with 1" in line
    world.sign()
    code, [line] = verify(held=True)
    assert code == 1
    assert "heads/000000002.json" in line


def test_a_product_was_removed_with_its_manifests(world: World, verify) -> None:
    shutil.rmtree(world.part(OTHER, 1).parent)
    shutil.rmtree(world.file(OTHER, ""))
    line = "coinbase ETH-USD: manifest 1 is missing or not valid; heads of the lake name it"
    assert verify() == (1, [line])


def test_two_products_were_exchanged(world: World, verify) -> None:
    world.keep(OTHER, 1, 1_000, other_price(range(1, 1_001)))
    world.sign(accept="a test")
    for one, other in (
        (world.part(PRODUCT, 1).parent, world.part(OTHER, 1).parent),
        (world.file(PRODUCT, ""), world.file(OTHER, "")),
    ):
        aside = one.with_name("aside")
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
    code, lines = verify()
    assert code == 1
    assert any("000000001.json: it is of coinbase ETH-USD" in line for line in lines)


def test_a_manifest_was_written_again_with_another_key(world: World, verify) -> None:
    world.keep(PRODUCT, 1, 1_000, other_price(range(1, 1_001)))
    world.file(PRODUCT, "000000001.json").unlink()
    world.head(1).unlink()
    world.public = KeyList()
    world.sign(SigningKey.make())
    code, lines = verify()
    assert code == 1
    assert any("000000001.json: it is signed by key " in line for line in lines)


def test_a_manifest_of_the_middle_was_removed(world: World, verify) -> None:
    world.sign()
    world.sign()
    world.file(PRODUCT, "000000002.json").unlink()
    code, lines = verify()
    assert code == 1
    assert any("000000002.json is missing, although the chain goes on to 3" in x for x in lines)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text.replace(b'"rows":1003', b'"rows":1004'), "the signature of it is not"),
        (lambda text: text[:-40], "it is no signed statement"),
        (lambda text: b"{}", "it is no object of payload, key_id and signature"),
    ],
)
def test_a_manifest_that_is_damaged(world: World, verify, damage, said: str) -> None:
    path = world.file(PRODUCT, "000000001.json")
    path.write_bytes(damage(path.read_bytes()))
    code, lines = verify()
    assert code == 1
    assert any("product=BTC-USD/000000001.json: " in line and said in line for line in lines)


def test_a_manifest_of_a_newer_version_is_refused(world: World, verify) -> None:
    payload = json.loads(world.head(1).read_bytes())["payload"]
    newer = world.key.sign({**payload, "type": "headrace.lake-head.v2"})
    world.head(1).write_bytes(newer.as_line())
    code, lines = verify()
    assert code == 1
    assert lines[0].endswith("it is headrace.lake-head.v2, not headrace.lake-head.v1")


def test_a_list_of_parts_that_was_changed(world: World, verify) -> None:
    [path] = world.file(PRODUCT, "").glob("parts-*.json")
    path.write_bytes(path.read_bytes().replace(b'"rows":1000', b'"rows":999'))
    code, [line] = verify()
    assert code == 1
    assert "is not what the manifest names" in line


def test_losses_that_were_accepted_are_noted(world: World, capsys) -> None:
    world.part(PRODUCT, 1).unlink()
    world.sign(accept="the exchange took them back")
    trust = ["--keys", str(world.keys), "--trust", world.key.key_id]
    assert verify_evidence.main(["lake", str(world.lake), *trust]) == 4
    assert "changed or damaged: 'the exchange took them back'" in capsys.readouterr().out


def test_successors_of_a_trusted_key_are_trusted_and_others_are_not(world: World, verify) -> None:
    from headrace.evidence.key_files import KeyFile
    from headrace.evidence.keys import rotate_key

    place = KeyFile(world.folder / "key.pem")
    place.keep(world.key, world.public)
    rotate_key(place, now=NOW)
    successor = place.private()
    assert successor is not None
    world.public = place.public()
    world.sign(successor)
    assert verify()[0] == 1
    world.keys.write_bytes(place.public_path.read_bytes())
    assert verify() == (0, [])
    stranger = SigningKey.make()
    listed = place.public().with_key(PublicKey(stranger.public_key, "2026-03-01T00:00:00Z"))
    world.keys.write_text(json.dumps(listed.as_dict()))
    world.public = listed
    world.sign(stranger)
    code, lines = verify()
    assert code == 1
    assert any(f"it is signed by key {stranger.key_id}, which is not trusted" in x for x in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere", "--keys", "{keys}", "--trust", "{id}"],
        ["{lake}", "--keys", "{keys}", "--trust", "0123"],
        ["{lake}", "--keys", "nowhere", "--trust", "{id}"],
        ["{lake}", "--keys", "{lake}", "--trust", "{id}"],
        ["{lake}", "--keys", "{part}", "--trust", "{id}"],
        ["{lake}", "--keys", "{keys}", "--trust", "{id}", "--held", "{keys}"],
        ["{lake}", "--keys", "{keys}", "--trust", "{id}", "--held", "{part}"],
    ],
)
def test_wrong_input(world: World, arguments: list[str], capsys) -> None:
    known = {
        "keys": world.keys,
        "lake": world.lake,
        "id": world.key.key_id,
        "part": world.part(PRODUCT, 1),
    }
    filled = [argument.format(**known) for argument in arguments]
    assert verify_evidence.main(["lake", *filled]) == 2
    assert capsys.readouterr().err.startswith("verify_evidence: ")


def test_counts_of_one_are_singular(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"parts": 1, "rows": 1, "absent_ids": 1, "widest_pages": 1, "duplicates": 1}
    verify_evidence.show(verify_evidence.Report("coinbase", "BTC-USD", **one))
    said = capsys.readouterr().out
    for words in ("in 1 part, 1 trade\n", "1 id,", "1 page\n", "1 trade is in more"):
        assert words in said


@pytest.mark.parametrize("command", ["lake", "snapshots"])
def test_a_folder_that_is_not_there_cannot_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    key = SigningKey.make()
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(KeyList([PublicKey(key.public_key, "")]).as_dict()))
    trust = ["--keys", str(keys), "--trust", key.key_id]
    assert verify_evidence.main([command, str(tmp_path / "mistyped"), *trust]) == 2
    assert "to check under" in capsys.readouterr().err
