import json
from contextlib import suppress
from itertools import pairwise

import pytest
from support.vaults import body

from headrace.looker.content_types import CONTENT, RESTORE_ORDER, TYPES, content_of
from headrace.looker.exceptions import ItemRefused, UnknownType
from headrace.looker.vault import item_of
from headrace.looker.vault.contents import PLAIN, ZSTD, UnknownCodec, compress, decompress
from headrace.looker.vault.items import server_time


def test_a_number_and_a_text_are_one_id() -> None:
    assert item_of("look", b'{"id": 5}').id == item_of("look", b'{"id": "5"}').id == "5"


def test_the_body_is_kept_to_the_byte() -> None:
    raw = b'{ "id" : "5",\n "title":"a",  "unknown": {"x": 1.0e5, "x": 2} }'
    assert item_of("look", raw).body == raw


@pytest.mark.parametrize(
    "raw",
    [b"[]", b"null", b"7", b"", b"{", b'{"title": "x"}', b'{"id": null}', b'{"id": ""}',
     b'{"id": true}', b'{"id": 1.5}', b'{"id": [1]}', b'{"id": "\\ud83d"}', b"\xff\xfe",
     b"<html>502</html>"],
)  # fmt: skip
def test_what_has_no_usable_id_is_an_error_and_no_row(raw: bytes) -> None:
    with pytest.raises(ItemRefused, match="look: a body was refused"):
        item_of("look", raw)


def test_deeply_nested_nonsense_is_refused_or_read_but_never_a_crash() -> None:
    raw = b'{"id": "1", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    with suppress(ItemRefused):
        assert item_of("look", raw).id == "1"


def test_a_body_of_another_item_is_refused() -> None:
    assert item_of("look", b'{"id": 5}', item_id="5").id == "5"
    with pytest.raises(ItemRefused, match="'6', while '5' was asked for"):
        item_of("look", b'{"id": "6"}', item_id="5")


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("\ud83d alone", "\\ud83d alone"),
        ("a\0b", "a\0b"),
        ("\N{GRINNING FACE}", "\N{GRINNING FACE}"),
        ("\u202eRTL \u05d0", "\u202eRTL \u05d0"),
        ("x" * 70_000, "x" * 70_000),
        ("\"quoted\" 'too'; DROP TABLE item", "\"quoted\" 'too'; DROP TABLE item"),
    ],
)
def test_strange_titles_have_a_name_that_can_be_stored(title: str, shown: str) -> None:
    assert item_of("dashboard", body(id=1, title=title)).name == shown


def test_ids_names_owners_and_folders_come_from_where_each_type_has_them() -> None:
    explore = item_of("explore", body(model_name="thelook", name="orders", id="else"))
    assert (explore.id, explore.name) == ("thelook::orders", "orders")
    assert item_of("lookml_model", body(name="thelook")).id == "thelook"
    lookml = item_of("dashboard", body(dashboard_id="thelook::kpis", lookml="- dashboard: kpis"))
    assert (lookml.id, lookml.name) == ("thelook::kpis", "thelook::kpis")
    old = item_of("dashboard", body(id=7, user_id=3, space={"id": 9}, folder=None, title=None))
    assert (old.owner, old.folder, old.name) == ("3", "9", "7")
    new = item_of("look", body(id="7", user_id=None, folder={"id": "8"}))
    assert (new.owner, new.folder) == (None, "8")
    assert item_of("folder", body(id=2, parent_id=1, creator_id=4, name="x")).folder == "1"
    user = item_of("user", body(id=2, display_name="", email="a@b", last_name="c"))
    assert user.name == "a@b"


def test_deleted_is_what_the_body_says() -> None:
    assert not item_of("look", body(id=1, deleted=False, deleted_at=None)).deleted
    trashed = item_of("look", body(id=1, deleted=True, deleted_at="2018-02-05 20:33:54 +0000"))
    assert (trashed.deleted, trashed.deleted_at) == (True, "2018-02-05T20:33:54.000000Z")


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2018-02-05 20:33:54 +0000", "2018-02-05T20:33:54.000000Z"),
        ("2018-02-05 20:33:54 UTC", "2018-02-05T20:33:54.000000Z"),
        ("2018-02-05T20:33:54.123+00:00", "2018-02-05T20:33:54.123000Z"),
        ("2018-02-05T20:33:54Z", "2018-02-05T20:33:54.000000Z"),
        ("2018-02-05T20:33:54.000-07:00", "2018-02-06T03:33:54.000000Z"),
        ("2018-02-05T20:33:54", "2018-02-05T20:33:54.000000Z"),
        ("2018-02-05", "2018-02-05T00:00:00.000000Z"),
        ("2018-02-05T20:33:54.123456789Z", "2018-02-05T20:33:54.123456Z"),
        ("yesterday", None),
        ("", None),
        ("2018-02-30T00:00:00Z", None),
        ("0001-01-01T00:00:00+01:00", None),
    ],
)
def test_times_of_the_field_become_utc(text: str, utc: str | None) -> None:
    assert server_time(text) == utc


def test_times_do_not_depend_on_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    server_time.cache_clear()
    assert server_time("2024-11-03 01:30:00") == "2024-11-03T01:30:00.000000Z"


def test_bodies_survive_compression_and_small_ones_are_left_alone() -> None:
    for raw in (b"", b"{}", b"x" * 127, b"x" * 128, json.dumps(list(range(5000))).encode()):
        codec, packed = compress(raw)
        assert decompress(codec, packed, len(raw)) == raw
        assert len(packed) <= len(raw)
    assert compress(b"x" * 128)[0] == ZSTD
    assert compress(b"{}")[0] == PLAIN
    with pytest.raises(UnknownCodec):
        decompress(9, b"", 0)


def test_what_types_need_comes_first() -> None:
    ranks = [CONTENT[name].restore_rank or 0 for name in RESTORE_ORDER]
    assert all(a < b for a, b in pairwise(ranks))
    assert set(TYPES) - set(RESTORE_ORDER) == {"explore"}
    before = RESTORE_ORDER.index
    assert before("folder") < before("look") < before("dashboard") < before("board")
    with pytest.raises(UnknownType, match=r"no content type 'dashbord'\. Known: user, "):
        content_of("dashbord")


@pytest.mark.parametrize(
    ("type_", "item_id", "path"),
    [
        ("dashboard", "5", "/dashboards/5"),
        ("dashboard", "thelook::kpis", "/dashboards/lookml/thelook%3A%3Akpis"),
        ("explore", "thelook::orders", "/lookml_models/thelook/explores/orders"),
        ("look", "../../x?y#z", "/looks/..%2F..%2Fx%3Fy%23z"),
        ("look", "..", "/looks/%2E%2E"),
        ("lookml_model", "a b", "/lookml_models/a%20b"),
    ],
)
def test_ids_are_escaped_in_paths(type_: str, item_id: str, path: str) -> None:
    assert content_of(type_).item_path(item_id) == path
