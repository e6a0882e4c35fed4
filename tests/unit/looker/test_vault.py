import sqlite3
from pathlib import Path

import pytest
from support.vaults import body, complete, dashboard, new_vault, store

from headrace.looker.vault import (
    ITEM,
    PAGE,
    Failed,
    ListingIncomplete,
    NoSuchSession,
    NotInVault,
    Page,
    Status,
    UpsertCounts,
    Vault,
    VaultDamaged,
    VaultOfAnother,
    item_of,
    page_key,
    page_of_key,
)


@pytest.fixture
def vault(tmp_path: Path):
    with new_vault(tmp_path) as opened:
        yield opened


def test_new_changed_and_unchanged_items(vault: Vault) -> None:
    first = vault.sessions.begin("extract")
    assert vault.upsert_many(first, [dashboard(1), dashboard(2)]) == UpsertCounts(new=2)
    second = vault.sessions.begin("extract")
    done = vault.upsert_many(second, [dashboard(1), dashboard(2, "renamed"), dashboard(3)])
    assert done == UpsertCounts(new=1, changed=1, unchanged=1)
    row = vault.contents.row("dashboard", "2")
    assert row is not None
    assert (row.name, row.version, row.first_session, row.seen_session) == ("renamed", 2, 1, 2)
    bodies = [vault.contents.body("dashboard", "2", version=n).body for n in (1, 2)]
    assert bodies == [dashboard(2).body, dashboard(2, "renamed").body]
    assert len(vault.contents.history("dashboard", "1")) == 1
    assert vault.contents.counts() == {"dashboard": (3, 0)}


def test_an_unchanged_item_is_seen_and_nothing_else(vault: Vault) -> None:
    store(vault, dashboard(1))
    before = vault.contents.row("dashboard", "1")
    store(vault, dashboard(1))
    after = vault.contents.row("dashboard", "1")
    assert before is not None
    assert after is not None
    assert after.seen_at > before.seen_at
    assert (after.version, after.hash) == (before.version, before.hash)


def test_the_same_item_twice_in_a_batch_is_one_item(vault: Vault) -> None:
    session = vault.sessions.begin("extract")
    done = vault.upsert_many(session, [dashboard("5"), dashboard(5), dashboard(5, "b")])
    assert done == UpsertCounts(new=1, changed=2)
    assert vault.contents.counts() == {"dashboard": (1, 0)}


def test_ids_differ_by_case_and_nothing_is_read_into_them(vault: Vault) -> None:
    ids = ["a", "A", "a::b", "../../x", "%", "'; --", "5", "05", "\N{GRINNING FACE}", "x\0y", "x"]
    store(vault, *(dashboard(item_id) for item_id in ids))
    assert sorted(row.id for row in vault.contents.rows("dashboard")) == sorted(ids)
    for item_id in ids:
        assert vault.contents.body("dashboard", item_id).body == dashboard(item_id).body


def test_a_strange_title_costs_neither_the_batch_nor_a_byte(vault: Vault) -> None:
    titles = ["plain"] * 94 + [
        "\ud83d",
        "a\0b",
        "\N{GRINNING FACE}",
        "\u202e\u05d0",
        "x" * 70_000,
        '"',
    ]
    items = [dashboard(n, title) for n, title in enumerate(titles, start=1)]
    store(vault, *items)
    for item in items:
        assert vault.contents.body("dashboard", item.id).body == item.body


def test_a_batch_is_stored_whole_or_not_at_all(vault: Vault) -> None:
    session = vault.sessions.begin("extract")
    broken = dashboard(2)._replace(name=object())  # type: ignore[arg-type]
    with pytest.raises(sqlite3.ProgrammingError):
        vault.upsert_many(
            session, [dashboard(1), broken], pages=[Page("dashboard", "dashboards", 0, 2, 2)]
        )
    assert vault.contents.counts() == {}
    assert vault.progress.pages(session, "dashboard", "dashboards") == []


def test_rows_are_filtered_and_come_in_order_beyond_one_batch(vault: Vault) -> None:
    store(vault, *(dashboard(n, f"Title {n}", folder_id=n % 2) for n in range(1200)))
    assert len(list(vault.contents.rows())) == 1200
    assert len(list(vault.contents.rows("dashboard", folder="1"))) == 600
    assert [r.id for r in vault.contents.rows(text="TITLE 119")] == [
        "119", *(f"119{n}" for n in range(10))
    ]  # fmt: skip
    assert list(vault.contents.rows("look")) == []


def test_a_listing_that_is_not_complete_proves_nothing(vault: Vault) -> None:
    store(vault, item_of("look", body(id=1)), item_of("look", body(id=2)))
    session = vault.sessions.begin("extract")
    vault.upsert_many(session, [item_of("look", body(id=1))])
    with pytest.raises(ListingIncomplete, match="listing of looks is not complete"):
        vault.listings.absent(session, "look")
    vault.listings.record(session, "look", "looks", complete=False, items=1)
    with pytest.raises(ListingIncomplete):
        vault.listings.absent(session, "look")
    vault.listings.record(session, "look", "looks", complete=True, items=1, scope="folder 5")
    with pytest.raises(ListingIncomplete):
        vault.listings.absent(session, "look")
    complete(vault, session, "look")
    assert vault.listings.absent(session, "look") == ["2"]


def test_every_listing_of_a_type_counts(vault: Vault) -> None:
    store(vault, dashboard(1))
    session = vault.sessions.begin("extract")
    vault.listings.record(session, "dashboard", "dashboards", complete=True, items=0)
    with pytest.raises(ListingIncomplete, match="lookml_dashboards"):
        vault.listings.absent(session, "dashboard")


def test_a_listed_id_without_a_body_exists(vault: Vault) -> None:
    store(vault, item_of("look", body(id=1)), item_of("look", body(id=2)))
    session = vault.sessions.begin("extract")
    vault.upsert_many(session, (), seen={"look": ["1"]})
    complete(vault, session, "look")
    assert vault.listings.absent(session, "look") == ["2"]


def test_only_evidence_deletes_and_what_returns_is_said(vault: Vault) -> None:
    store(vault, dashboard(1), dashboard(2))
    session = vault.sessions.begin("extract")
    vault.upsert_many(session, (), failures=[Failed("dashboard", ITEM, "2", 500, "x")])
    with pytest.raises(ValueError, match="proven"):
        vault.listings.delete(session, "dashboard", "2", evidence=" ")
    assert vault.listings.delete(session, "dashboard", "2", evidence="404 for GET /dashboards/2")
    assert not vault.listings.delete(session, "dashboard", "2", evidence="again")
    with pytest.raises(NotInVault):
        vault.listings.delete(session, "dashboard", "3", evidence="404")
    assert vault.failures.open() == []
    row = vault.contents.row("dashboard", "2")
    assert row is not None
    assert row.deletion == "gone"
    assert row.deleted_at is not None
    assert [r.id for r in vault.contents.rows()] == ["1"]
    assert vault.contents.body("dashboard", "2").body == dashboard(2).body
    done = vault.upsert_many(vault.sessions.begin("extract"), [dashboard(2)])
    assert done == UpsertCounts(unchanged=1, returned=1)
    assert [e["kind"] for e in vault.contents.events("dashboard", "2")] == ["deleted", "returned"]
    assert [r.id for r in vault.contents.rows()] == ["1", "2"]


def test_the_trash_is_what_the_body_says(vault: Vault) -> None:
    store(vault, dashboard(1))
    store(vault, dashboard(1, deleted=True, deleted_at="2026-01-01T00:00:00Z"))
    row = vault.contents.row("dashboard", "1")
    assert row is not None
    assert (row.deletion, row.deleted_at) == ("trashed", "2026-01-01T00:00:00.000000Z")
    store(vault, dashboard(1))
    row = vault.contents.row("dashboard", "1")
    assert row is not None
    assert (row.deletion, row.deleted_at, row.version) == (None, None, 3)


def test_failures_count_attempts_until_success(vault: Vault) -> None:
    session = vault.sessions.begin("extract")
    page = Page("look", "looks", 100, 100, 100)
    lost = Failed("look", PAGE, page_key("looks", 100, 100), None, "timed out")
    item = Failed("look", ITEM, "7", 403, "no \ud83d")
    vault.upsert_many(session, (), failures=[lost, item])
    vault.upsert_many(session, (), failures=[item])
    assert [(f.key, f.status, f.attempts) for f in vault.failures.open()] == [
        ("7", 403, 2),
        ("looks:100+100", None, 1),
    ]
    assert [f.key for f in vault.failures.open(types=["look"], kind=PAGE)] == ["looks:100+100"]
    assert vault.failures.open(types=["dashboard"]) == []
    vault.upsert_many(session, [item_of("look", body(id=7))], pages=[page])
    assert vault.failures.open() == []
    assert [bool(f.resolved_at) for f in vault.failures.all()] == [True, True]
    vault.upsert_many(session, (), failures=[item])
    assert [f.attempts for f in vault.failures.open()] == [1]
    assert vault.failures.resolve("look", ITEM, "7")
    assert not vault.failures.resolve("look", ITEM, "7")


def test_an_edit_of_ours_resolves_no_failure_of_the_server(vault: Vault) -> None:
    session = store(vault, dashboard(1))
    vault.upsert_many(session, (), failures=[Failed("dashboard", ITEM, "1", 500, "x")])
    vault.upsert_many(vault.sessions.begin("pack"), [dashboard(1, "edited")], origin="pack")
    assert len(vault.failures.open()) == 1
    row = vault.contents.row("dashboard", "1")
    assert row is not None
    assert (row.version, row.seen_session) == (2, session)


def test_page_keys_read_back() -> None:
    assert page_of_key(page_key("a:b", 300, 100)) == ("a:b", 300, 100)
    with pytest.raises(ValueError):
        page_of_key("nonsense")


def test_a_killed_session_says_what_it_has(vault: Vault) -> None:
    session = vault.sessions.begin("extract", run_id="r", parameters={"types": ["look"]})
    pages = [Page("look", "looks", 0, 2, 2), Page("look", "looks", 2, 2, 1)]
    vault.upsert_many(session, (), pages=pages, todo={"look": ["1", "2", "3"]})
    vault.upsert_many(
        session, [item_of("look", body(id=1))], failures=[Failed("look", ITEM, "2", 500, "x")]
    )
    with Vault.open(vault.path) as again:
        found = again.sessions.unfinished("extract")
        assert found is not None
        assert (found.id, found.run_id, found.parameters) == (session, "r", {"types": ["look"]})
        assert again.progress.pages(session, "look", "looks") == pages
        assert again.progress.todo(session, "look") == ["3"]
        again.sessions.resume(session)
        again.sessions.end(session, Status.DONE, summary={"items": 1})
        assert again.sessions.unfinished("extract") is None
        assert again.progress.pages(session, "look", "looks") == []
        assert again.progress.todo(session, "look") == []
        assert again.sessions.get(session).summary == {"items": 1}
    with pytest.raises(NoSuchSession, match=r"no session 9\. Known: 1"):
        vault.sessions.get(9)


def test_one_vault_is_one_looker(vault: Vault) -> None:
    vault.bind("https://one.example")
    with pytest.raises(VaultOfAnother, match=r"https://one\.example, not of https://two"):
        vault.bind("https://two.example")
    assert vault.source == "https://one.example"


def test_a_body_that_was_tampered_with_is_noticed(vault: Vault) -> None:
    store(vault, dashboard(1, "x" * 500), dashboard(2))
    with vault.file.writing() as db:
        db.execute("UPDATE body SET body = zeroblob(20) WHERE item = 1")
        db.execute("UPDATE body SET body = CAST('{\"id\": 3}' AS BLOB), codec = 0 WHERE item = 2")
    with pytest.raises(VaultDamaged, match="does not decompress"):
        vault.contents.body("dashboard", "1")
    with pytest.raises(VaultDamaged, match="its hash differs"):
        vault.contents.body("dashboard", "2")
