"""The simulated Looker as the official SDK sees it, models and all."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection

import looker_sdk
import pytest
from looker_sdk import models40 as models
from looker_sdk.error import SDKError
from looker_sdk.rtl import api_settings

from headrace.sim import SpecError
from headrace.sim.looker import SimulatedLooker, SimulatedLookerProcess, parse_looker_fault


class Settings(api_settings.ApiSettings):
    def __init__(self, url, secret="simulated-secret"):
        self.given = {"base_url": url, "client_id": "headrace", "client_secret": secret}
        super().__init__()

    def read_config(self):
        return self.given


@pytest.fixture(autouse=True)
def no_documentation_is_fetched(monkeypatch):
    """The SDK would ask the network for the page of every error."""
    monkeypatch.setattr(
        "looker_sdk.error.ErrorDocHelper.parse_and_lookup", lambda _self, _url: ("", "")
    )


@pytest.fixture
def sim():
    with SimulatedLooker(counts={"dashboard": 250}) as running:
        yield running


@pytest.fixture
def sdk(sim):
    return looker_sdk.init40(config_settings=Settings(sim.url))


def test_every_content_type_is_listed_and_parses_into_the_sdk_s_models(sdk):
    assert len(sdk.all_users()) == 10
    assert [group.name for group in sdk.all_groups()][:2] == ["Group 1", "Group 2"]
    assert sdk.all_permission_sets()[0].permissions
    assert sdk.all_model_sets()[0].models == ["model_1"]
    assert sdk.search_roles()[0].permission_set.id == "1"
    assert [folder.parent_id for folder in sdk.all_folders()][:4] == [None, "1", "1", "2"]
    assert sdk.all_lookml_models()[0].explores[0].name == "explore_1"
    assert sdk.lookml_model_explore("model_1", "explore_2").name == "explore_2"
    assert sdk.search_looks()[0].title.startswith("Look 1")
    assert sdk.search_dashboards(limit=3)[2].dashboard_elements[0].query.model == "model_1"
    assert sdk.all_boards()[0].board_sections
    assert len(sdk.all_scheduled_plans(all_users=True)) == 5
    assert len(sdk.all_scheduled_plans()) < 5


def test_a_listed_look_comes_without_its_query_and_a_single_one_with_it(sdk, sim):
    assert b'"query"' not in _get(sim, "/looks/search")
    assert sdk.look("3").query.view


def test_pages_by_limit_and_offset_in_the_order_of_ids(sdk):
    first, second = (sdk.search_dashboards(limit=100, offset=o, sorts="id") for o in (0, 100))
    assert [d.id for d in first + second] == [str(n) for n in range(1, 201)]
    assert len(sdk.search_dashboards(limit=100, offset=200, sorts="id")) == 50
    assert list(sdk.search_dashboards(limit=100, offset=300, sorts="id")) == []


def test_without_an_order_what_was_touched_last_comes_first(sdk, sim):
    sim.library.edit("dashboard", "120", title="Touched")
    assert sdk.search_dashboards(limit=1)[0].id == "120"
    assert sdk.search_dashboards(limit=1, sorts="id")[0].id == "1"


def test_fields_leave_out_the_rest_and_filters_narrow(sdk, sim):
    [found] = json.loads(_get(sim, "/dashboards/search?limit=1&fields=id,folder(id)"))
    assert set(found) == {"id", "folder"}
    assert set(found["folder"]) == {"id"}
    in_folder = sdk.search_dashboards(folder_id="3")
    assert in_folder
    assert {d.folder_id for d in in_folder} == {"3"}


def test_trash_is_left_out_of_listings_and_found_when_looked_up(sdk, sim):
    sim.library.trash("dashboard", "7")
    assert "7" not in {d.id for d in sdk.search_dashboards(limit=20, sorts="id")}
    assert sdk.dashboard("7").deleted
    assert [d.id for d in sdk.search_dashboards(deleted=True)] == ["7"]


def test_errors_have_looker_s_form(sdk, sim):
    with pytest.raises(SDKError, match="Not found"):
        sdk.dashboard("999999")
    sim.add_fault("error,status=500,type=look,id=7")
    with pytest.raises(SDKError, match="An error has occurred") as failed:
        sdk.look("7")
    assert "/err/4.0/500/" in failed.value.documentation_url


def test_wrong_credentials_are_refused_as_looker_does(sim):
    with pytest.raises(SDKError, match="Not found"):
        looker_sdk.init40(config_settings=Settings(sim.url, "wrong")).all_users()
    assert sim.stats()["logins_refused"] == 1


def test_tokens_end_and_are_taken_back():
    now = [0.0]
    with SimulatedLooker(token_s=60, clock=lambda: now[0]) as sim:
        sdk = looker_sdk.init40(config_settings=Settings(sim.url))
        sdk.all_groups()
        now[0] = 61.0
        with pytest.raises(SDKError, match="Requires authentication"):
            sdk.all_groups()  # the SDK's own clock still holds the token good


def test_what_restore_needs_can_be_made(sdk, sim):
    folder = sdk.create_folder(models.CreateFolder(name="New", parent_id="1"))
    query = sdk.create_query(models.WriteQuery(model="model_1", view="orders"))
    look = sdk.create_look(
        models.WriteLookWithQuery(title="L", folder_id=folder.id, query_id=query.id)
    )
    assert sdk.look(look.id).query.view == "orders"
    board = sdk.create_dashboard(models.WriteDashboard(title="D", folder_id=folder.id))
    sdk.create_dashboard_element(
        models.WriteDashboardElement(dashboard_id=board.id, query_id=query.id)
    )
    assert sdk.dashboard(board.id).dashboard_elements[0].query.view == "orders"
    with pytest.raises(SDKError, match="Validation Failed") as refused:
        sdk.create_dashboard(models.WriteDashboard(title="D", folder_id=folder.id))
    assert refused.value.errors[0].code == "already_exists"
    with pytest.raises(SDKError) as nameless:
        sdk.create_look(models.WriteLookWithQuery(title="M", folder_id="nowhere", query_id="1"))
    assert {error.field for error in nameless.value.errors} == {"folder_id", "query_id"}


def test_groups_and_roles_are_set_through_the_sdk(sdk):
    assert sdk.search_groups_with_hierarchy(id="3")[0].parent_group_ids == ["1"]
    sdk.add_group_group("2", models.GroupIdForGroupInclusion(group_id="3"))
    sdk.delete_group_from_group("1", "3")
    sdk.set_role_groups("2", ["3", "4"])
    assert [group.id for group in sdk.role_groups("2")] == ["3", "4"]
    assert [group.id for group in sdk.all_group_groups("2")] == ["3", "4"]
    found = sdk.search_groups_with_hierarchy(id="3")[0]
    assert (found.parent_group_ids, found.role_ids) == (["2"], ["1", "2"])
    with pytest.raises(SDKError, match="inside of itself"):
        sdk.add_group_group("4", models.GroupIdForGroupInclusion(group_id="2"))
    with pytest.raises(SDKError, match="Not found"):
        sdk.set_role_groups("2", ["99"])


def test_values_of_attributes_go_from_the_user_to_its_groups_to_the_default(sdk, sim):
    made = sdk.create_user_attribute(
        models.WriteUserAttribute(name="region", label="Region", type="string", default_value="any")
    )

    def value():
        found = sdk.user_attribute_user_values("1")
        (one,) = (each for each in found if each.user_attribute_id == made.id)
        return one.value, one.source

    assert value() == ("any", "Default")
    sdk.set_user_attribute_group_values(
        made.id,
        [
            models.UserAttributeGroupValue(group_id="2", value="two"),
            models.UserAttributeGroupValue(group_id="1", value="one"),
        ],
    )
    assert value() == ("one", "Group")  # the user is in group 1 only
    sdk.set_user_attribute_user_value("1", made.id, models.WriteUserAttributeWithValue(value="own"))
    assert value() == ("own", "User")
    sdk.update_user_attribute(made.id, models.WriteUserAttribute(
        name="region", label="Region", type="string", value_is_hidden=True
    ))  # fmt: skip
    assert value() == (None, "User")
    assert [v.value for v in sdk.all_user_attribute_group_values(made.id)] == [None, None]
    sdk.delete_user_attribute_user_value("1", made.id)
    sdk.delete_user_attribute_group_value("2", made.id)
    assert [v.group_id for v in sdk.all_user_attribute_group_values(made.id)] == ["1"]


def test_access_to_folders_is_inherited_until_it_is_the_folder_s_own(sdk):
    metadata = sdk.folder("2").content_metadata_id
    found = sdk.content_metadata(metadata)
    assert (found.folder_id, found.inherits, found.inheriting_id) == ("2", True, "91")
    assert sdk.all_content_metadata_accesses(metadata) == []
    entry = models.ContentMetaGroupUser(
        content_metadata_id=metadata, permission_type=models.PermissionType.edit, user_id="3"
    )
    with pytest.raises(SDKError, match="Validation Failed"):
        sdk.create_content_metadata_access(entry)
    sdk.update_content_metadata(metadata, models.WriteContentMeta(inherits=False))
    (copied,) = sdk.all_content_metadata_accesses(metadata)
    assert (copied.group_id, copied.permission_type) == ("1", models.PermissionType.view)
    made = sdk.create_content_metadata_access(entry)
    sdk.delete_content_metadata_access(copied.id)
    assert [each.id for each in sdk.all_content_metadata_accesses(metadata)] == [made.id]
    sdk.update_content_metadata(metadata, models.WriteContentMeta(inherits=True))
    assert sdk.all_content_metadata_accesses(metadata) == []


def test_alerts_and_connections_parse_into_the_sdk_s_models(sdk):
    assert len(sdk.search_alerts(all_owners=True)) == 3
    alert = sdk.get_alert("1")
    changed = sdk.update_alert("1", models.WriteAlert(
        comparison_type=alert.comparison_type, cron="0 7 * * *", destinations=alert.destinations,
        field=alert.field, owner_id=alert.owner_id, threshold=7.0,
        dashboard_element_id=alert.dashboard_element_id,
    ))  # fmt: skip
    assert (changed.cron, changed.threshold) == ("0 7 * * *", 7.0)
    made = sdk.create_alert(models.WriteAlert(
        comparison_type=alert.comparison_type, cron="0 7 * * *", destinations=alert.destinations,
        field=alert.field, owner_id="2", threshold=0.0, dashboard_element_id="1000",
    ))  # fmt: skip
    sdk.delete_dashboard_element("1000")
    with pytest.raises(SDKError, match="Not found"):
        sdk.get_alert(made.id)
    assert [each.name for each in sdk.all_connections(fields="name")] == [
        "connection_2",
        "warehouse",
    ]
    assert sdk.connection("warehouse", fields="name,host").username is None


def test_the_server_s_own_limit_on_pages_holds():
    with SimulatedLooker(counts={"dashboard": 250}, page_most=40) as sim:
        sdk = looker_sdk.init40(config_settings=Settings(sim.url))
        assert len(sdk.search_dashboards(limit=100)) == 40


def test_changes_happen_while_it_is_read(sdk, sim):
    sim.add_change("remove dashboard:2 after 2")
    for expected in (["1", "2"], ["1", "2"], ["1", "3"]):
        assert [d.id for d in sdk.search_dashboards(limit=2, sorts="id")] == expected


def test_big_bodies_are_as_long_as_asked_and_slow_ones_as_slow():
    with SimulatedLooker(big={"dashboard:3": 2_000_000}, slow={"dashboard:4": 0.3}) as sim:
        sdk = looker_sdk.init40(config_settings=Settings(sim.url))
        sdk.all_groups()
        assert len(sim.library.body("dashboard", "3")) == 2_000_000
        began = time.monotonic()
        sdk.dashboard("5")
        quick = time.monotonic() - began
        sdk.dashboard("4")
        assert time.monotonic() - began - quick >= 0.3


def test_a_child_process_serves_the_same():
    with SimulatedLookerProcess(counts={"dashboard": 5}) as sim:
        sdk = looker_sdk.init40(config_settings=Settings(sim.url))
        assert [d.id for d in sdk.search_dashboards(sorts="id")] == ["1", "2", "3", "4", "5"]
        sim.edit("dashboard", "3", title="Changed")
        assert sdk.dashboard("3").title == "Changed"
        assert sim.stats()["logins"] == 1
        assert sim.library.body("dashboard", "4") == SimulatedLooker(
            counts={"dashboard": 5}
        ).library.body("dashboard", "4")


@pytest.mark.parametrize("text", ["nothing", "error,status=9", "slow,s", "html,between_s=x"])
def test_a_fault_that_does_not_read_is_refused(text):
    with pytest.raises(SpecError):
        parse_looker_fault(text)


def _get(sim, path):
    wire = HTTPConnection("127.0.0.1", sim.port)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    wire.request(
        "POST", "/api/4.0/login", "client_id=headrace&client_secret=simulated-secret", form
    )
    token = json.loads(wire.getresponse().read())["access_token"]
    wire.request("GET", f"/api/4.0{path}", headers={"Authorization": f"Bearer {token}"})
    body = wire.getresponse().read()
    wire.close()
    return body
