"""A folder promoted from one simulated Looker to another: planned, written, repeated, cut off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.restores import EMPTY, client_of, meaning

from headrace.looker.exceptions import FolderNotRead, NotPromotable, UnknownFolder
from headrace.looker.promote.plan import Change, Planner, PromotionPlan
from headrace.looker.promote.promoter import Promoter
from headrace.looker.promote.reading import read_folder
from headrace.looker.restore.report import RestoreReport
from headrace.looker.restore.state import RestoreState
from headrace.looker.vault import Vault
from headrace.sim.looker import SimulatedLooker
from headrace.stopping import StopEvent

#: Folders 1 (root), 2 and 3 below it, 4 and 5 below 2, ...; folder 2 is promoted.
DEV = {
    "user": 10, "group": 1, "permission_set": 1, "model_set": 1, "role": 1, "folder": 8,
    "lookml_model": 1, "explore": 2, "look": 12, "dashboard": 14, "lookml_dashboard": 0,
    "board": 0, "scheduled_plan": 0, "merge_query": 14,
}  # fmt: skip
PROD = {**EMPTY, "user": 10, "lookml_model": 1, "explore": 2}
FOLDER, BELOW = "2", {"2", "4", "5", "8"}


@dataclass
class Lookers:
    """Two Lookers and the vault between them."""

    dev: SimulatedLooker
    prod: SimulatedLooker
    folder: Path

    def promote(
        self, *, write: bool = True, wrap: Any = None, folder: str = FOLDER, **options: Any
    ) -> tuple[PromotionPlan, RestoreReport | None]:
        """Plan, and write if there is anything to write."""
        stop = StopEvent()
        remove = options.pop("remove", False)
        report = options.pop("report", lambda _outcome: None)
        with (
            Vault.open(self.folder / "dev.sqlite", create=True) as vault,
            client_of(self.dev, self.folder) as here,
            client_of(self.prod, self.folder) as there,
        ):
            vault.bind(here.source)
            reading = read_folder(vault, here, folder, workers=2, stop=stop)
            plan = Planner(vault, here, there, reading, stop=stop, **options).plan()
            target = wrap(there) if wrap else there
            promoter = Promoter(vault, target, plan, remove=remove, report=report)
            done = promoter.run() if write and promoter.due else None
        return plan, done

    def new_ids(self) -> dict[tuple[str, str], str]:
        """Ids there of what was promoted."""
        with Vault.open(self.folder / "dev.sqlite") as vault:
            state = RestoreState(vault, self.prod.url)
            rows = list(vault.contents.rows())
            found = {(r.type, r.id): state.entry(r.type, r.id) for r in rows}
        return {key: entry.new_id for key, entry in found.items() if entry is not None}

    def inside(self, type_: str) -> dict[str, bytes]:
        """What lies in and below the folder here."""
        key = "parent_id" if type_ == "folder" else "folder_id"
        return {
            item_id: body
            for item_id, body in self.dev.library.content(type_).items()
            if str(json.loads(body)[key]) in BELOW or (type_ == "folder" and item_id == FOLDER)
        }

    def assert_alike(self) -> None:
        """There is what is here, up to ids, and nothing else."""
        new_ids = self.new_ids()
        # Owners and the root are the same people and the same folder.
        new_ids |= {("user", str(n)): str(n) for n in range(1, 11)} | {("folder", "1"): "1"}
        for type_ in ("folder", "look", "dashboard", "merge_query", "query"):
            there = self.prod.library.content(type_)
            if type_ == "folder":
                del there["1"]
            named = type_ in ("merge_query", "query")
            here = self.inside(type_) if not named else self.named(type_)
            expected = {new_ids[type_, i]: meaning(body, new_ids) for i, body in here.items()}
            assert {i: meaning(body, {}) for i, body in there.items()} == expected, type_

    def named(self, type_: str) -> dict[str, bytes]:
        """Merged queries of the folder's dashboards, or the queries of these."""
        field = "dashboard_elements" if type_ == "merge_query" else "source_queries"
        name = "merge_result_id" if type_ == "merge_query" else "query_id"
        above = self.inside("dashboard") if type_ == "merge_query" else self.named("merge_query")
        bodies = self.dev.library.content(type_)
        parts = [part for body in above.values() for part in json.loads(body)[field]]
        return {part[name]: bodies[part[name]] for part in parts if part.get(name) in bodies}

    def writes(self) -> list[str]:
        """What was asked to be made or changed there."""
        asked = [a.target for a in self.prod.arrivals() if a.subject.ask == "write"]
        return [path for path in asked if not path.endswith("/logout")]


@pytest.fixture
def lookers(tmp_path: Path) -> Iterator[Lookers]:
    with (
        SimulatedLooker(counts=DEV, seed=1) as dev,
        SimulatedLooker(counts=PROD, seed=2) as prod,
    ):
        found = Lookers(dev, prod, tmp_path)
        # A look of the folder in a tile of a dashboard of the folder.
        look, dashboard = (min(found.inside(t), key=int) for t in ("look", "dashboard"))
        body = json.loads(dev.library.body("dashboard", dashboard) or b"")
        tile = {"id": "771", "dashboard_id": dashboard, "title": "A look", "look_id": look}
        tiles = [*body["dashboard_elements"], tile]
        dev.library.edit("dashboard", dashboard, dashboard_elements=tiles)
        prod.reset_log()
        yield found


def _changes(plan: PromotionPlan) -> dict[tuple[str, str], Change]:
    return {(item.type, item.id): item.change for item in plan.items}


def _only(plan: PromotionPlan, *changes: Change) -> None:
    assert {item.change for item in plan.items} == set(changes), plan.items


def test_a_folder_goes_over_as_it_is_and_a_second_time_there_is_nothing_to_do(
    lookers: Lookers,
) -> None:
    plan, done = lookers.promote()
    _only(plan, Change.CREATED)
    assert plan.missing == plan.unchecked == []
    assert set(_changes(plan)) == {
        (type_, item_id)
        for type_ in ("folder", "look", "dashboard")
        for item_id in lookers.inside(type_)
    }
    assert done is not None
    assert done.problems == []
    lookers.assert_alike()
    slugs = {
        json.loads(body)["slug"] for body in lookers.prod.library.content("dashboard").values()
    }
    assert slugs == {json.loads(body)["slug"] for body in lookers.inside("dashboard").values()}
    # Being looked at is no change.
    some = min(lookers.inside("dashboard"), key=int)
    lookers.dev.library.edit("dashboard", some, view_count=999_999)
    lookers.prod.reset_log()
    plan, done = lookers.promote()
    _only(plan, Change.UNCHANGED)
    assert done is None
    assert lookers.writes() == []


def test_a_plan_writes_nothing_there(lookers: Lookers) -> None:
    lookers.promote(write=False)
    assert lookers.writes() == []


def test_what_changed_here_is_changed_there_and_nothing_else(lookers: Lookers) -> None:
    lookers.promote()
    dashboard = max(lookers.inside("dashboard"), key=int)
    look = max(lookers.inside("look"), key=int)
    lookers.dev.library.edit("dashboard", dashboard, title="Renamed", dashboard_elements=[])
    new_id = lookers.new_ids()["dashboard", dashboard]
    there = json.loads(lookers.prod.library.body("dashboard", new_id) or b"")
    tiles = [{**tile, "alert_count": 1} for tile in there["dashboard_elements"]]
    lookers.prod.library.edit("dashboard", new_id, dashboard_elements=tiles)
    lookers.dev.library.edit("look", look, folder_id="4")
    lookers.dev.library.edit("folder", "5", name="Renamed")
    plan, done = lookers.promote()
    changed = {key for key, change in _changes(plan).items() if change is Change.CHANGED}
    assert changed == {("dashboard", dashboard), ("look", look), ("folder", "5")}
    why = {item.id: item.why for item in plan.items if item.why}
    assert why == {dashboard: f"{len(tiles)} alerts on its tiles there end"}
    assert done is not None
    assert done.problems == []
    lookers.assert_alike()


def test_what_was_changed_there_is_a_conflict_and_stays_unless_asked_for(lookers: Lookers) -> None:
    lookers.promote()
    first, second = sorted(lookers.inside("dashboard"), key=int)[:2]
    new_ids = lookers.new_ids()
    lookers.prod.library.edit("dashboard", new_ids["dashboard", first], title="Mended there")
    lookers.prod.library.trash("dashboard", new_ids["dashboard", second])
    lookers.dev.library.edit("dashboard", first, description="Changed here, too")
    plan, done = lookers.promote()
    assert done is None
    why = {item.id: item.why for item in plan.of(Change.CONFLICT)}
    assert why == {
        first: "it was changed there since it was promoted",
        second: "it lies in the trash there since it was promoted",
    }
    there = json.loads(lookers.prod.library.body("dashboard", new_ids["dashboard", first]) or b"")
    assert there["title"] == "Mended there"
    plan, done = lookers.promote(overwrite=True)
    assert done is not None
    assert done.problems == []
    lookers.assert_alike()
    _only(lookers.promote()[0], Change.UNCHANGED)


def test_what_a_run_had_not_come_to_when_it_was_cut_off_is_still_looked_after(
    lookers: Lookers,
) -> None:
    lookers.promote()
    for look in sorted(lookers.inside("look"), key=int)[:2]:
        lookers.dev.library.edit("look", look, description="Changed here")
    first, last = lookers.promote(write=False)[0].of(Change.CHANGED)

    def cut_off(_outcome: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lookers.promote(report=cut_off)
    lookers.prod.library.edit("look", last.new_id, description="Changed there, too")
    changes = _changes(lookers.promote(write=False)[0])
    assert (changes["look", first.id], changes["look", last.id]) == (
        Change.UNCHANGED,
        Change.CONFLICT,
    )


def test_content_of_another_user_under_the_same_title_is_a_conflict(lookers: Lookers) -> None:
    there = lookers.prod.library
    folder = json.loads(there.create("folder", {"name": "Folder 2", "parent_id": "1"}))["id"]
    some = max(lookers.inside("dashboard"), key=int)
    mine = json.loads(lookers.dev.library.edit("dashboard", some, folder_id=FOLDER))
    theirs = there.create(
        "dashboard",
        {"title": mine["title"], "folder_id": folder, "slug": "Theirs", "deleted": False,
         "dashboard_elements": [], "dashboard_filters": [],
         "dashboard_layouts": [{"id": "1", "active": True}]},
    )  # fmt: skip
    their_id = json.loads(theirs)["id"]
    plan, done = lookers.promote()
    (conflict,) = plan.of(Change.CONFLICT)
    assert (conflict.id, conflict.new_id) == (mine["id"], their_id)
    assert "of that title is there already" in conflict.why
    assert _changes(plan)["folder", FOLDER] is Change.UNCHANGED  # one of its name is there
    assert done is not None
    assert there.body("dashboard", their_id) == theirs
    plan, done = lookers.promote(overwrite=True)
    assert done is not None
    assert done.problems == []
    lookers.assert_alike()


def test_a_slug_that_another_has_is_named_before_and_after(lookers: Lookers) -> None:
    (some, *_) = sorted(lookers.inside("dashboard"), key=int)
    slug = json.loads(lookers.dev.library.body("dashboard", some) or b"")["slug"]
    lookers.prod.library.create("dashboard", {"title": "x", "folder_id": "1", "slug": slug})
    plan, done = lookers.promote()
    why = {item.id: item.why for item in plan.of(Change.CREATED) if item.why}
    assert why == {some: f"without its slug {slug!r}, which dashboard 1 has there"}
    assert done is not None
    assert [(o.id, o.left_out) for o in done.incomplete] == [
        (some, (f"the slug {slug!r}, which is taken there or refused",))
    ]
    again, done = lookers.promote()
    _only(again, Change.UNCHANGED)
    assert done is None


def test_what_is_not_there_is_named_before_anything_is_written(lookers: Lookers) -> None:
    dev, prod = lookers.dev.library, lookers.prod.library
    first, second, third, fourth = sorted(lookers.inside("look"), key=int)[:4]
    for look, model, view in (
        (first, "model_9", "explore_1"),
        (second, "model_1", "explore_9"),
        (third, "model_1", "explore_2"),
    ):
        body = json.loads(dev.body("look", look) or b"")
        dev.edit("look", look, query={**body["query"], "model": model, "view": view})
    explore = json.loads(prod.body("explore", "model_1::explore_2") or b"")
    prod.put(
        "explore",
        "model_1::explore_2",
        json.dumps({**explore, "connection_name": "elsewhere"}).encode(),
    )
    owner = json.loads(dev.body("look", fourth) or b"")["user_id"]
    prod.edit("user", owner, email="another@example.com")
    dashboard = min(lookers.inside("dashboard"), key=int)  # shows the first look
    plan, done = lookers.promote(write=False)
    assert done is None
    missing = {(m.kind, m.name): m for m in plan.missing}
    assert set(missing) == {
        ("model", "model_9"),
        ("explore", "model_1::explore_9"),
        ("connection", "elsewhere"),
        ("user", f"person{owner}@example.com"),
    }
    assert missing["model", "model_9"].needed_by == [f"look {first}"]
    assert not missing["user", f"person{owner}@example.com"].blocks
    blocked = {(item.type, item.id) for item in plan.of(Change.BLOCKED)}
    assert blocked == {
        ("look", first), ("look", second), ("look", third), ("dashboard", dashboard)
    }  # fmt: skip
    # The rest is promoted, and once it is there, so is what rested on it.
    _plan, done = lookers.promote()
    assert done is not None
    assert done.failed == []
    assert lookers.prod.library.ids("look")
    prod.put("explore", "model_9::explore_1", b'{"name": "explore_1", "model_name": "model_9"}')
    plan, done = lookers.promote()
    assert {(i.type, i.id) for i in plan.of(Change.CREATED)} == {
        ("look", first),
        ("dashboard", dashboard),
    }
    assert done is not None
    assert done.failed == []


def test_without_a_folder_to_put_it_in_nothing_is_written(lookers: Lookers) -> None:
    plan, done = lookers.promote(folder="4")  # lies in Folder 1/Folder 2
    assert done is None
    _only(plan, Change.BLOCKED)
    assert [(m.kind, m.name) for m in plan.missing] == [("folder", "Folder 1/Folder 2")]
    assert lookers.writes() == []
    plan, done = lookers.promote(folder="4", into="1")
    assert done is not None
    assert done.failed == []
    folders = [json.loads(b) for b in lookers.prod.library.content("folder").values()]
    assert ("Folder 4", "1") in {(each["name"], each["parent_id"]) for each in folders}


def test_a_look_outside_of_the_folder_is_not_brought_along(lookers: Lookers) -> None:
    outside = min(lookers.dev.library.content("look").keys() - lookers.inside("look").keys())
    dashboard = max(lookers.inside("dashboard"), key=int)
    tile = {"id": "772", "title": "Another", "look_id": outside}
    lookers.dev.library.edit("dashboard", dashboard, dashboard_elements=[tile])
    plan, _done = lookers.promote(write=False)
    assert [(m.kind, m.name, m.needed_by) for m in plan.missing] == [
        ("look", outside, [f"dashboard {dashboard}"])
    ]
    assert _changes(plan)["dashboard", dashboard] is Change.BLOCKED


def test_what_left_the_folder_is_named_and_goes_into_the_trash_if_asked_for(
    lookers: Lookers,
) -> None:
    lookers.promote()
    gone, moved = sorted(lookers.inside("dashboard"), key=int)[-2:]
    new_ids = lookers.new_ids()
    lookers.dev.library.trash("dashboard", gone)
    lookers.dev.library.edit("dashboard", moved, folder_id="3")
    plan, done = lookers.promote()
    assert done is None
    removed = {item.id: (item.new_id, item.why) for item in plan.of(Change.REMOVED)}
    assert removed == {
        gone: (
            new_ids["dashboard", gone],
            "it is gone in the folder that it was promoted from",
        ),
        moved: (new_ids["dashboard", moved], "it was moved to folder 3"),
    }
    plan, done = lookers.promote(remove=True)
    assert done is not None
    assert done.problems == []
    trash = lookers.prod.library.ids("dashboard", trash=True)
    assert set(trash) == {new_ids["dashboard", gone], new_ids["dashboard", moved]}
    _only(lookers.promote(remove=True)[0], Change.UNCHANGED)


@pytest.mark.parametrize("moved", [False, True])
def test_what_a_folder_took_along_is_removed_content(lookers: Lookers, moved: bool) -> None:
    lookers.promote()
    new_ids = lookers.new_ids()
    below = max(BELOW, key=int)  # a leaf
    inside = {
        (type_, item)
        for type_ in ("look", "dashboard")
        for item, body in lookers.dev.library.content(type_).items()
        if str(json.loads(body)["folder_id"]) == below
    }
    assert inside
    if moved:
        lookers.dev.library.edit("folder", below, parent_id="1")
    else:
        for type_, item in inside:
            lookers.dev.library.trash(type_, item)
        lookers.dev.library.remove("folder", below)
    why = "its folder was moved" if moved else "it is gone in the folder that it was promoted from"
    plan, _ = lookers.promote()
    removed = {(item.type, item.id): (item.new_id, item.why) for item in plan.of(Change.REMOVED)}
    assert removed == {key: (new_ids[key], why) for key in inside}


@pytest.mark.parametrize("after", [1, 3, 7, 20, 45])
def test_killed_at_any_request_the_next_run_goes_on(lookers: Lookers, after: int) -> None:
    """The process ends right after a write was carried out, before it could note the answer."""

    class Killed(BaseException):
        pass

    class Dying:
        def __init__(self, client: Any) -> None:
            self.client, self.source, self.ask = client, client.source, client.ask
            self.left = after

        def send(self, *args: Any, **options: Any) -> bytes:
            answer: bytes = self.client.send(*args, **options)
            self.left -= 1
            if self.left <= 0:
                raise Killed
            return answer

    with pytest.raises(Killed):
        lookers.promote(wrap=Dying)
    plan, done = lookers.promote()
    assert plan.of(Change.CONFLICT) == []
    assert done is not None
    assert done.problems == []
    lookers.assert_alike()
    _only(lookers.promote()[0], Change.UNCHANGED)


def test_what_does_not_come_is_named_and_a_broken_listing_ends_it(lookers: Lookers) -> None:
    look = max(lookers.inside("look"), key=int)
    number = lookers.dev.add_fault(f"error,status=403,ask=item,type=look,id={look}")
    plan, done = lookers.promote()
    assert _changes(plan)["look", look] is Change.UNREAD
    assert done is not None
    assert done.failed == []
    lookers.dev.remove_fault(number)
    lookers.dev.add_fault("error,status=500,ask=list,type=dashboard")
    with pytest.raises(FolderNotRead, match="folder 2 was not read: dashboard"):
        lookers.promote()


def test_folders_that_cannot_be_promoted_are_refused(lookers: Lookers) -> None:
    with pytest.raises(UnknownFolder):
        lookers.promote(folder="999")
    with pytest.raises(NotPromotable, match="is a root"):
        lookers.promote(folder="1", into="1")
    lookers.dev.library.edit("folder", "5", is_personal=True)
    with pytest.raises(NotPromotable, match="folder 5"):
        lookers.promote()
    assert lookers.writes() == []
