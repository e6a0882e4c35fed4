"""The checkpoint against the lake, which wins."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.audit.coverage import Tally
from headrace.audit.findings import Finding, Kind
from headrace.pull.checkpoints import Checkpoint, CheckpointStore
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable


def load(
    checkpoints: CheckpointStore, source: str, product: str
) -> Checkpoint | CheckpointUnreadable | None:
    """The checkpoint, why it cannot be used, or None if there is none.

    Raises:
        CheckpointNotSaved: the store of checkpoints does not answer.
    """
    try:
        return checkpoints.load(source, product)
    except CheckpointUnreadable as error:
        return error


def checkpoint_findings(
    product: str, found: Checkpoint | CheckpointUnreadable | None, counted: Tally
) -> Iterator[Finding]:
    """Where the checkpoint and the lake disagree.

    `found` must have been loaded before the lake was listed: a run that commits in between then
    makes the checkpoint look behind, which is harmless, and never ahead.
    """
    rebuild = f"headrace checkpoint rebuild {product}, or headrace audit {product} --heal"
    if isinstance(found, CheckpointUnreadable):
        repair = "upgrade headrace" if isinstance(found, CheckpointTooNew) else rebuild
        yield Finding(Kind.CHECKPOINT_UNREADABLE, product, found.message, repair)
    elif found is None:
        if counted.answered:
            message = "there is no checkpoint; the next run makes one from the lake"
            yield Finding(Kind.CHECKPOINT_ABSENT, product, message)
    else:
        yield from _differences(product, found, counted, rebuild)


def _differences(
    product: str, found: Checkpoint, counted: Tally, rebuild: str
) -> Iterator[Finding]:
    ahead = found.coverage - counted.answered
    for lo, hi in ahead:
        message = f"the checkpoint claims {hi - lo + 1:,} ids that no part answers for"
        yield Finding(Kind.CHECKPOINT_AHEAD, product, message, rebuild, (lo, hi))
    reached = counted.answered.watermark()
    if found.watermark > reached and not ahead:
        message = f"the checkpoint's watermark is {found.watermark}, the lake reaches {reached}"
        yield Finding(Kind.CHECKPOINT_AHEAD, product, message, rebuild)
    for lo, hi in counted.answered - found.coverage:
        message = f"the checkpoint does not know {hi - lo + 1:,} ids that are stored"
        yield Finding(
            Kind.CHECKPOINT_BEHIND, product, f"{message}; the next run catches up", range=(lo, hi)
        )
    same_ids = found.coverage == counted.answered
    if same_ids and counted.digest is not None and found.rows not in (0, counted.rows):
        message = f"the checkpoint counts {found.rows:,} trades, the lake {counted.rows:,}"
        yield Finding(Kind.CHECKPOINT_AHEAD, product, message, rebuild)
