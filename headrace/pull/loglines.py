"""What happens in a run, as lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headrace.pull.receipts import ProductReceipt

log = logging.getLogger(__name__)


def log_event(name: str, facts: Mapping[str, object]) -> None:
    """The line of an event that the library does not log itself."""
    extra = {"event": name, "facts": facts}
    if name == "committed":
        log.info("committed, complete up to trade %s", facts.get("watermark"), extra=extra)
    elif name == "hole-proven":
        log.info("no trade has an id from %(from_id)s to %(to_id)s", facts, extra=extra)
    elif name == "lease-lost":
        log.warning("the lease is lost: %s", facts.get("reason"), extra=extra)


def log_product(receipt: ProductReceipt) -> None:
    """The line of a product that ended."""
    facts = {"status": receipt.status.value, "rows": receipt.new_rows, "pages": receipt.pages}
    level = logging.INFO if receipt.status.quiet else logging.WARNING
    text = f"{receipt.status.value.replace('_', ' ')}: {receipt.new_rows:,} new trades"
    if receipt.error:
        text += f" ({receipt.error})"
    log.log(level, "%s", text, extra={"event": "product-ended", "facts": facts})
