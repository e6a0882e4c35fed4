"""State that version 0.1.0 wrote (a lake, a vault, a log, leases, a quota, checkpoints) is read."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.auditor import run_audit
from headrace.lake import open_lake
from headrace.lake.digest import content_digest
from headrace.leases import hold, open_leases
from headrace.looker.restore.plan import plan
from headrace.looker.vault import Vault, item_of
from headrace.pull.checkpoints import read_checkpoint
from headrace.quota import BreakerConfig, QuotaConfig, open_gate, parse_rates
from headrace.run.report import Status
from headrace.sot.opening import open_store
from headrace.sot.verify import verify_store
from headrace.stopping import StopEvent
from tests.support.audits import FakeCheckpoints

STATE = Path(__file__).parents[1] / "vectors" / "state-0.1.0.tar.gz"
PRODUCTS = ("BTC-USD", "DOGE-USD", "NEW-USD")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with tarfile.open(STATE) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def expected(state: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((state / "expected.json").read_text())
    return found


@pytest.mark.parametrize("product", PRODUCTS)
def test_its_lake_is_complete_and_sound_with_the_same_rows(
    state: Path, expected: dict[str, Any], product: str
) -> None:
    lake = open_lake(state / "lake").raw("coinbase")
    found = run_audit(
        lake,
        product,
        checkpoints=FakeCheckpoints(),
        client=None,
        known=None,
        pending_since=None,
        deep=True,
        stop=StopEvent(),
    )
    assert found.status is Status.DONE
    wanted = expected["products"][product]
    assert found.counted.answered.as_lists() == wanted["answered"]
    assert (found.counted.rows, found.counted.absent_ids) == (wanted["rows"], wanted["absent_ids"])
    assert str(content_digest(lake.read(product))) == wanted["digest"]


def test_its_checkpoints_are_read(expected: dict[str, Any]) -> None:
    assert {stored["product"] for stored in expected["checkpoints"]} == set(PRODUCTS)
    for stored in expected["checkpoints"]:
        where = {name: stored[name] for name in ("lake", "source", "product")}
        checkpoint = read_checkpoint(stored, **where)
        assert checkpoint.watermark == stored["watermark"]
        assert [list(span) for span in checkpoint.covered] == stored["covered"]


def test_fencing_tokens_go_on_above_its_own(state: Path, expected: dict[str, Any]) -> None:
    leases = open_leases(state / "leases")
    written = max(checkpoint["fencing_token"] for checkpoint in expected["checkpoints"])
    before = leases.list()
    assert max(lease.token for lease in before) >= written
    for old in before:
        with hold(leases, old.name, run_id="new") as lease:
            assert lease.token > old.token


def test_its_quota_gives_permits(state: Path) -> None:
    config = QuotaConfig(name="exchange.test", rates=parse_rates("100/s"))
    gate = open_gate(state / "quota", config, BreakerConfig())
    try:
        with gate.admit() as admission:
            admission.answered(200)
    finally:
        gate.close()


def test_its_log_is_sound_and_its_heads_are_the_same(state: Path, expected: dict[str, Any]) -> None:
    store = open_store(state / "log", create=False)
    try:
        found = verify_store(store)
        heads = {
            str(symbol_id): {
                "next_seq": str(head.position.next_seq),
                "digest": head.position.digest.hex(),
                "hash": f"{head.position.hash:016x}",
            }
            for symbol_id in store.symbols()
            if (head := store.head(symbol_id)) is not None
        }
    finally:
        store.close()
    assert found.good
    assert found.records == 300
    assert heads == expected["heads"]


def test_its_vault_is_whole(state: Path, expected: dict[str, Any]) -> None:
    with Vault.open(state / "vault.sqlite", check=True) as vault:
        held = sorted(
            [row.type, row.id, vault.contents.body(row.type, row.id).hash.hex()]
            for row in vault.contents.rows()
        )
    assert held == expected["vault"]


def test_its_vault_takes_types_of_today_and_is_restored_from(state: Path) -> None:
    body = b'{"id":"1","user_attribute":{"name":"region"},"group_values":[]}'
    with Vault.open(state / "vault.sqlite") as vault:
        before = [(step.type, step.id) for step in plan(vault)]
        session = vault.sessions.begin("extract")
        vault.upsert_many(session, [item_of("group_attribute_value", body)])
        assert vault.contents.body("group_attribute_value", "1").body == body
        after = [(step.type, step.id) for step in plan(vault)]
    assert before
    assert sorted(after) == sorted([*before, ("group_attribute_value", "1")])


def test_each_version_that_can_be_upgraded_from_has_its_state_here() -> None:
    text = (Path(__file__).parents[2] / "docs/upgrading.md").read_text()
    versions = re.findall(r"^## From (\S+)$", text, flags=re.MULTILINE)
    assert {f"state-{version}.tar.gz" for version in versions} == {
        path.name for path in STATE.parent.glob("state-*")
    }
