"""The least time that any client could take: a discrete-event simulation without overheads.

Every product has a pool of places and a number of pages. A free place takes the next page, waits
for its permit (first come, first served, at most `limit` in any window), and is busy for as long as
the server takes. The last answer ends the run, so the drain is included. A client that starts from
nothing has to ask first how far a product's history goes: until its newest page is answered the
others cannot be cut.
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
    asks_first: bool,
) -> float:
    """Seconds from the first request to the last answer.

    Args:
        pages: pages of each product.
        pool: places of each product.
        limit, window_s: the quota; infinite if `limit` is 0.
        delay_s: how long the n-th request takes (n from 1).
        asks_first: whether each product begins with one page that its other pages wait for.
    """
    left = list(pages)
    places = 1 if asks_first else pool
    free = [(0.0, product) for product in range(len(pages)) for _ in range(places)]
    heapq.heapify(free)
    asking = set(range(len(pages))) if asks_first else set()
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
        opened = pool if product in asking else 1
        asking.discard(product)
        for _ in range(opened):
            heapq.heappush(free, (done, product))
    return end
