"""docs/metrics.md lists every metric as the catalogue has it."""

from pathlib import Path

from headrace.metrics import CATALOGUE, Metric

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_table_is_the_catalogue():
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith("| `headrace_")]
    assert lines == [_row(metric) for metric in CATALOGUE]


def _row(metric: Metric) -> str:
    names = f"`{metric.prometheus_name}` | `{metric.cloud_name}`"
    return f"| {names} | {metric.unit} | {', '.join(metric.labels)} | {metric.help} |"
