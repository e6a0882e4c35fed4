"""Who belongs where and may see what: extracted, compared, restored, secrets left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.looker import assert_vault_equals, extract
from support.restores import client_of, restore

from headrace.looker.diff import differences
from headrace.looker.restore.report import RestoreOutcome
from headrace.looker.restore.restorer import Restorer
from headrace.looker.vault import Vault
from headrace.run.report import Status
from headrace.sim.looker import SimulatedLooker

ACCESS = (
    "group_hierarchy", "user_attribute", "group_attribute_value", "user_attribute_value",
    "folder_access", "connection", "alert",
)  # fmt: skip
#: What they are about; dashboards for the tiles that alerts watch.
WITH_BASES = (*ACCESS, "user", "group", "role", "permission_set", "model_set", "folder")
TINY = {
    "user": 3, "group": 3, "permission_set": 1, "model_set": 1, "role": 2, "folder": 4,
    "lookml_model": 1, "explore": 0, "look": 0, "dashboard": 1, "lookml_dashboard": 0, "board": 0,
    "scheduled_plan": 0, "user_attribute": 3, "alert": 2, "connection": 2,
}  # fmt: skip
NOTHING = dict.fromkeys(TINY, 0) | {"folder": 1, "connection": 2}


@pytest.fixture
def sim() -> Iterator[SimulatedLooker]:
    with SimulatedLooker(counts=TINY, seed=1) as running:
        running.library.edit("dashboard", "1", user_id="1")  # one of the three
        for alert in running.library.ids("alert"):
            running.library.edit("alert", alert, owner_id="1")
        yield running


@pytest.fixture
def target() -> Iterator[SimulatedLooker]:
    with SimulatedLooker(counts=NOTHING, seed=2) as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "looker.sqlite"


@pytest.fixture
def vault(sim: SimulatedLooker, path: Path) -> Iterator[Vault]:
    """All of the Looker, and bound to it: `extract` calls every Looker by one name."""
    assert extract(sim.url, path, workers=2).status is Status.DONE
    with Vault.open(path) as held:
        held.file.execute("UPDATE meta SET value = ? WHERE name = 'source'", (sim.url,))
        yield held


def held(vault: Vault, type_: str, item_id: str) -> Any:
    return json.loads(vault.contents.body(type_, item_id).body)


def there(sim: SimulatedLooker, type_: str, item_id: str) -> Any:
    return json.loads(sim.library.body(type_, item_id) or b"null")


# -- extraction ---------------------------------------------------------------------------------


def test_all_of_it_comes_as_the_server_sent_it(sim, path):
    done = extract(sim.url, path, types=",".join(ACCESS))
    assert {name: receipt.status for name, receipt in done.receipts.items()} == dict.fromkeys(
        ACCESS, Status.DONE
    )
    assert_vault_equals(sim.library, path, ACCESS)
    again = extract(sim.url, path, types=",".join(ACCESS))
    assert {(r.new, r.changed, r.deleted) for r in again.receipts.values()} == {(0, 0, 0)}
    # A page and its proof of an end, one per user; two for a folder with its own access.
    assert again["user_attribute_value"].requests == 2 + 3
    assert again["folder_access"].requests == 1 + 4 + 1
    with Vault.open(path) as vault:
        row = vault.contents.row("folder_access", "92")
        assert (row.name, row.folder) == ("Folder 2", "2")
        assert vault.contents.row("alert", "1").name == "Alert 1"
        assert vault.contents.row("group_attribute_value", "1").name == "attribute_1"


def test_no_secret_is_asked_for_or_stored(sim, path):
    sim.library.edit("user_attribute", "1", value_is_hidden=True, default_value="hush-default")
    extract(sim.url, path, types=",".join(ACCESS))
    with Vault.open(path) as vault:
        bodies = b"".join(
            vault.contents.body(type_, row.id).body
            for type_ in ACCESS
            for row in vault.contents.rows(type_)
        )
        assert held(vault, "connection", "warehouse")["host"] == "warehouse.example.com"
        (value,) = (v for v in held(vault, "user_attribute_value", "3")["values"])
        assert (value["value"], value["value_is_hidden"]) == (None, True)
    for secret in (b"simulated-secret", b"simulated_secret", b"simulated-user", b"hush"):
        assert secret not in bodies
    (asked,) = (a.target for a in sim.arrivals() if a.target.startswith("/api/4.0/connections"))
    assert "fields=name" in asked
    assert "%2Cpassword" not in asked


def test_listed_items_that_answer_403_404_or_500_cost_only_themselves(sim, path):
    wanted = "user_attribute_value,folder_access"
    faults = [
        sim.add_fault("error,status=403,type=user_attribute_value,id=1"),
        sim.add_fault("error,status=404,type=user_attribute_value,id=2"),
        sim.add_fault("error,status=500,type=folder_access,id=93"),
    ]
    done = extract(sim.url, path, types=wanted)
    assert done.status is Status.PARTIAL
    assert done["user_attribute_value"].failures == ("1 (403)", "2 (404)")
    assert done["folder_access"].failures == ("93 (500)",)
    for number in faults:
        sim.remove_fault(number)
    sim.reset_log()
    assert extract(sim.url, path, types=wanted).status is Status.DONE
    assert [a.subject.id for a in sim.arrivals() if a.subject.type == "user_attribute_value"] == [
        "1",
        "2",
    ]
    assert_vault_equals(sim.library, path, wanted.split(","))


def test_a_token_that_ends_between_two_answers_of_one_item_costs_nothing(sim, path):
    sim.add_fault("revoke,type=folder_access,id=91,calls=1")
    done = extract(sim.url, path, types="folder_access", workers=4)
    assert (done.status, sim.stats()["logins"]) == (Status.DONE, 2)
    assert_vault_equals(sim.library, path, ["folder_access"])


def test_strange_text_in_names_and_values_is_kept_to_the_byte(sim, path):
    strange = '\ud83d \N{GRINNING FACE} \u202e\u05d0 a\0b "q" ' + "x" * 70_000
    sim.library.edit("group", "2", name=strange)
    sim.library.edit("folder", "3", name="../../x")
    values = there(sim, "user_attribute_value", "1")["values"]
    sim.library.edit("user_attribute_value", "1", values=[{**values[0], "value": strange}])
    assert extract(sim.url, path, types=",".join(ACCESS)).status is Status.DONE
    assert_vault_equals(sim.library, path, ACCESS)
    with Vault.open(path) as vault:
        assert held(vault, "group_hierarchy", "2")["name"] == strange
        assert vault.contents.row("folder_access", "93").name == "../../x"


def test_a_folder_without_access_of_its_own_is_no_item_and_no_failure(sim, path):
    sim.library.put(
        "folder", "lookml", b'{"id":"lookml","name":"LookML","content_metadata_id":null}'
    )
    done = extract(sim.url, path, types="folder_access")
    assert (done.status, done["folder_access"].items) == (Status.DONE, 4)


def test_one_slow_answer_ends_as_a_failure_of_its_item(sim, path):
    sim.add_fault("slow,s=20,type=user_attribute_value,id=2")
    done = extract(sim.url, path, types="user_attribute_value", total_s=2.0)
    assert done["user_attribute_value"].failures == ("2",)
    assert done["user_attribute_value"].new == 2


def test_what_is_gone_is_proven_gone_and_a_broken_listing_proves_nothing(sim, path):
    extract(sim.url, path, types=",".join(ACCESS))
    sim.library.remove("user", "3")
    sim.library.remove("group", "3")
    sim.library.remove("folder", "4")
    broken = sim.add_fault("error,status=500,type=folder,ask=list")
    done = extract(sim.url, path, types=",".join(ACCESS), full=True)
    assert done["folder_access"].deleted == 0
    assert done["user_attribute_value"].deleted == 1
    assert done["group_hierarchy"].deleted == 1
    sim.remove_fault(broken)
    assert extract(sim.url, path, types="folder_access")["folder_access"].deleted == 1
    with Vault.open(path) as vault:
        assert vault.contents.row("user_attribute_value", "3").deletion == "gone"
        (event,) = vault.contents.events("group_hierarchy", "3")
        assert event["evidence"] == "404 for GET /groups/3"


def test_fields_that_no_model_knows_stay(sim, path):
    values = there(sim, "user_attribute_value", "1")["values"]
    sim.library.edit("user_attribute_value", "1", values=[{**values[0], "tomorrow": {"a": [1.50]}}])
    sim.library.edit("alert", "1", field_of_tomorrow="2026-01-01T00:00:00.000+00:00")
    extract(sim.url, path, types=",".join(ACCESS))
    assert_vault_equals(sim.library, path, ACCESS)
    with Vault.open(path) as vault:
        assert b'"tomorrow":{"a":[1.5]}' in vault.contents.body("user_attribute_value", "1").body


def test_diff_names_what_changed(sim, path):
    first = extract(sim.url, path, types=",".join(ACCESS)).session
    sim.library.edit("group_hierarchy", "3", role_ids=["1", "2"])
    values = there(sim, "user_attribute_value", "1")["values"]
    sim.library.edit("user_attribute_value", "1", values=[{**values[0], "value": "EU"}])
    access = there(sim, "folder_access", "91")["access"]
    sim.library.edit("folder_access", "91", access=[{**access[0], "permission_type": "edit"}])
    second = extract(sim.url, path, types=",".join(ACCESS)).session
    with Vault.open(path) as vault:
        found = {
            (d.type, d.id): [(c.path, c.after) for c in d.changes]
            for d in differences(vault, first, second)
        }
    assert found == {
        ("group_hierarchy", "3"): [("role_ids[1]", "2")],
        ("user_attribute_value", "1"): [("values[user_attribute_id=2].value", "EU")],
        ("folder_access", "91"): [("access[id=911].permission_type", "edit")],
    }


# -- restoring ----------------------------------------------------------------------------------


def test_an_alert_goes_to_the_tile_that_its_own_has_become(vault, sim, target, tmp_path):
    tiles = there(sim, "dashboard", "1")["dashboard_elements"]
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, enable_schedules=False)
        assert done.failed == done.incomplete == []
        assert [there(target, "alert", a)["is_disabled"] for a in ("1", "2")] == [True, True]
        made = there(target, "alert", "1")
        (tile,) = (
            each
            for each in there(target, "dashboard", "1")["dashboard_elements"]
            if each["id"] == made["dashboard_element_id"]
        )
        assert tile["title"] == tiles[0]["title"]
        # A later restore leaves them as they are there, unless it is asked to switch them on.
        target.library.edit("alert", "1", is_disabled=False)
        restore(vault, client, enable_schedules=False, force=True, types=["alert"])
        assert [there(target, "alert", a)["is_disabled"] for a in ("1", "2")] == [False, True]
        restore(vault, client, force=True, types=["alert"])
        assert [there(target, "alert", a)["is_disabled"] for a in ("1", "2")] == [False, False]


def test_alerts_outlive_the_tiles_that_a_restore_makes_again(vault, sim, tmp_path):
    sim.library.edit("dashboard", "1", title="Renamed by mistake")
    tiles = there(sim, "dashboard", "1")["dashboard_elements"]
    sim.library.edit("dashboard", "1", dashboard_elements=[{**tiles[0], "title": "Wrong"}])
    with client_of(sim, tmp_path) as client:
        done = restore(vault, client, types=["dashboard", "alert"])
        assert done.failed == []
        assert done.counts["alert"] == {RestoreOutcome.CREATED: 2}
        now = there(sim, "dashboard", "1")["dashboard_elements"]
        alerts = [there(sim, "alert", each) for each in sim.library.ids("alert")]
        assert {a["dashboard_element_id"] for a in alerts} == {now[0]["id"]} != {tiles[0]["id"]}
        again = restore(vault, client, types=["dashboard", "alert"])
        assert again.counts["alert"] == {RestoreOutcome.UNCHANGED: 2}


def test_an_alert_whose_owner_is_not_there_becomes_the_caller_s(vault, sim, target, tmp_path):
    target.library.create("user", {"first_name": "Caller"})
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["folder", "dashboard", "alert"])
    left = {(o.type, o.id): o.left_out for o in done.incomplete}
    assert left["alert", "1"] == ("owner_id: user 1 is not there",)
    assert there(target, "alert", "1")["owner_id"] == "1"


def test_without_its_tile_an_alert_says_what_to_do(vault, target, tmp_path):
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["user", "alert"])
    assert "the tile 1000 that it watches is not there" in done.failed[0].reason
    assert "Restore its dashboard first" in done.failed[0].reason


def test_the_looker_of_the_vault_gets_back_exactly_what_it_had(vault, sim, tmp_path):
    before = {type_: sim.library.content(type_) for type_ in ACCESS}
    sim.library.edit("group_hierarchy", "1", parent_group_ids=["3"], role_ids=["2"])
    sim.library.edit("group_hierarchy", "3", parent_group_ids=[], role_ids=[])
    sim.library.edit("folder_access", "92", inherits=False, access=[])
    entry = there(sim, "folder_access", "91")["access"][0]
    more = {**entry, "id": "77", "group_id": "2"}
    changed = {**entry, "permission_type": "edit"}
    sim.library.edit("folder_access", "91", access=[changed, more])
    value = there(sim, "user_attribute_value", "1")["values"][0]
    other = {**value, "user_attribute_id": "1", "value": "surplus"}
    sim.library.edit("user_attribute_value", "1", values=[{**value, "value": "wrong"}, other])
    sim.library.edit("user_attribute_value", "2", values=[])
    values = there(sim, "group_attribute_value", "1")["group_values"]
    sim.library.edit("group_attribute_value", "1", group_values=values[:1])
    sim.library.edit("user_attribute", "2", default_value="wrong", label="wrong")
    with client_of(sim, tmp_path) as client:
        done = restore(vault, client, types=ACCESS)
        assert done.failed == done.incomplete == []
        assert {t: sim.library.content(t) for t in ACCESS} == before
        sim.reset_log()
        again = restore(vault, client, types=ACCESS)
    assert {how for counts in again.counts.values() for how in counts} == {RestoreOutcome.UNCHANGED}
    assert [a for a in sim.arrivals() if a.subject.ask == "write" and a.subject.type] == []


def test_elsewhere_groups_keep_what_others_gave_them_and_folders_do_not(vault, target, tmp_path):
    names = ("Theirs", "Group 1", "Group 2", "Group 3")
    for name in names:
        target.library.create("group", {"name": name})
    target.library.create("role", {"name": "Theirs"})
    target.library.edit("group_hierarchy", "2", parent_group_ids=["1"], role_ids=["1"])
    root = {"id": "5", "content_metadata_id": "91", "permission_type": "edit", "group_id": "1"}
    target.library.edit("folder_access", "91", access=[root])
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=[t for t in WITH_BASES if t != "alert"])
        assert done.counts["group"] == {RestoreOutcome.ADOPTED: 3}
        state = Restorer(vault, client).state
        role = state.entry("role", "1").new_id
    group = there(target, "group_hierarchy", "2")
    assert (group["parent_group_ids"], group["role_ids"]) == (["1"], ["1", role])
    assert there(target, "group_hierarchy", "3")["parent_group_ids"] == ["2"]
    access = there(target, "folder_access", "91")["access"]
    assert [(e["group_id"], e["permission_type"]) for e in access] == [("2", "view")]


def test_what_was_not_restored_is_found_by_name_and_what_is_not_there_is_named(
    vault, target, tmp_path
):
    for name in ("First", "Group 1"):
        target.library.create("group", {"name": name})
    target.library.create("role", {"name": "Role 1"})
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["group_hierarchy", "folder_access"])
    by_id = {(o.type, o.id): o for o in done.problems}
    assert there(target, "group_hierarchy", "2")["role_ids"] == ["1"]
    assert "it needs group 2, which is not there" in by_id["group_hierarchy", "2"].reason
    assert "it needs folder 2, which is not there" in by_id["folder_access", "92"].reason
    access = there(target, "folder_access", "91")["access"]
    assert [(entry["group_id"], entry["permission_type"]) for entry in access] == [("2", "view")]


def test_a_folder_below_itself_is_not_looked_for_without_end(sim, target, path, tmp_path):
    sim.library.edit("folder", "2", parent_id="4")
    sim.library.edit("folder", "4", parent_id="2")
    extract(sim.url, path, types="folder,folder_access")
    with Vault.open(path) as vault, client_of(target, tmp_path) as client:
        vault.file.execute("UPDATE meta SET value = ? WHERE name = 'source'", (sim.url,))
        done = restore(vault, client, types=["folder_access"])
    assert {o.id for o in done.failed} == {"92", "93", "94"}


def test_one_group_that_is_missing_costs_one_entry(vault, target, tmp_path):
    target.library.create("user_attribute", {"name": "attribute_1", "label": "A", "type": "string"})
    target.library.create("group", {"name": "Group 2"})
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["group_attribute_value"], item_id="1")
    (left,) = done.incomplete
    assert left.left_out == ("the value for group 1 (Group 1), which is not there",)
    values = there(target, "group_attribute_value", "1")["group_values"]
    assert [(v["group_id"], v["value"]) for v in values] == [("1", "value of group 2")]


def test_hidden_values_are_named_and_those_that_are_there_stay(sim, target, path, tmp_path):
    sim.library.edit("user_attribute", "1", value_is_hidden=True)
    extract(sim.url, path, types=",".join(WITH_BASES))
    with Vault.open(path) as vault:
        vault.file.execute("UPDATE meta SET value = ? WHERE name = 'source'", (sim.url,))
        with client_of(sim, tmp_path) as client:
            done = restore(vault, client, types=["user_attribute", *ACCESS[2:4]], force=True)
            assert done.failed == done.incomplete == []
        sim.library.edit("user_attribute", "1", value_is_hidden=False)
        kept = there(sim, "group_attribute_value", "1")["group_values"]
        assert [v["value"] for v in kept] == ["value of group 2", "value of group 1"]
        with client_of(target, tmp_path) as client:
            done = restore(vault, client, types=[t for t in WITH_BASES if t != "alert"])
    left = {(o.type, o.id): o.left_out for o in done.incomplete}
    assert left["user_attribute", "1"] == ("its default value, which is hidden and in no vault",)
    assert left["user_attribute_value", "3"] == (
        "the value of 'attribute_1', which is hidden and in no vault",
    )
    assert len(left["group_attribute_value", "1"]) == 2


def test_connections_are_looked_for_and_never_written(vault, sim, target, tmp_path):
    target.library.remove("connection", "connection_2")
    with client_of(target, tmp_path) as client:
        done = restore(vault, client, types=["connection"])
    (failed,) = done.failed
    assert "there is no connection called 'connection_2'" in failed.reason
    assert done.counts["connection"][RestoreOutcome.ADOPTED] == 1
    sim.library.edit("connection", "warehouse", host="elsewhere", password="changed")
    with client_of(sim, tmp_path) as client:
        (differs,) = restore(vault, client, types=["connection"]).incomplete
    assert differs.left_out == ("host: not as in the vault, and to be set in Looker",)
    writes = [a for s in (sim, target) for a in s.arrivals() if a.subject.ask == "write"]
    assert [a for a in writes if a.subject.type == "connection"] == []


def test_attributes_that_looker_makes_are_taken_for_their_namesakes(sim, target, path, tmp_path):
    sim.library.edit("user_attribute", "2", name="locale", is_system=True)
    made = {"name": "locale", "label": "Locale", "type": "string", "is_system": True}
    target.library.create("user_attribute", made)
    extract(sim.url, path, types="user_attribute")
    with Vault.open(path) as vault, client_of(target, tmp_path) as client:
        vault.file.execute("UPDATE meta SET value = ? WHERE name = 'source'", (sim.url,))
        done = restore(vault, client, types=["user_attribute"])
    assert done.counts["user_attribute"] == {RestoreOutcome.ADOPTED: 1, RestoreOutcome.CREATED: 2}
    assert there(target, "user_attribute", "1")["label"] == "Locale"
