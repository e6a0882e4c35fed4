"""What a process of a cluster of our own does at its start, before it takes a task.

Dask imports the module by its name and calls `dask_setup` (its "preload").
"""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(_worker: Any) -> None:
    """Leave Ctrl-C to the run, which ends this process when it has what was complete.

    A terminal sends it to every process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
