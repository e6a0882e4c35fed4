"""The least time that any client could take: a discrete-event simulation without overheads.

Every product has a pool of places and a number of pages. A free place takes the next page, waits
for its permit (first come, first served, at most `limit` in any window), and is busy for as long as
the server takes. The last answer ends the run, so the drain is included.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence


def ideal_s(
    pages: Sequence[int],
    pool: int,
    *,
    limit: int,
    window_s: float,
    delay_s: Callable[[int], float],
) -> float:
    """Seconds from the first request to the last answer.

    Args:
        pages: pages of each product.
        pool: places of each product.
        limit, window_s: the quota; infinite if `limit` is 0.
        delay_s: how long the n-th request takes (n from 1).
    """
    left = list(pages)
    free = [(0.0, product) for product in range(len(pages)) for _ in range(pool)]
    heapq.heapify(free)
    granted: deque[float] = deque(maxlen=limit or 1)
    number, now, end = 0, 0.0, 0.0
    while free:
        at, product = heapq.heappop(free)
        if not left[product]:
            continue
        left[product] -= 1
        number += 1
        now = max(now, at)
        if limit and len(granted) == limit:
            now = max(now, granted[0] + window_s)
        granted.append(now)
        done = now + delay_s(number)
        end = max(end, done)
        heapq.heappush(free, (done, product))
    return end
