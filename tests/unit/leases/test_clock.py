"""The time of a store as an interval that holds it, whatever the answers took."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from headrace.leases.clock import StoreClock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_true_time_is_always_within() -> None:
    """Whole seconds, answers that were slow on either way, and any time since the last one."""
    rng = random.Random(7)
    boot_s = 100.0
    clock = StoreClock(lambda: boot_s, resolution_s=1.0)
    server_ahead = timedelta(hours=3)
    for _ in range(200):
        asked_boot_s = boot_s
        boot_s += rng.choice([0.001, 0.4, 3.0])  # on the way there
        said = (EPOCH + timedelta(seconds=boot_s) + server_ahead).replace(microsecond=0)
        boot_s += rng.choice([0.001, 0.4, 3.0])  # and back
        clock.note(said, asked_boot_s=asked_boot_s)
        boot_s += rng.choice([0.0, 0.5, 20.0])
        true = EPOCH + timedelta(seconds=boot_s) + server_ahead
        assert clock.earliest() <= true <= clock.latest()
        width = clock.latest() - clock.earliest()
        assert width <= timedelta(seconds=1.0 + 6.0)


def test_it_does_not_guess_before_the_first_answer() -> None:
    clock = StoreClock(lambda: 0.0, resolution_s=1.0)
    for look in (clock.earliest, clock.latest):
        with pytest.raises(RuntimeError):
            look()
