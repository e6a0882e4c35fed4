"""Settings of metrics: what they mean, and what is refused in one line."""

import pytest

from headrace.errors import ConfigurationError
from headrace.metrics import MetricsSettingError, open_sink, parse_sink, publishing
from headrace.metrics.prometheus import PrometheusFile
from headrace.settings import Settings, load_settings


@pytest.mark.parametrize("text", ["none", "", " none "])
def test_nowhere(text):
    assert open_sink(text, most_products=1) is None
    with publishing(Settings(metrics=text)) as meter:
        assert meter is None


def test_a_file_and_a_namespace():
    assert parse_sink("prometheus:/var/lib/x/headrace.prom") == (
        "prometheus", "/var/lib/x/headrace.prom",
    )  # fmt: skip
    assert parse_sink("cloudwatch:Team/Headrace") == ("cloudwatch", "Team/Headrace")


@pytest.mark.parametrize(
    "text",
    [
        "prometheus",
        "prometheus:/var/lib/headrace.txt",
        "cloudwatch:",
        "cloudwatch:AWS/EC2",
        "cloudwatch:a\nb",
        "none:x",
        "statsd:localhost",
    ],
)
def test_anything_else_is_refused_with_what_to_write(text):
    with pytest.raises(MetricsSettingError) as caught:
        parse_sink(text)

    assert isinstance(caught.value, ConfigurationError)
    assert "prometheus:FILE.prom" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2


def test_a_path_is_taken_from_the_folder_in_which_the_run_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sink = open_sink("prometheus:metrics/headrace.prom", most_products=1)

    assert isinstance(sink, PrometheusFile)
    assert sink.path == tmp_path / "metrics" / "headrace.prom"


@pytest.mark.parametrize("products", ["-1", "201", "many"])
def test_the_cap_has_bounds(monkeypatch, products):
    monkeypatch.setenv("HEADRACE_METRICS_PRODUCTS", products)
    with pytest.raises(ConfigurationError, match="HEADRACE_METRICS_PRODUCTS"):
        load_settings()
