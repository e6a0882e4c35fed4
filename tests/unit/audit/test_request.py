"""What can be audited, and what cannot."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.audit.request import AuditRequest, NothingToAudit, NotInLake, chosen_products
from headrace.errors import ConfigurationError
from headrace.lake.local import LocalStore
from headrace.products.kept import list_key
from headrace.products.listing import NamedSet, ProductList

ACCESS = {"lake": "x", "base_url": "http://127.0.0.1:1", "rate": "10/s"}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake")


def chosen(store: LocalStore, stored: list[str], **choice: Any) -> tuple[str, ...]:
    return chosen_products(AuditRequest.checked(**choice, **ACCESS), store, stored).products


def test_none_asked_for_means_all(store: LocalStore) -> None:
    assert chosen(store, ["A", "B"]) == ("A", "B")
    assert chosen(store, ["A", "B"], products=["B"]) == ("B",)


def test_what_is_not_there_is_named_with_what_is(store: LocalStore) -> None:
    with pytest.raises(NotInLake, match=r"holds nothing of C, D.*It holds A, B"):
        chosen(store, ["A", "B"], products=["C", "A", "D"])
    with pytest.raises(NothingToAudit, match=store.location):
        chosen(store, [])


def test_what_a_set_names_is_missing_where_it_is_not_stored(store: LocalStore) -> None:
    named = ProductList(sets=(NamedSet("x", ("A", "C")),))
    store.put(list_key("coinbase"), msgspec.json.encode(named))
    assert chosen(store, ["A", "B"], set="x") == ("A", "C")
    with pytest.raises(NotInLake, match="holds nothing of C"):
        chosen(store, ["A", "B"], set="x", offline=True)


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
