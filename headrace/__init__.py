"""Headrace: everything a rate-limited API will give, exactly once, as fast as its quota allows."""

import os

__version__ = "0.1.0"

# Arrow reads this once, when it is imported, so it stands here, before everything else of ours. Its
# own allocator keeps what ended threads have freed: several times of what is in use
# (docs/benchmarks.md). What the user has set is left alone.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
