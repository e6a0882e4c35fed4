"""The simulated Looker's content without its sockets: by function, changed, trashed, removed."""

import json

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.sim import SpecError
from headrace.sim.looker import Library, LookerSettings, parse_change
from headrace.sim.looker.library import LOOSE_KINDS
from headrace.sim.looker.settings import DEFAULT_COUNTS


def library(**fields):
    return Library(LookerSettings.of(**fields))


def test_every_kind_is_json_with_its_own_id_and_the_same_in_every_process():
    first, second = library(), library()
    for kind in DEFAULT_COUNTS.keys() - LOOSE_KINDS.keys():
        for item_id in first.ids(kind):
            body = first.body(kind, item_id)
            assert body == second.body(kind, item_id)
            item = json.loads(body)
            assert item_id == item.get("id", item.get("name"))
    assert library(seed=1).body("dashboard", "3") != first.body("dashboard", "3")


@pytest.mark.parametrize("size_bytes", [1_500, 4_000, 11_000, 100_000])
def test_dashboards_are_about_as_long_as_asked(size_bytes):
    made = library(dashboard_bytes=size_bytes)
    assert len(made.body("dashboard", "17")) == pytest.approx(size_bytes, rel=0.25)


def test_a_big_body_is_as_long_as_asked_to_the_byte():
    made = library(big={"dashboard:17": 1_000_000})
    assert len(made.body("dashboard", "17")) == 1_000_000
    json.loads(made.body("dashboard", "17"))


def test_what_is_trashed_or_removed_leaves_the_listing():
    made = library(counts={"dashboard": 5})
    made.trash("dashboard", "2")
    made.remove("dashboard", "3")
    assert made.ids("dashboard") == ["1", "4", "5"]
    assert made.page("dashboard", 1, 2) == ["4", "5"]
    assert made.ids("dashboard", trash=True) == ["2"]
    assert json.loads(made.body("dashboard", "2"))["deleted"] is True
    assert made.body("dashboard", "3") is None
    assert not made.remove("dashboard", "3")
    made.restore("dashboard", "2")
    assert made.ids("dashboard") == ["1", "2", "4", "5"]


def test_filters_follow_changes():
    made = library(counts={"dashboard": 20})
    where = (("folder_id", "3"),)
    before = made.page("dashboard", 0, None, where=where)
    outside = next(i for i in made.ids("dashboard") if i not in before)
    made.edit("dashboard", outside, folder_id="3")
    assert set(made.page("dashboard", 0, None, where=where)) == {*before, outside}


@pytest.mark.parametrize("text", ["", "burn dashboard:7 after 3", "remove dashboard:7", "x"])
def test_a_change_that_does_not_read_is_refused(text):
    with pytest.raises(SpecError):
        parse_change(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--count", "dash=5"], "no kind 'dash'"),
        (["--count", "dashboard"], "not NAME=NUMBER"),
        (["--big", "dashboard=5"], "not TYPE:ID"),
        (["--fault", "nothing"], "no kind 'nothing'"),
        (["--change", "burn"], "remove dashboard:7 after 3"),
    ],
)
def test_the_command_names_what_it_cannot_use(arguments, said):
    result = CliRunner().invoke(app, ["sim", "looker", *arguments])
    assert said in str(result.exception)
