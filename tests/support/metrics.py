"""Read what runs have published to a Prometheus text file."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families


def samples(path: Path) -> dict[tuple[str, str], float]:
    """Values by name and what tells them apart: the product, the shard, the kind of run, or ""."""
    return {
        (sample.name, _about(sample.labels)): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def _about(labels: dict[str, str]) -> str:
    return next((labels[name] for name in ("product", "shard", "flow") if name in labels), "")
