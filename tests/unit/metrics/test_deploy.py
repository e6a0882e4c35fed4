"""What `deploy/` names exists: metrics, their labels, and the alerts that a command writes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from headrace.metrics import CATALOGUE, Kind
from headrace.metrics.alarms import Thresholds, prometheus_rules

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
#: By what Prometheus calls it: the labels that a query may name.
LABELS = {
    f"{metric.prometheus_name}{suffix}": {*metric.labels, *(["le"] if suffix else [])}
    for metric in CATALOGUE
    for suffix in (("_bucket", "_sum", "_count") if metric.kind is Kind.TIMES else ("",))
}
#: Of the node exporter.
OTHERS = {"node_textfile_mtime_seconds"}


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for group in RULES["groups"] for rule in group["rules"])
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("expression", list(expressions()))
def test_each_metric_and_label_exists(expression: str) -> None:
    named = re.findall(r"\b(?:headrace|node)_\w+", expression)
    assert named
    assert set(named) <= LABELS.keys() | OTHERS
    known = set.union(*(LABELS.get(name, {"file"}) for name in named))
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    matched = re.findall(r'[{,](\w+)(?:=~|=|!=)"', expression)
    labels = {label.strip() for group in grouped for label in group.split(",")} | {*matched}
    assert labels <= known
    assert all(
        expression.count(one) == expression.count(other) for one, other in ("()", "{}", "[]")
    )


@pytest.fixture(scope="module")
def promtool() -> str:
    """The tool of Prometheus itself that checks rules."""
    return shutil.which("promtool") or pytest.skip("no promtool here: apt-get install prometheus")


def test_prometheus_takes_the_rules_and_each_alert_fires(promtool: str) -> None:
    """The cases name an alert, the series that set it off, and what it says then."""
    cases = Path(__file__).with_name("prometheus-rules-cases.yml")
    done = subprocess.run(
        [promtool, "test", "rules", cases], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tested = {each["alertname"] for test in yaml.safe_load(cases.read_text())["tests"]
              for each in test["alert_rule_test"] if each.get("exp_alerts")}  # fmt: skip
    assert tested == {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}


def test_prometheus_takes_the_queries_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    queries = [
        # What Grafana puts in place of it.
        expression.replace("$__rate_interval", "1m")
        for expression in expressions()
    ]
    rules = [{"record": f"panel:{n}", "expr": query} for n, query in enumerate(queries)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", file], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_is_on_the_dashboard() -> None:
    text = json.dumps(DASHBOARD)
    assert [each.name for each in CATALOGUE if f"headrace_{each.name}" not in text] == []


def test_the_alerts_of_the_command_are_there() -> None:
    written = yaml.safe_load(prometheus_rules(Thresholds(data_age_s=3600)))
    assert RULES["groups"][0] == written["groups"][0]
    names = [rule["alert"] for group in RULES["groups"] for rule in group["rules"]]
    assert len(set(names)) == len(names)
    assert all(
        rule["labels"]["severity"] and rule["annotations"]["summary"]
        for group in RULES["groups"]
        for rule in group["rules"]
    )


def test_panels_have_places_of_their_own() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
