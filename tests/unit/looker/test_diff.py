from pathlib import Path

import pytest
from support.vaults import body, dashboard, new_vault, store

from headrace.errors import ConfigurationError
from headrace.looker.diff import MISSING, ChangeKind, changes, differences, pair_of_sessions
from headrace.looker.vault import NoSuchSession, Vault


def _paths(before: bytes, after: bytes, **options: bool) -> dict[str, tuple[object, object]]:
    return {c.path: (c.before, c.after) for c in changes(before, after, **options)}


def test_fields_are_named_by_their_way_down() -> None:
    before = body(a=1, b={"c": [1, 2], "d": "x"}, gone=None)
    after = body(a=2, b={"c": [1, 3, 4], "d": "x"}, new=[])
    assert _paths(before, after) == {
        "a": (1, 2),
        "b.c[1]": (2, 3),
        "b.c[2]": (MISSING, 4),
        "gone": (None, MISSING),
        "new": (MISSING, []),
    }


def test_elements_are_distinguished_by_their_ids() -> None:
    one, two = {"id": 1, "title": "one"}, {"id": "2", "title": "two"}
    assert _paths(body(e=[one, two]), body(e=[{**two, "title": "zwei"}, one])) == {
        "e[id=2].title": ("two", "zwei")
    }
    assert _paths(body(e=[one, two]), body(e=[two])) == {"e[id=1]": (one, MISSING)}
    # Two with one id cannot be distinguished by it.
    assert _paths(body(e=[one, one]), body(e=[one, two])).keys() == {"e[1].id", "e[1].title"}


@pytest.mark.parametrize(
    ("before", "after"),
    [(b'{"x":1}', b'{"x":"1"}'), (b'{"x":1}', b'{"x":true}'), (b'{"x":0}', b'{"x":null}'),
     (b'{"x":0.1}', b'{"x":0.10000000000000000001}'), (b'{"x":1}', b'{"x":1.0}'),
     (b'{"x":9007199254740993}', b'{"x":9007199254740992}'), (b'{"x":[]}', b'{"x":{}}')],
)  # fmt: skip
def test_values_are_compared_exactly(before: bytes, after: bytes) -> None:
    assert _paths(before, after).keys() == {"x"}
    assert _paths(before, before) == {}


def test_what_changes_by_being_looked_at_is_left_out_unless_asked_for() -> None:
    before, after = body(view_count=1, x={"can": {"a": True}}), body(view_count=2, x={"can": {}})
    assert _paths(before, after) == {}
    assert _paths(before, after, volatile=True).keys() == {"view_count", "x.can.a"}


@pytest.fixture
def vault(tmp_path: Path):
    with new_vault(tmp_path) as opened:
        yield opened


def test_what_became_of_each_item(vault: Vault) -> None:
    first = store(vault, *(dashboard(n, f"t{n}", view_count=1) for n in range(5)))
    second = store(
        vault,
        dashboard(0, "t0", view_count=1),
        dashboard(1, "renamed", view_count=2),
        dashboard(2, "t2", view_count=7),
        dashboard(9, "new"),
    )
    vault.listings.delete(second, "dashboard", "3", evidence="404")
    third = store(vault, dashboard(3, "t3", view_count=1), dashboard(9, "new", deleted=True))

    def found(before: int, after: int, **options: bool) -> list[tuple[str, ChangeKind]]:
        return [(d.id, d.what) for d in differences(vault, before, after, **options)]

    assert found(first, second) == [
        ("1", ChangeKind.CHANGED),
        ("3", ChangeKind.DELETED),
        ("9", ChangeKind.ADDED),
    ]
    assert ("2", ChangeKind.CHANGED) in found(first, second, volatile=True)
    assert found(second, third) == [("3", ChangeKind.RETURNED), ("9", ChangeKind.DELETED)]
    # Gone and back again is the same, and what came and went in between was never there.
    assert found(first, third) == [("1", ChangeKind.CHANGED)]
    (changed,) = (d for d in differences(vault, first, second) if d.what is ChangeKind.CHANGED)
    assert [(c.path, c.before, c.after) for c in changed.changes] == [("title", "t1", "renamed")]
    assert list(differences(vault, first, second, types=["look"])) == []


def test_an_edit_of_ours_says_so(vault: Vault) -> None:
    first = store(vault, dashboard(1))
    session = vault.sessions.begin("pack")
    vault.upsert_many(session, [dashboard(1, "edited")], origin="pack")
    (found,) = differences(vault, first, session)
    assert found.origin == "pack"


def test_the_last_two_sessions_unless_others_are_named(vault: Vault) -> None:
    with pytest.raises(ConfigurationError, match="no session yet"):
        pair_of_sessions(vault, None, None)
    store(vault, dashboard(1))
    with pytest.raises(ConfigurationError, match="no session before 1"):
        pair_of_sessions(vault, None, None)
    store(vault, dashboard(1))
    store(vault, dashboard(1))
    assert pair_of_sessions(vault, None, None) == (2, 3)
    assert pair_of_sessions(vault, 1, None) == (1, 3)
    with pytest.raises(NoSuchSession):
        pair_of_sessions(vault, 1, 7)
    with pytest.raises(ConfigurationError, match="not before"):
        pair_of_sessions(vault, 3, 1)
