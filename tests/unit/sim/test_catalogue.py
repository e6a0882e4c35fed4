"""Products as written on the command line."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.sim import DEFAULT_CATALOGUE, ExchangeSettings, ProductSpec, SpecError, parse_product


def test_a_product_is_an_id_and_a_number_of_trades() -> None:
    assert parse_product("BTC-USD:300000") == ProductSpec(id="BTC-USD", trades=300_000)


def test_other_fields_follow_by_name() -> None:
    spec = parse_product("DOGE-USD:5000, density=0.3, price=0.07, first_id=734, listing=delisted")
    assert (spec.density, spec.price, spec.first_id) == (0.3, Decimal("0.07"), 734)
    assert (spec.last_id, spec.listing) == (5733, "delisted")


def test_a_growing_product_gets_times_at_the_pace_of_its_growth() -> None:
    assert parse_product("LIVE-USD:10,growth_per_s=5").trades_per_s == 5
    assert parse_product("LIVE-USD:10,growth_per_s=5,trades_per_s=2").trades_per_s == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("BTC USD:5", "looks like BTC-USD"),
        ("../BTC-USD:5", "looks like BTC-USD"),
        ("BTC-USD:many", "trades"),
        ("BTC-USD:-1", "trades"),
        ("BTC-USD:5,density=2", "density"),
        ("BTC-USD:5,density", "field=value"),
        ("BTC-USD:5,colour=red", "colour"),
        ("BTC-USD:5,listing=gone", "listing"),
        ("BTC-USD:1000000000,trades_per_s=0.1", "raise trades_per_s"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, named: str) -> None:
    with pytest.raises(SpecError, match=named) as caught:
        parse_product(text)
    assert caught.value.text == text


def test_the_default_catalogue_has_one_of_each_kind() -> None:
    assert any(spec.trades >= 300_000 and spec.density == 1 for spec in DEFAULT_CATALOGUE)
    assert any(spec.density < 1 and spec.gaps for spec in DEFAULT_CATALOGUE)
    assert any(spec.first_id > 1 for spec in DEFAULT_CATALOGUE)
    assert any(0 < spec.trades < 1000 for spec in DEFAULT_CATALOGUE)
    assert any(spec.trades == 0 for spec in DEFAULT_CATALOGUE)
    assert any(spec.growth_per_s for spec in DEFAULT_CATALOGUE)
    assert any(spec.listing != "online" for spec in DEFAULT_CATALOGUE)


def test_settings_survive_json() -> None:
    settings = ExchangeSettings.of(
        "BTC-USD:5",
        seed=3,
        latency="lognormal:p50=0.2,p95=0.8,inbound=0.5",
        limits=[{"kind": "bucket", "rate_per_s": 8}, {"kind": "window", "requests": 5}],
        faults=["cut,how=chunked,calls=2", "refuse,between_s=1:2"],
        keys=[{"key": "k", "secret": "c2VjcmV0", "passphrase": "p"}],
    )
    assert ExchangeSettings.model_validate_json(settings.model_dump_json()) == settings


def test_settings_keep_secrets_out_of_their_text() -> None:
    settings = ExchangeSettings.of(keys=[{"key": "k", "secret": "c2VjcmV0", "passphrase": "pass"}])
    assert "c2VjcmV0" not in repr(settings)
    assert "'pass'" not in repr(settings)


@pytest.mark.parametrize(
    "fields", [{"seed": "x"}, {"colour": 1}, {"products": ["BTC-USD:x"]}, {"faults": ["nothing"]}]
)
def test_settings_that_cannot_be_used_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        ExchangeSettings.of(**fields)


def test_the_truth_of_a_product_that_is_not_listed_is_refused() -> None:
    with pytest.raises(SpecError, match="NOPE-USD"):
        ExchangeSettings.of("BTC-USD:5").history("NOPE-USD")
