"""A backfill of an exchange block with several API keys."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.pulls import assert_lake_equals_source, run_backfill

from blocks import Exchange
from blocks.exchange import ExchangeKey
from headrace.run.report import Status
from headrace.settings import load_settings
from headrace.sim import ApiKey, SimulatedExchange, SlidingWindow

pytestmark = pytest.mark.flows

PARTS = [
    {"key": f"api-key-{n}", "secret": f"c2VjcmV0L{n}==", "passphrase": f"passphrase-{n}"}
    for n in range(1, 4)
]


def test_a_backfill_is_spread_over_the_keys_of_its_block_and_shows_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    known = [ApiKey.model_validate(parts) for parts in PARTS]
    limit = SlidingWindow(requests=7, per_s=3600)
    with SimulatedExchange("BTC-USD:15000", keys=known, key_limits=[limit]) as sim:
        more = [ExchangeKey.model_validate(parts) for parts in PARTS[1:]]
        block = Exchange(base_url=sim.url, more_keys=more, **PARTS[0])
        block.save("several-keys", overwrite=True)
        summary = run_backfill("block:several-keys", tmp_path / "lake", ["BTC-USD"], rate="30/s")
        assert summary.status is Status.DONE
        assert sim.stats()["by_status"] == {"200": 15}  # one key alone is refused after seven
        assert_lake_equals_source(tmp_path / "lake", sim, "BTC-USD")
    assert (summary.costs.quota.rates, summary.costs.quota.per_s) == ("3 keys at 30/s", 90)
    shown = [caplog.text, str(summary.as_json()), summary.markdown()]
    kept = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    kept += load_settings().quota_folder.glob("*")
    for secret in (value for parts in PARTS for value in parts.values()):
        assert not [text for text in shown if secret in text]
        assert not [path for path in kept if secret.encode() in path.read_bytes()]
        assert not [path for path in kept if secret in str(path)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"more_keys": [ExchangeKey.model_validate(PARTS[0])]}, "are the same API key"),
        ({"key": "", "secret": "", "passphrase": ""}, "more_keys without a first key"),
        ({"passphrase": ""}, "one of them is missing"),
    ],
)
def test_keys_that_cannot_be_used_are_named_before_anything_is_sent(
    tmp_path: Path, changed: dict[str, object], words: str
) -> None:
    with SimulatedExchange("BTC-USD:10") as sim:
        more = [ExchangeKey.model_validate(PARTS[1])]
        settings = {"base_url": sim.url, "more_keys": more, **PARTS[0], **changed}
        Exchange.model_validate(settings).save("bad-keys", overwrite=True)
        with pytest.raises(Exception, match=words) as caught:
            run_backfill("block:bad-keys", tmp_path / "lake", ["BTC-USD"], rate="30/s")
        assert sim.stats()["requests"] == 0
    assert not [value for value in PARTS[0].values() if value in str(caught.value)]
