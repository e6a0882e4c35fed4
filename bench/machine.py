"""What the figures were measured on: they are worth nothing without it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
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


def measured(module: str, *arguments: str) -> dict[str, Any]:
    """What a bench module, run in a process of its own, prints as JSON in its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
