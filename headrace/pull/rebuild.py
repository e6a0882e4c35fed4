"""A checkpoint made from the lake alone: names say what is covered, footers what is in it.

Not one request goes to the exchange, and what an older checkpoint said plays no part. What names
and footers do not say is left open and is found by the next run: what failed, and how far the
exchange has gone beyond what is stored.
"""

from __future__ import annotations

from datetime import datetime

from headrace.kill_points import kill_point
from headrace.lake import RawLake
from headrace.pull.checkpoints import Checkpoint, CheckpointStore, noted_token
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable, NothingToRebuild
from headrace.pull.product_leases import ProductLeases


def rebuild(
    lake: RawLake,
    product: str,
    *,
    checkpoints: CheckpointStore,
    product_leases: ProductLeases,
    run_id: str,
    ttl_s: float,
    now: datetime,
    force: bool = False,
) -> Checkpoint:
    """Save a checkpoint of `product` as the lake has it, while no run is at it.

    An absent, older or damaged checkpoint is replaced. One of a newer version is not, since what
    it knows would be lost on those who can read it, unless `force` is set.

    Raises:
        CheckpointTooNew: a newer version wrote the one that is there.
        NothingToRebuild: the lake holds no part of the product.
        PartUnreadable, StoreError: the lake cannot be read; the checkpoint was left as it is.
        LeaseHeld: a run is under way.
        LeaseLost: another run has taken over meanwhile; nothing was saved.
        CheckpointNotSaved: the store of checkpoints does not answer.
    """
    above = noted_token(checkpoints, lake.exchange, product)
    with product_leases.acquire_all(run_id, ttl_s=ttl_s, above=above) as lease:
        if not force:
            _refuse_newer(checkpoints, lake.exchange, product)
        checkpoint = from_lake(
            lake, product, name=checkpoints.lake, token=lease.token, run_id=run_id, now=now
        )
        kill_point("before-checkpoint")
        lease.check()
        checkpoints.save(checkpoint)
        kill_point("after-checkpoint")
        return checkpoint


def from_lake(
    lake: RawLake, product: str, *, name: str, token: int, run_id: str, now: datetime
) -> Checkpoint:
    """What the lake, which calls itself `name`, says about `product`.

    The newest id is at least the last one covered: no run asks beyond what the exchange showed.

    Raises:
        NothingToRebuild: it holds no part of the product.
        PartUnreadable, StoreError: it cannot be read.
    """
    held = lake.stats(product)
    covered = held.covered
    if covered.last is None:
        raise NothingToRebuild(product, name)
    return Checkpoint(
        lake=name,
        source=lake.exchange,
        product=product,
        covered=covered.ranges,
        holes=held.holes.ranges,
        rows=held.rows,
        first=lake.proven_first(product) or 0,
        watermark=covered.watermark(),
        newest=covered.last,
        fencing_token=token,
        run_id=run_id,
        updated_at=now,
    )


def _refuse_newer(checkpoints: CheckpointStore, source: str, product: str) -> None:
    try:
        checkpoints.load(source, product)
    except CheckpointTooNew:
        raise
    except CheckpointUnreadable:
        # What is damaged is what a rebuild is for.
        return
