"""The commands of the log that are flows, run here."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cli.running import pipeline_command
from headrace.errors import ConfigurationError
from headrace.extras import require
from headrace.sot.opening import CQL_SCHEME
from headrace.sot.requests import (
    MigrateRequest,
    RecoverRequest,
    SotRequest,
    VerifyRequest,
    WriteRequest,
)


def _command(name: str, request: type[SotRequest], text: str) -> Callable[..., None]:
    """The command `headrace sot NAME`, which runs `flows.sot_NAME`."""
    return pipeline_command(f"sot_{name}", request, text, name=name, check=_check)


def _check(request: SotRequest, as_json: bool) -> None:
    if as_json and getattr(request, "out", "") == "-":
        raise ConfigurationError(
            "standard output cannot hold both the replay and --json", hint="Name a file"
        )
    if request.store.startswith(CQL_SCHEME):
        # Before a server is started.
        require("cql")


write = _command(
    "write",
    WriteRequest,
    """Put every record of a stream into its symbol's chain; what is there already stays.

    Exit code 0: all of it is stored; 4: some was not, and is named; 1: nothing was.
    """,
)
verify = _command(
    "verify",
    VerifyRequest,
    """Find any damage, gap, fork or reordering in the log, and name it.

    Exit code 0: nothing is wrong; 4: something is, and is named; 1: nothing good was found.
    """,
)
recover = _command(
    "recover",
    RecoverRequest,
    """Write the log as a stream equal to what came in; nothing damaged is handed on as good.

    Exit code 0: all of it; 4: a part, in OUT.partial, and why; 1: nothing could be replayed.
    """,
)
migrate = _command(
    "migrate",
    MigrateRequest,
    """Lead an unsharded log over into the sharded one: begin, backfill, compare, switch, end.

    Exit code 0: done; 4: the logs differ, or one is behind; 2: the step does not lead on from here.
    """,
)
