"""`headrace audit --sign` as a command: killed, started twice, on a lake that was tampered with."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import verify_evidence
from headrace.evidence.key_files import KeyFile
from headrace.evidence.keys import make_key
from tests.services_fixtures import seaweed_url
from tests.support.places import Place
from tests.support.prefect_server import headrace_home, prefect_server
from tests.support.processes import PRODUCT, Headrace, ended
from tests.support.sites import Sites, exchange, place, site

__all__ = ["headrace_home", "place", "prefect_server", "seaweed_url", "site"]

pytestmark = [pytest.mark.flows, pytest.mark.services, pytest.mark.timeout(600)]

TRADES = 4_200


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    """A signing key, and its list of public keys."""
    place = KeyFile(tmp_path / "keys" / "key.pem")
    make_key(place, now=datetime.now(UTC))
    return place


@pytest.fixture
def headrace(place: Place, site: Sites) -> Iterator[Headrace]:
    """The command on a lake that is complete."""
    with exchange(TRADES, 0.01) as sim:
        headrace = site(sim, place)
        assert headrace.run("backfill").code == 0
        yield headrace


def verified(headrace: Headrace, key: KeyFile) -> int:
    """The exit code of the check without our code, of the lake or a copy of the bucket."""
    signs = key.private()
    assert signs is not None
    trust = ["--keys", str(key.public_path), "--trust", signs.key_id]
    return verify_evidence.main(["lake", str(headrace.place.copy()), *trust])


def manifests(headrace: Headrace, what: str = f"exchange=coinbase/product={PRODUCT}") -> list[str]:
    """The numbered files of a chain."""
    folder = headrace.place.copy() / "_headrace" / "manifests" / what
    return sorted(path.name for path in folder.glob("0*.json"))


@pytest.mark.slow
def test_killed_around_each_signature_then_signed(headrace: Headrace, key: KeyFile) -> None:
    sign = ("--sign", "--key", str(key.path))
    for point in ("before-manifest", "after-manifest", "before-manifest:2", "after-manifest:2"):
        end = headrace.run("audit", *sign, HEADRACE_KILL_AT=point)
        assert end.code == -signal.SIGKILL, end
        assert headrace.run("audit", "--offline", "--key", str(key.path)).code == 0
    end = headrace.run("audit", *sign)
    assert end.code == 0, end
    signed = end.summary["signed"]
    # Nothing before the first kill; then a manifest without a head, twice; then both.
    assert [each["manifest"] for each in signed["products"]] == [4]
    assert signed["head"] == 2
    assert (manifests(headrace)[-1], manifests(headrace, "heads")[-1]) == (
        "000000004.json",
        "000000002.json",
    )
    assert verified(headrace, key) == 0


def test_two_that_sign_at_once_follow_each_other(headrace: Headrace, key: KeyFile) -> None:
    options = ("--sign", "--key", str(key.path))
    ends = [ended(each) for each in [headrace.start("audit", *options) for _ in range(2)]]
    assert [end.code for end in ends] == [0, 0], ends
    numbers = {each["manifest"] for end in ends for each in end.summary["signed"]["products"]}
    assert numbers == {1, 2}
    assert verified(headrace, key) == 0


def test_what_was_deleted_is_named_and_not_signed_until_it_is_healed(
    headrace: Headrace, key: KeyFile
) -> None:
    options = ("--key", str(key.path))
    assert headrace.run("audit", "--sign", "--key", str(key.path.with_name("none.pem"))).code == 2
    assert headrace.run("audit", "--sign", *options).code == 0
    raw = headrace.place.open()
    gone = raw.parts(PRODUCT).parts[0]
    raw.store.delete(gone.key)
    end = headrace.run("audit", "--sign", *options)
    assert end.code == 4
    assert {"lost", "missing"} <= end.summary["products"][0]["kinds"].keys()
    [receipt] = end.summary["signed"]["products"]
    assert "are lost" in receipt["error"]
    assert verified(headrace, key) == 1
    end = headrace.run("audit", "--heal", "--sign", *options)
    assert end.code == 0, end
    assert "since_manifest" in end.summary["products"][0]["kinds"]
    assert end.summary["signed"]["head"] == 2
    assert verified(headrace, key) == 0
    last = json.loads(
        headrace.place.open().store.get(
            f"_headrace/manifests/exchange=coinbase/product={PRODUCT}/000000002.json"
        )
    )["payload"]
    assert {change["kind"] for change in last["changes"]} <= {"merged", "healed"}
    assert last["newest_answer"]["after"] is None
