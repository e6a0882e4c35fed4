"""Whether every setting means something."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.doctor.model import Examined, Finding, ok, problem
from headrace.errors import ConfigurationError
from headrace.exchange.transport import checked_base_url
from headrace.metrics import check_metrics
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota import parse_rates


def look_at_settings(examined: Examined) -> Iterator[Finding]:
    """Each setting that has a form, through the parser that a run sends it through."""
    parsers: tuple[tuple[str, str, Callable[[str], object]], ...] = (
        ("HEADRACE_RATE", examined.rate, parse_rates),
        ("HEADRACE_COINBASE_URL", examined.base_url, checked_base_url),
        ("HEADRACE_METRICS", examined.settings.metrics, check_metrics),
    )
    wrong = False
    for name, value, parse in parsers:
        if value.startswith(BLOCK_PREFIX):
            continue
        try:
            parse(value)
        except ConfigurationError as error:
            wrong = True
            said = error.message if name in error.message else f"{name}: {error.message}"
            yield problem(said, error.hint)
    if not wrong:
        yield ok(f"{examined.base_url} at {examined.rate} into {examined.lake}")
