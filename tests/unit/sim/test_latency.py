"""Latency models: seeded, by request number, with the percentiles that were asked for."""

from __future__ import annotations

from statistics import quantiles

import pytest

from headrace.sim import Constant, LatencySource, LogNormal, SpecError, Uniform, parse_latency


def delays(text: str, count: int = 20_000, seed: int = 1) -> list[float]:
    source = LatencySource(parse_latency(text), seed)
    return [source.delay_s(number) for number in range(1, count + 1)]


def test_constant() -> None:
    assert set(delays("constant:s=0.2", 10)) == {0.2}


def test_uniform_stays_within_its_bounds_and_fills_them() -> None:
    drawn = delays("uniform:low=0.1,high=0.3")
    assert 0.1 <= min(drawn) < 0.101
    assert 0.299 < max(drawn) <= 0.3


def test_lognormal_has_its_percentiles() -> None:
    cuts = quantiles(delays("lognormal:p50=3,p95=5"), n=100)
    assert cuts[49] == pytest.approx(3, rel=0.02)
    assert cuts[94] == pytest.approx(5, rel=0.02)


def test_the_delay_of_a_request_depends_on_seed_and_number_alone() -> None:
    assert delays("lognormal:p50=3,p95=5", 50) == delays("lognormal:p50=3,p95=5", 80)[:50]
    assert delays("lognormal:p50=3,p95=5", 50) != delays("lognormal:p50=3,p95=5", 50, seed=2)


def test_models_are_read_as_written() -> None:
    assert parse_latency("constant:s=0.2,inbound=0.5") == Constant(s=0.2, inbound=0.5)
    assert parse_latency("uniform:low=0.1,high=0.3") == Uniform(low=0.1, high=0.3)
    assert parse_latency("lognormal:p50=0.2,p95=0.8") == LogNormal(p50=0.2, p95=0.8)


@pytest.mark.parametrize(
    "text",
    [
        "normal:mean=1",
        "constant:s=-1",
        "constant:s",
        "uniform:low=2,high=1",
        "lognormal:p50=2,p95=1",
        "lognormal:p50=2",
        "constant:s=1,inbound=2",
    ],
)
def test_models_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_latency(text)
