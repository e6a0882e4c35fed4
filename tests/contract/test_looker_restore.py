"""Restoring into a simulated Looker: the same one and an empty one, killed and cut off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.looker import extract
from support.restores import EMPTY, SMALL, client_of, fill, meaning, restore

from headrace.looker.content_types import RESTORE_ORDER
from headrace.looker.exceptions import NotRestorable, UnknownType
from headrace.looker.restore.plan import plan
from headrace.looker.restore.report import RestoreOutcome
from headrace.looker.restore.restorer import Restorer
from headrace.looker.restore.state import restore_failures
from headrace.looker.vault import NotInVault, Status, Vault, item_of
from headrace.run.report import Status as Done
from headrace.sim.looker import SimulatedLooker
from headrace.stopping import StopEvent


@pytest.fixture
def source() -> Iterator[SimulatedLooker]:
    with SimulatedLooker(counts=SMALL, seed=1) as sim:
        yield sim


@pytest.fixture
def target() -> Iterator[SimulatedLooker]:
    with SimulatedLooker(counts=EMPTY, seed=2) as sim:
        yield sim


@pytest.fixture
def vault(source: SimulatedLooker, tmp_path: Path) -> Iterator[Vault]:
    vault = Vault.open(tmp_path / "looker.sqlite", create=True)
    with vault:
        fill(vault, source)
        yield vault


def _writes(sim: SimulatedLooker) -> list[str]:
    """What was asked to be made or changed."""
    return [arrival.target for arrival in sim.arrivals() if arrival.subject.ask == "write"]


def _new_ids(restorer_books, vault: Vault) -> dict[tuple[str, str], str]:
    found = {}
    for row in vault.contents.rows():
        entry = restorer_books.entry(row.type, row.id)
        if entry is not None:
            found[row.type, row.id] = entry.new_id
    return found


def _assert_alike(vault: Vault, client, source: SimulatedLooker, target: SimulatedLooker) -> None:
    state = Restorer(vault, client).state
    new_ids = _new_ids(state, vault)
    for type_ in RESTORE_ORDER:
        there = target.library.content(type_)
        expected = {
            new_ids[type_, item_id]: meaning(body, new_ids)
            for item_id, body in source.library.content(type_).items()
            if "::" not in item_id
        }
        assert {i: meaning(body, {}) for i, body in there.items()} == expected, type_


def test_everything_into_an_empty_looker(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        done = restore(vault, client)
        assert done.failed == []
        assert [(o.type, o.how) for o in done.problems] == [("dashboard", RestoreOutcome.SKIPPED)]
        assert done.counts["dashboard"] == {RestoreOutcome.CREATED: 6, RestoreOutcome.SKIPPED: 1}
        assert done.counts["folder"] == {RestoreOutcome.ADOPTED: 1, RestoreOutcome.CREATED: 7}
        _assert_alike(vault, client, source, target)
        assert vault.sessions.get(done.session).status is Status.DONE


def test_extracted_restored_and_extracted_again_it_is_the_same_up_to_ids(
    source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    source.library.edit(
        "look", "2", title="\ud83d \N{GRINNING FACE} \u202e\u05d0 a\0b " + "x" * 70_000
    )
    source.library.edit("folder", "3", name="../../x")
    assert extract(source.url, first).status is Done.DONE
    with Vault.open(first) as vault, client_of(target, tmp_path) as client:
        assert restore(vault, client).failed == []
        new_ids = _new_ids(Restorer(vault, client).state, vault)
        assert extract(target.url, second).status is Done.DONE
        with Vault.open(second) as again:
            for type_ in RESTORE_ORDER:
                rows = [row for row in vault.contents.rows(type_) if "::" not in row.id]
                assert len(list(again.contents.rows(type_))) == len(rows)
                for row in rows:
                    was = vault.contents.body(type_, row.id).body
                    now = again.contents.body(type_, new_ids[type_, row.id]).body
                    assert meaning(now, {}) == meaning(was, new_ids), (type_, row.id)


def test_a_second_restore_makes_nothing(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        restore(vault, client)
        target.reset_log()
        done = restore(vault, client)
        assert _writes(target) == []
        assert set(done.counts["look"]) == {RestoreOutcome.UNCHANGED}
        # What went there is made again, under a new id, and nothing else is.
        entry = Restorer(vault, client).state.entry("look", "2")
        assert entry is not None
        target.library.remove("look", entry.new_id)
        assert restore(vault, client).counts["look"] == {
            RestoreOutcome.CREATED: 1,
            RestoreOutcome.UNCHANGED: 3,
        }
        _assert_alike(vault, client, source, target)


def test_a_change_in_the_vault_goes_to_the_item_it_became(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        restore(vault, client)
        source.library.edit("dashboard", "3", title="Renamed")
        source.library.edit("board", "1", description="Rewritten")
        fill(vault, source)
        done = restore(vault, client)
        assert done.counts["dashboard"][RestoreOutcome.UPDATED] == 1
        assert done.counts["board"][RestoreOutcome.UPDATED] == 1
        _assert_alike(vault, client, source, target)


def test_the_same_looker_gets_back_what_it_lost(
    vault: Vault, source: SimulatedLooker, tmp_path: Path
) -> None:
    before = {type_: source.library.content(type_) for type_ in RESTORE_ORDER}
    source.library.edit("dashboard", "1", title="Broken", dashboard_elements=[])
    source.library.trash("dashboard", "2")
    source.library.remove("look", "1")
    with client_of(source, tmp_path) as client:
        source.reset_log()
        done = restore(vault, client)
        assert done.failed == []
        assert done.counts["dashboard"] == {
            RestoreOutcome.UPDATED: 2,
            RestoreOutcome.UNCHANGED: 4,
            RestoreOutcome.SKIPPED: 1,
        }
        assert done.counts["look"] == {RestoreOutcome.CREATED: 1, RestoreOutcome.UNCHANGED: 3}
        assert set(done.counts["user"]) == {RestoreOutcome.UNCHANGED}
        assert "user.roles" not in done.counts
        now = source.library.content("dashboard")
        assert now.keys() == before["dashboard"].keys()
        for item_id in ("1", "2"):
            was = meaning(before["dashboard"][item_id], {})
            assert meaning(now[item_id], {}) == was
        source.reset_log()
        assert set(restore(vault, client).counts["dashboard"]) == {
            RestoreOutcome.UNCHANGED,
            RestoreOutcome.SKIPPED,
        }
        assert _writes(source) == []


def test_what_was_in_the_trash_when_it_was_extracted_comes_out_of_it(
    vault: Vault, source: SimulatedLooker, tmp_path: Path
) -> None:
    source.library.trash("dashboard", "2")
    source.library.edit("board", "1", deleted_at="2026-01-01T00:00:00Z")
    session = vault.sessions.begin("extract")
    for type_, item_id in (("dashboard", "2"), ("board", "1")):
        vault.upsert_many(session, [item_of(type_, source.library.body(type_, item_id) or b"")])
    with client_of(source, tmp_path) as client:
        assert "2" not in {step.id for step in plan(vault, types=["dashboard"])}
        for type_, item_id in (("dashboard", "2"), ("board", "1")):
            done = restore(vault, client, types=[type_], item_id=item_id)
            assert done.counts == {type_: {RestoreOutcome.UPDATED: 1}}
            body = json.loads(source.library.body(type_, item_id) or b"")
            assert not body.get("deleted")
            assert body["deleted_at"] is None
            again = restore(vault, client, types=[type_], item_id=item_id)
            assert again.counts == {type_: {RestoreOutcome.UNCHANGED: 1}}
    assert "2" in source.library.ids("dashboard")


def test_one_item_and_an_older_version_of_it(
    vault: Vault, source: SimulatedLooker, tmp_path: Path
) -> None:
    source.library.edit("look", "2", title="Newer")
    fill(vault, source)
    with client_of(source, tmp_path) as client:
        assert restore(vault, client, types=["look"], item_id="2").counts == {
            "look": {RestoreOutcome.UNCHANGED: 1}
        }
        done = restore(vault, client, types=["look"], item_id="2", version=1)
        assert done.counts == {"look": {RestoreOutcome.UPDATED: 1}}
    body = json.loads(source.library.body("look", "2") or b"")
    assert body["title"] != "Newer"
    with pytest.raises(NotInVault, match="version 9"):
        plan(vault, types=["look"], item_id="2", version=9)


def test_what_is_needed_and_not_there_is_named(
    vault: Vault, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["look"], item_id="1")
        (failed,) = done.failed
        assert "it needs folder" in failed.reason
        assert done.status is Status.PARTIAL
        assert [(f.type, f.id, f.attempts) for f in restore_failures(vault)] == [("look", "1", 1)]
        restore(vault, client, types=["look"], item_id="1")
        assert [f.attempts for f in restore_failures(vault)] == [2]
        restore(vault, client, types=["user", "folder", "look"])
        assert restore_failures(vault) == []


def test_one_refusal_costs_one_item(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    number = target.add_fault("error,status=422,ask=write,type=group,calls=1")
    with client_of(target, tmp_path) as client:
        done = restore(vault, client)
        assert [(o.type, o.id) for o in done.failed] == [("group", "1"), ("group_hierarchy", "1")]
        assert vault.sessions.get(done.session).status is Status.PARTIAL
        target.remove_fault(number)
        again = restore(vault, client)
        assert again.failed == []
        assert again.counts["group"] == {RestoreOutcome.CREATED: 1, RestoreOutcome.UNCHANGED: 1}
        _assert_alike(vault, client, source, target)


def test_names_that_are_taken(vault: Vault, target: SimulatedLooker, tmp_path: Path) -> None:
    group = json.loads(vault.contents.body("group", "1").body)
    look = json.loads(vault.contents.body("look", "1").body)
    target.library.create("group", {"name": group["name"]})
    with client_of(target, tmp_path) as client:
        restore(vault, client, types=["user", "group", "folder"])
        state = Restorer(vault, client).state
        folder = state.entry("folder", look["folder_id"])
        assert folder is not None
        mine = {"title": look["title"], "folder_id": folder.new_id, "query_id": "1"}
        target.library.create("look", mine)
        done = restore(vault, client, types=["look"])
        (failed,) = done.failed
        assert "there is another look called" in failed.reason
        assert "--overwrite" in failed.reason
        done = restore(vault, client, types=["look"], overwrite=True)
        assert done.counts["look"] == {RestoreOutcome.ADOPTED: 1, RestoreOutcome.UNCHANGED: 3}
    assert len(target.library.ids("group")) == 2
    assert len(target.library.ids("look")) == 4


def test_a_stop_keeps_what_is_done_and_the_next_run_goes_on(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    stop = StopEvent()
    seen = []

    def report(outcome) -> None:
        seen.append(outcome)
        if len(seen) == 12:
            stop.set()

    with client_of(target, tmp_path) as client:
        first = restore(vault, client, stop=stop, report=report)
        assert first.stopped
        assert vault.sessions.get(first.session).status is Status.INTERRUPTED
        target.reset_log()
        second = restore(vault, client)
        assert second.session == first.session
        # What was done in this session is not even looked at again.
        got = {a.subject.type for a in target.arrivals() if a.subject.ask == "item"}
        assert "user" not in got
        _assert_alike(vault, client, source, target)


@pytest.mark.parametrize("after", [1, 2, 5, 9, 17, 22, 30, 41, 55])
def test_killed_at_any_request_nothing_is_made_twice(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path, after: int
) -> None:
    """The process ends right after a write was carried out, before it could note the answer."""

    class Killed(BaseException):
        pass

    with client_of(target, tmp_path) as client:

        class Dying:
            source = client.source
            ask = staticmethod(client.ask)
            left = after

            def send(self, *args, **options):
                answer = client.send(*args, **options)
                self.left -= 1
                if self.left <= 0:
                    raise Killed
                return answer

        with pytest.raises(Killed):
            restore(vault, Dying())
        done = restore(vault, client)
        assert done.failed == []
        _assert_alike(vault, client, source, target)


def test_unknown_fields_go_along_unless_they_are_refused(
    vault: Vault, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        restore(vault, client, types=["user", "folder", "dashboard"])
        state = Restorer(vault, client).state
        entry = state.entry("dashboard", "1")
        assert entry is not None
        body = json.loads(target.library.body("dashboard", entry.new_id) or b"")
        assert body["a_field_of_tomorrow"] == {"kept": True}


def _places(dashboard: bytes | None) -> list[tuple[int, int, int, int]]:
    """Where the tiles of a dashboard stand, in their order."""
    body = json.loads(dashboard or b"{}")
    (layout,) = body["dashboard_layouts"]
    by_tile = {str(c["dashboard_element_id"]): c for c in layout["dashboard_layout_components"]}
    found = [by_tile[str(tile["id"])] for tile in body["dashboard_elements"]]
    return [(c["row"], c["column"], c["width"], c["height"]) for c in found]


def test_tiles_stand_where_they_stood(
    source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    body = json.loads(source.library.body("dashboard", "1") or b"")
    places = [
        {"id": f"7{at}", "dashboard_element_id": tile["id"], "deleted": False,
         "row": at // 3 * 4, "column": at % 3 * 8, "width": 8, "height": 4}
        for at, tile in enumerate(body["dashboard_elements"])
    ]  # fmt: skip
    assert len(places) > 2
    layout = {**body["dashboard_layouts"][0], "dashboard_layout_components": places}
    source.library.edit("dashboard", "1", dashboard_layouts=[layout])
    before = _places(source.library.body("dashboard", "1"))
    with Vault.open(tmp_path / "v.sqlite", create=True) as vault:
        fill(vault, source)
        with client_of(target, tmp_path) as client:
            restore(vault, client)
            entry = Restorer(vault, client).state.entry("dashboard", "1")
            assert entry is not None
            assert _places(target.library.body("dashboard", entry.new_id)) == before
        # A tile that a user moved is back where it was, and the next run has nothing to do.
        places[0]["row"] = 99
        source.library.edit("dashboard", "1", dashboard_layouts=[layout])
        with client_of(source, tmp_path) as client:
            done = restore(vault, client, types=["dashboard"], item_id="1")
            assert done.counts["dashboard"] == {RestoreOutcome.UPDATED: 1}
            assert _places(source.library.body("dashboard", "1")) == before
            done = restore(vault, client, types=["dashboard"], item_id="1")
            assert done.counts["dashboard"] == {RestoreOutcome.UNCHANGED: 1}


@pytest.fixture
def merging(tmp_path: Path) -> Iterator[SimulatedLooker]:
    """A Looker of which two dashboards have a tile on a merged query each."""
    with SimulatedLooker(counts={**SMALL, "merge_query": 2}, seed=1) as sim:
        yield sim


def _titles(dashboard: bytes | None) -> list[str]:
    return [str(each.get("title")) for each in json.loads(dashboard or b"")["dashboard_elements"]]


def test_merged_queries_come_and_go_with_their_tiles(
    merging: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    done = extract(merging.url, first)
    assert (done["merge_query"].new, done["query"].new) == (2, 4)
    assert extract(merging.url, first)["merge_query"].requests == 0  # they never change
    with Vault.open(first) as vault, client_of(target, tmp_path) as client:
        # Older things than the merged ones have their numbers there.
        target.library.add_query({"model": "m", "view": "v"})
        restored = restore(vault, client)
        assert restored.failed == restored.incomplete == []
        assert restored.counts["merge_query"] == {RestoreOutcome.CREATED: 2}
        new_ids = _new_ids(Restorer(vault, client).state, vault)
        assert {
            old for (type_, old), new in new_ids.items() if type_ == "query" and old == new
        } == (set())
        _assert_alike(vault, client, merging, target)
        assert extract(target.url, second).status is Done.DONE
        with Vault.open(second) as again:
            for type_ in ("dashboard", "merge_query", "query"):
                for row in vault.contents.rows(type_):
                    if "::" in row.id:
                        continue
                    was = vault.contents.body(type_, row.id).body
                    now = again.contents.body(type_, new_ids[type_, row.id]).body
                    assert meaning(now, {}) == meaning(was, new_ids), (type_, row.id)
        target.reset_log()
        assert set(restore(vault, client).counts["merge_query"]) == {RestoreOutcome.UNCHANGED}
        assert _writes(target) == []


def test_a_dashboard_by_itself_brings_its_merged_query_along(
    merging: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    with (
        Vault.open(tmp_path / "v.sqlite", create=True) as vault,
        client_of(target, tmp_path) as client,
    ):
        fill(vault, merging)
        steps = plan(vault, types=["dashboard"], item_id="2")
        assert [step.type for step in steps] == ["query", "query", "merge_query", "dashboard"]
        restore(vault, client, types=["user", "folder"])
        done = restore(vault, client, types=["dashboard"], item_id="2")
        assert done.failed == done.incomplete == []
        (new,) = target.library.content("dashboard").values()
        assert _titles(new) == _titles(merging.library.body("dashboard", "2"))
        assert "Merged 2" in _titles(new)


def test_a_merged_tile_that_a_vault_of_before_knows_nothing_of_is_left_out_by_name(
    merging: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    with (
        Vault.open(tmp_path / "v.sqlite", create=True) as vault,
        client_of(target, tmp_path) as client,
    ):
        fill(vault, merging, without=("merge_query", "query"))
        (merged,) = [
            tile["merge_result_id"]
            for tile in json.loads(merging.library.body("dashboard", "1") or b"")[
                "dashboard_elements"
            ]
            if tile["title"] == "Merged 1"
        ]
        named = (f"tile 'Merged 1' depends on the merged query {merged}, which is not there",)
        done = restore(vault, client)
        assert done.failed == []
        assert done.status is Status.PARTIAL
        assert {o.id: (o.how, o.left_out) for o in done.incomplete}["1"] == (
            RestoreOutcome.CREATED,
            named,
        )
        assert {f.id for f in restore_failures(vault)} == {"1", "2"}
        # It is not made again, and not forgotten either.
        target.reset_log()
        again = restore(vault, client)
        assert _writes(target) == []
        assert {o.id: o.left_out for o in again.incomplete}["1"] == named
        # Once the vault has it, the dashboard is made whole.
        fill(vault, merging)
        whole = restore(vault, client, force=True)
        assert whole.failed == whole.incomplete == []
        assert restore_failures(vault) == []
        _assert_alike(vault, client, merging, target)


def test_the_looker_that_knows_a_merged_query_gets_the_tile_back(
    merging: SimulatedLooker, tmp_path: Path
) -> None:
    before = merging.library.body("dashboard", "1")
    with Vault.open(tmp_path / "v.sqlite", create=True) as vault:
        fill(vault, merging)
        merging.library.edit("dashboard", "1", dashboard_elements=[])
        with client_of(merging, tmp_path) as client:
            done = restore(vault, client, types=["dashboard"])
            assert done.failed == done.incomplete == []
            assert set(done.counts["merge_query"]) == {RestoreOutcome.UNCHANGED}
            after = merging.library.body("dashboard", "1")
            assert meaning(after or b"", {}) == meaning(before or b"", {})


def test_an_owner_or_a_group_that_is_not_there_is_named(
    vault: Vault, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["folder", "look"])
        assert done.failed == []
        assert done.status is Status.PARTIAL
        owner = json.loads(vault.contents.body("look", "1").body)["user_id"]
        assert {o.id: o.left_out for o in done.incomplete}["1"] == (
            f"user_id: user {owner} is not there",
        )


def test_a_slug_is_carried_over_or_named(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    source.library.edit("dashboard", "3", slug="QuarterlyKpis9")
    source.library.edit("dashboard", "4", slug="Taken")
    fill(vault, source)
    target.library.create("dashboard", {"title": "Another", "folder_id": "1", "slug": "Taken"})
    with client_of(target, tmp_path) as client:
        done = restore(vault, client)
        assert done.failed == []
        assert [(o.id, o.left_out) for o in done.incomplete] == [
            ("4", ("the slug 'Taken', which is taken there or refused",))
        ]
        entry = Restorer(vault, client).state.entry("dashboard", "3")
        assert entry is not None
        there = json.loads(target.library.body("dashboard", entry.new_id) or b"")
        assert there["slug"] == "QuarterlyKpis9"


def test_an_edited_slug_goes_to_the_looker_that_it_came_from(
    vault: Vault, source: SimulatedLooker, tmp_path: Path
) -> None:
    body = json.loads(vault.contents.body("dashboard", "3").body)
    edited = json.dumps({**body, "slug": "QuarterlyKpis9"}).encode()
    session = vault.sessions.begin("pack")
    vault.upsert_many(session, [item_of("dashboard", edited)], origin="pack")
    with client_of(source, tmp_path) as client:
        done = restore(vault, client, types=["dashboard"], item_id="3")
        assert done.counts == {"dashboard": {RestoreOutcome.UPDATED: 1}}
        assert json.loads(source.library.body("dashboard", "3") or b"")["slug"] == "QuarterlyKpis9"
        done = restore(vault, client, types=["dashboard"], item_id="3")
        assert done.counts == {"dashboard": {RestoreOutcome.UNCHANGED: 1}}


def _enabled(sim: SimulatedLooker) -> list[bool]:
    plans = sim.library.content("scheduled_plan").values()
    return [json.loads(plan)["enabled"] for plan in plans]


def test_schedules_arrive_switched_off_at_another_looker_unless_asked_for(
    vault: Vault, source: SimulatedLooker, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        assert restore(vault, client, enable_schedules=False).status is Status.DONE
        assert _enabled(target) == [False, False]
        # Switched on by its users, it is not switched off by the next restore.
        entry = Restorer(vault, client).state.entry("scheduled_plan", "1")
        assert entry is not None
        target.library.edit("scheduled_plan", entry.new_id, enabled=True)
        source.library.edit("scheduled_plan", "1", crontab="0 7 * * *")
        fill(vault, source)
        done = restore(vault, client, enable_schedules=False)
        assert done.counts["scheduled_plan"] == {
            RestoreOutcome.UPDATED: 1,
            RestoreOutcome.UNCHANGED: 1,
        }
        plan = json.loads(target.library.body("scheduled_plan", entry.new_id) or b"")
        assert (plan["enabled"], plan["crontab"]) == (True, "0 7 * * *")
        restore(vault, client, types=["scheduled_plan"], force=True, enable_schedules=True)
        assert _enabled(target) == [True, True]


def test_the_looker_of_the_schedules_gets_them_as_they_are(
    vault: Vault, source: SimulatedLooker, tmp_path: Path
) -> None:
    source.library.edit("scheduled_plan", "1", enabled=False)
    source.library.remove("scheduled_plan", "2")
    with client_of(source, tmp_path) as client:
        done = restore(vault, client, types=["scheduled_plan"], enable_schedules=False)
        assert done.counts["scheduled_plan"] == {
            RestoreOutcome.UPDATED: 1,
            RestoreOutcome.CREATED: 1,
        }
    assert _enabled(source) == [True, True]


def test_every_request_has_a_permit(vault: Vault, target: SimulatedLooker, tmp_path: Path) -> None:
    with client_of(target, tmp_path, rates="20/s") as client:
        done = restore(vault, client, types=["user", "group", "permission_set", "lookml_model"])
        assert done.failed == []
        stats = target.stats((1.0,))
        assert stats["requests"] > 30
        # Arrivals lie closer than departures by what the machine jitters.
        assert 15 <= stats["most_in_window"]["1.0"] <= 21


def test_a_body_of_another_shape_costs_itself(
    vault: Vault, target: SimulatedLooker, tmp_path: Path
) -> None:
    session = vault.sessions.begin("pack")
    odd = item_of("dashboard", b'{"id": "99", "title": "odd", "folder": "nowhere"}')
    vault.upsert_many(session, [odd], origin="pack")
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["user", "folder", "dashboard"])
        assert [(o.id, "shape" in o.reason) for o in done.failed] == [("99", True)]
        assert done.counts["dashboard"][RestoreOutcome.CREATED] == 6


def test_what_cannot_be_restored_is_said_before_anything_is_sent(vault: Vault) -> None:
    with pytest.raises(NotRestorable, match="LookML"):
        plan(vault, types=["explore"])
    with pytest.raises(UnknownType):
        plan(vault, types=["dashbord"])
    with pytest.raises(NotInVault):
        plan(vault, types=["look"], item_id="999")


def test_a_dry_run_says_what_would_come_and_asks_nothing(
    vault: Vault, target: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(target, tmp_path) as client:
        restorer = Restorer(vault, client)
        steps = plan(vault)
        assert {restorer.expected(step) for step in steps} == {
            RestoreOutcome.CREATED,
            RestoreOutcome.UPDATED,  # what belongs to what is made before it
            RestoreOutcome.ADOPTED,  # connections, which are only looked for
            RestoreOutcome.SKIPPED,
        }
        assert [step.type for step in steps] == sorted(
            (step.type for step in steps), key=RESTORE_ORDER.index
        )
        assert target.arrivals() == []
