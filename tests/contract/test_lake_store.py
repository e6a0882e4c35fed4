"""What every store promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.lake import Store
from headrace.lake.exceptions import ObjectMissing

KEY = "raw/trades/exchange=x/product=A-B/part.parquet"
FOLDER = KEY.rpartition("/")[0] + "/"


def test_what_is_put_is_what_is_read(store: Store) -> None:
    content = bytes(range(256)) * 5_000

    store.put(KEY, content)

    assert store.get(KEY) == content
    assert store.exists(KEY)


def test_put_takes_the_place_of_what_is_there(store: Store) -> None:
    store.put(KEY, b"first, and longer")
    store.put(KEY, b"second")

    assert store.get(KEY) == b"second"


def test_only_the_first_conditional_put_is_kept(store: Store) -> None:
    assert store.put_if_absent(KEY, b"first") is True
    assert store.put_if_absent(KEY, b"second") is False
    assert store.put_if_absent(KEY, b"first") is False

    assert store.get(KEY) == b"first"


def test_of_writers_at_once_exactly_one_creates(
    store: Store, request: pytest.FixtureRequest
) -> None:
    if "[moto]" in request.node.name:
        pytest.skip("moto looks for an object and stores it in two steps")
    contents = [f"writer {n}".encode() for n in range(4)]

    with ThreadPoolExecutor(len(contents)) as pool:
        created = list(pool.map(lambda content: store.put_if_absent(KEY, content), contents))

    assert sum(created) == 1
    assert store.get(KEY) == contents[created.index(True)]


def test_the_end_of_an_object(store: Store) -> None:
    store.put(KEY, b"0123456789")

    assert store.tail(KEY, 4) == b"6789"
    assert store.tail(KEY, 10) == b"0123456789"
    assert store.tail(KEY, 1_000) == b"0123456789"


def test_a_span_of_an_object(store: Store) -> None:
    store.put(KEY, b"0123456789")

    assert store.span(KEY, 0, 1) == b"0"
    assert store.span(KEY, 3, 4) == b"3456"
    assert store.span(KEY, 8, 100) == b"89"


def test_an_empty_object_is_an_object(store: Store) -> None:
    store.put(KEY, b"")

    assert store.get(KEY) == b""
    assert store.tail(KEY, 8) == b""
    assert store.exists(KEY)


def test_what_is_missing_is_named(store: Store) -> None:
    for read in (store.get, lambda key: store.tail(key, 8), lambda key: store.span(key, 0, 8)):
        with pytest.raises(ObjectMissing) as caught:
            read(KEY)
        assert store.place(KEY) in str(caught.value)
    assert not store.exists(KEY)


def test_removal_is_final_and_may_be_repeated(store: Store) -> None:
    store.put(KEY, b"x")

    store.delete(KEY)
    store.delete(KEY)

    assert not store.exists(KEY)
    assert list(store.entries(FOLDER)) == []
    assert store.put_if_absent(KEY, b"y") is True


def test_entries_are_those_directly_below(store: Store) -> None:
    store.put("a/one", b"1")
    store.put("a/two", b"22")
    store.put("a/deeper/three", b"333")
    store.put("ab/four", b"4444")

    found = {entry.key: entry.size_bytes for entry in store.entries("a/")}

    assert found == {"a/one": 1, "a/two": 2}
    assert store.folders("a/") == ["deeper"]
    assert store.folders("") == ["a", "ab"]


def test_nothing_is_listed_where_nothing_is(store: Store) -> None:
    assert list(store.entries("no/such/")) == []
    assert store.folders("no/such/") == []


def test_a_listing_of_several_pages(store: Store) -> None:
    keys = {f"many/{n:05d}" for n in range(23)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b"x"), keys))

    listed = [entry.key for entry in store.entries("many/")]

    assert len(listed) == len(keys)
    assert set(listed) == keys


def test_the_check_passes_and_leaves_nothing(store: Store) -> None:
    store.check()

    assert list(store.entries("")) == []
    assert store.sweep("") == []


def test_listings_of_many_folders_are_those_of_each(store: Store) -> None:
    folders = ["many/a/", "many/aa/", "many/b/", "many/none/", "many/z/"]
    keys = [f"many/{name}/{n:03d}" for name in ("a", "b", "between", "z") for n in range(13)]
    keys += ["many/aa/only", "many/b/deeper/one"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, key.encode()), keys))

    found: dict[str, list[str]] = {}
    for known in store.listings(folders):
        found |= {prefix: sorted(o.key for o in objects) for prefix, objects in known.items()}

    assert found == {
        folder: sorted(entry.key for entry in store.entries(folder)) for folder in folders
    }
    assert [len(found[folder]) for folder in folders] == [13, 1, 13, 0, 13]
