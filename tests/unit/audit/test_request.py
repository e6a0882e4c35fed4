"""What can be audited, and what cannot."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.audit.request import AuditRequest
from headrace.errors import ConfigurationError

ACCESS = {"lake": "x", "base_url": "http://127.0.0.1:1", "rate": "10/s"}


def test_healing_needs_the_exchange() -> None:
    with pytest.raises(ConfigurationError, match="exclude each other"):
        AuditRequest.checked(heal=True, offline=True, **ACCESS)


def test_a_lag_needs_the_exchange() -> None:
    lag = timedelta(minutes=15)
    with pytest.raises(ConfigurationError, match="lag and offline exclude each other"):
        AuditRequest.checked(offline=True, lag=lag, **ACCESS)


def test_the_pull_of_a_healing_is_a_backfill_of_everything() -> None:
    request = AuditRequest.checked(heal=True, **ACCESS)
    pull = request.pull_of(["A"])
    assert (pull.products, pull.planner, pull.from_id, pull.full_refresh) == (
        ("A",),
        "backfill",
        None,
        False,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"accept": "x"}, "give sign, too"),
        ({"sign": True, "accept": "two\nlines"}, "one line of plain text"),
        ({"sign": True, "accept": "\udcff"}, "accept: "),
    ],
)
def test_a_reason_to_sign_is_a_line_beside_sign(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        AuditRequest.checked(**given, **ACCESS)
