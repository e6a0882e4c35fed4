"""Setting a file aside: out of every reader's way, and not lost.

    raw/trades/exchange=coinbase/product=BTC-USD/part-000000000001-000000001000.parquet

becomes, in the same lake,

    _headrace/aside/exchange=coinbase/product=BTC-USD/part-...-000000001000.parquet-1f3a9c2e5b7d9e01

The end of the name is a digest of the content: setting the same file aside twice, say because a
kill came between, makes one copy.
"""

from __future__ import annotations

import hashlib

from headrace.faults import kill_point
from headrace.lake import Part, RawLake
from headrace.lake.names import FORMER_ASIDE, aside_prefix
from headrace.pull.turns import HeldLease

_DIGEST_CHARACTERS = 16


def keys_aside(raw: RawLake, product: str) -> list[str]:
    """What earlier healings of the product set aside, also among the parts, as it was before.

    Raises:
        StoreError: the store failed.
    """
    now = [entry.key for entry in raw.store.entries(aside_prefix(raw.exchange, product))]
    return sorted([*now, *filter(is_former_aside, raw.parts(product).foreign)])


def is_former_aside(key: str) -> bool:
    """Whether an earlier version set the file aside among the parts; any run moves it away."""
    return key.rpartition("/")[2].startswith(FORMER_ASIDE)


def set_aside(raw: RawLake, product: str, part: Part, lease: HeldLease) -> str:
    """Move the file of `part` away from the parts; its new key. Durable when it returns.

    The copy is there before the part goes, and the lease is asked in between.

    Raises:
        ObjectMissing: it is gone already.
        LeaseLost: another holder has taken over; the part was left where it is.
        StoreError: the store failed.
    """
    content = raw.store.get(part.key)
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    key = f"{aside_prefix(raw.exchange, product)}{part.name}-{digest}"
    raw.store.put_if_absent(key, content)
    kill_point("after-aside")
    lease.check()
    raw.store.delete(part.key)
    return key
