"""What the figures were measured on: they are worth nothing without it."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).parent / "results"


def machine_state() -> dict[str, Any]:
    """Processor, cores, load and the versions that matter, at this moment."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_1m": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {
            name: version(name) for name in ("headrace", "prefect", "pyrate-limiter", "pyarrow")
        },
    }


def save(name: str, results: dict[str, Any]) -> Path:
    """Write results as JSON under `bench/results`."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
