"""Waiting for the server of a shared quota: no permit is given meanwhile, and then all goes on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from headrace.quota.exceptions import QuotaOutage
from headrace.stopping import STOP

log = logging.getLogger(__name__)

T = TypeVar("T")

#: For so many seconds a server of quotas is waited for, which is enough to start it again.
PATIENCE_S = 120.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


def patiently(work: Callable[[], T], pause: Callable[[float], object] = STOP.sleep) -> T:
    """Do `work`, and again while the server of the quota does not answer.

    Args:
        work: may have had its effect where it raises `QuotaOutage`.
        pause: sleeps for so many seconds; raises to give up.

    Raises:
        QuotaOutage: it still does not answer after `PATIENCE_S`.
    """
    began = None
    next_s = _FIRST_PAUSE_S
    while True:
        try:
            done = work()
        except QuotaOutage as outage:
            now = time.monotonic()
            if began is None:
                began = now
                log.warning("%s; no permits until it answers", outage.message)
            elif now - began > PATIENCE_S:
                raise
            pause(next_s)
            next_s = min(_LONGEST_PAUSE_S, 2 * next_s)
        else:
            if began is not None:
                gone_s = time.monotonic() - began
                log.warning("the server of the quota answers again after %.1f s", gone_s)
            return done
