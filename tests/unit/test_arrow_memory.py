"""Which allocator Arrow takes its memory from: the system's, unless the user says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"


@pytest.mark.parametrize(("chosen", "expected"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_arrow_uses_the_systems_allocator_unless_configured_otherwise(
    chosen: str | None, expected: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != _VARIABLE}
    if chosen is not None:
        environment[_VARIABLE] = chosen
    code = (
        "import headrace.trades, pyarrow;"
        "held = pyarrow.array(range(100_000));"
        "pool = pyarrow.default_memory_pool();"
        "print(pool.backend_name, pool.bytes_allocated() >= 800_000)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [expected, "True"]
    assert not done.stderr
