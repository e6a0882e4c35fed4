"""Setting a file aside: out of every reader's way, and not lost.

    part-000000000001-000000001000.parquet
    _aside-part-000000000001-000000001000.parquet-1f3a9c2e5b7d9e01

Readers of folders (Arrow, Spark, Hive) pass names over that begin with an underscore; those that
look for `*.parquet` do not find it either. The end of the name is a digest of the content: setting
the same file aside twice, say because a kill came between, makes one copy.
"""

from __future__ import annotations

import hashlib

from headrace.faults import kill_point
from headrace.lake import Part, RawLake
from headrace.pull.turns import HeldLease

_PREFIX = "_aside-"
_DIGEST_CHARACTERS = 16


def is_set_aside(name: str) -> bool:
    """Whether a file of that name (without its folder) was set aside."""
    return name.startswith(_PREFIX)


def set_aside(raw: RawLake, part: Part, lease: HeldLease) -> str:
    """Give the file of `part` a name that is no part's; its new key. Durable when it returns.

    The copy is there before the part goes, and the lease is asked in between.

    Raises:
        ObjectMissing: it is gone already.
        LeaseLost: somebody else has taken over; the part was left where it is.
        StoreError: the store failed.
    """
    content = raw.store.get(part.key)
    folder, _, name = part.key.rpartition("/")
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    key = f"{folder}/{_PREFIX}{name}-{digest}"
    raw.store.put_if_absent(key, content)
    kill_point("after-aside")
    lease.check()
    raw.store.delete(part.key)
    return key
