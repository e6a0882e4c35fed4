"""The rules file: valid YAML, the documented thresholds, and metrics that exist."""

import re

import pytest
import yaml
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.metrics.alarms import Thresholds, alarms, prometheus_rules
from headrace.metrics.catalogue import CATALOGUE


def rules_of(limits=None, **options):
    [group] = yaml.safe_load(prometheus_rules(limits or Thresholds(), **options))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_the_four_default_alarms_have_the_documented_thresholds():
    rules = rules_of()

    ends = {name: rule["expr"].rpartition(" > ")[2] for name, rule in rules.items()}
    assert ends == {
        "HeadraceResponseTime": "3",
        "HeadraceErrorRate": "10",
        "HeadraceThrottles": "10",
        "HeadraceBreakerOpens": "0",
    }
    assert rules["HeadraceBreakerOpens"]["for"] == "0m"
    assert all("$labels.source" in rule["annotations"]["summary"] for rule in rules.values())


def test_thresholds_of_ones_own_and_the_age_of_data_when_asked_for():
    rules = rules_of(Thresholds(response_s=1.5, data_age_s=3600), window="5m")

    assert rules["HeadraceResponseTime"]["expr"].endswith(" > 1.5")
    assert "[5m]" in rules["HeadraceResponseTime"]["expr"]
    age = rules["HeadraceDataAge"]["expr"]
    assert age == "time() - min by (source) (headrace_newest_timestamp_seconds) > 3600"


def test_rules_ask_for_figures_that_are_written():
    written = {metric.prometheus_name for metric in CATALOGUE}
    written |= {f"{name}_{part}" for name in written for part in ("sum", "count")}
    rules = rules_of(Thresholds(data_age_s=1))
    assert len(rules) == len(alarms(Thresholds(data_age_s=1))) > 3
    for rule in rules.values():
        asked = set(re.findall(r"headrace_\w+", rule["expr"]))
        assert asked
        assert asked <= written


def test_the_command_writes_them_and_replaces_nothing_unasked(tmp_path):
    path = tmp_path / "rules.yml"
    run = CliRunner().invoke
    assert run(app, ["metrics", "alarms", "prometheus", str(path)]).exit_code == 0
    before = path.read_text()
    assert yaml.safe_load(before) == yaml.safe_load(prometheus_rules(Thresholds()))

    refused = run(app, ["metrics", "alarms", "prometheus", str(path), "--response-s", "9"])
    assert "--force" in str(refused.exception)
    assert path.read_text() == before
    again = ["metrics", "alarms", "prometheus", str(path), "--response-s", "9", "--force"]
    assert run(app, again).exit_code == 0
    assert " > 9" in path.read_text()


@pytest.mark.parametrize("window", ["", "2", "m", "0m", "2 m", "1y"])
def test_a_window_that_is_none_is_refused(window):
    result = CliRunner().invoke(app, ["metrics", "alarms", "prometheus", "--window", window])
    assert "--window" in str(result.exception)
