"""Log lines: one per event, for people or as JSON, each with its run, product and chunk.

with about(run=run_id), about(product="BTC-USD", chunk="1-128000"):
    log.info("stored", extra={"facts": {"rows": 128_000}})

`context` says what the lines of a block are about, `formats` writes a record as one line,
`redaction` keeps secrets and long texts out, `setup` has the lines written to standard error.
The library itself only calls `logging`; who embeds it decides what becomes of its records.
"""

from typing import TYPE_CHECKING

from headrace.lazy_imports import deferred
from headrace.logs.context import about, about_now, run_everywhere

if TYPE_CHECKING:
    from headrace.logs.formats import HumanFormatter, JsonFormatter, json_line
    from headrace.logs.redaction import hide, safe_text
    from headrace.logs.setup import LOGGER, written

__all__ = [
    "LOGGER",
    "HumanFormatter",
    "JsonFormatter",
    "about",
    "about_now",
    "hide",
    "json_line",
    "run_everywhere",
    "safe_text",
    "written",
]

__getattr__ = deferred(
    __name__,
    {
        "formats": "HumanFormatter JsonFormatter json_line",
        "redaction": "hide safe_text",
        "setup": "LOGGER written",
    },
)
