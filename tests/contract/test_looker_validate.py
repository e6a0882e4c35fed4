"""Broken content of a simulated Looker: what its validation says, and what queries show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from looker_sdk.sdk.api40 import models
from support.restores import SMALL, client_of

from headrace.looker.client import AccessRefused
from headrace.looker.validate.report import Broken
from headrace.looker.validate.validator import Queries, run_query, validation
from headrace.quota import OutageError
from headrace.sim.looker import SimulatedLooker
from headrace.stopping import StopEvent

_FIELD = "gone.count"


@pytest.fixture
def sim() -> Iterator[SimulatedLooker]:
    """One look and one merged tile name a field that all others do not."""
    with SimulatedLooker(counts={**SMALL, "merge_query": 1}, seed=1) as sim:
        look = json.loads(sim.library.body("look", "2") or b"")
        fields = [*look["query"]["fields"], _FIELD]
        sim.library.edit("look", "2", query={**look["query"], "fields": fields})
        yield sim


def test_what_looker_says_of_its_content(sim: SimulatedLooker, tmp_path: Path) -> None:
    with client_of(sim, tmp_path) as client:
        totals, broken = validation(client)
        assert broken == []
        assert (totals["looks"], totals["tiles"] > 6) == (4, True)
        sim.library.unknown_fields = {_FIELD, "users.count"}
        _, broken = validation(client)
        body = json.loads(sim.library.body("look", "2") or b"")
        said = f'Unknown field "{_FIELD}".'
        look = Broken(
            "look", "2", said, body["title"], "", body["folder"]["name"], "model_1", "explore_1",
            _FIELD,
        )  # fmt: skip
        assert look in broken
        merged = [each for each in broken if each.part == "Merged 1"]
        assert [(m.type, m.id, m.field) for m in merged] == [("dashboard", "1", "users.count")]
        _, elsewhere = validation(client, ["999"])
        assert elsewhere == []
        # What the simulator answers is what the SDK's model reads.
        answer = client.sdk.content_validation()
        assert set(json.loads(answer)) <= {
            field.name for field in models.ContentValidation.__attrs_attrs__
        }


def test_queries_are_run_once_each_and_say_what_the_validation_does_not(
    sim: SimulatedLooker, tmp_path: Path
) -> None:
    sim.library.failing_fields = {_FIELD, "users.count"}
    with client_of(sim, tmp_path) as client:
        assert validation(client)[1] == []
        queries = Queries(client, (), StopEvent()).all()
        assert len({query.path for query in queries}) == len(queries)
        outcomes = [run_query(client, query, row_limit=1) for query in queries]
        broken = {(b.type, b.id, b.part, b.found_by) for o in outcomes for b in o.broken}
        assert {("look", "2", "", "query"), ("dashboard", "1", "Merged 1", "query")} <= broken
        assert all("users.count" in b.message for o in outcomes for b in o.broken if b.part)
        assert not any(outcome.unsure for outcome in outcomes)
        asked = [a.target for a in sim.arrivals() if "/run/json" in a.target]
        assert all("limit=1" in path and "cache=false" in path for path in asked)
        folder = json.loads(sim.library.body("look", "2") or b"")["folder_id"]
        fewer = Queries(client, (folder,), StopEvent()).all()
        assert 0 < len(fewer) < len(queries)


def test_a_refusal_is_broken_content_and_a_fault_of_the_server_is_not(
    sim: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(sim, tmp_path) as client:
        (first, second, *_) = Queries(client, (), StopEvent()).all()
        first.path, second.path = "/queries/1234/run/json", "/queries/5678/run/json"
        assert "Not found" in run_query(client, first, row_limit=1).broken[0].message
        sim.add_fault("error,status=403,type=queries")
        outcome = run_query(client, second, row_limit=1)
        assert outcome.broken == []
        assert "403" in outcome.unsure


def test_an_outage_ends_it_and_is_no_finding(sim: SimulatedLooker, tmp_path: Path) -> None:
    with client_of(sim, tmp_path) as client:
        (first, *_) = Queries(client, (), StopEvent()).all()

    class Away:
        def ask(self, *_: object) -> bytes:
            raise OutageError("looker", 5.0, 5.0)

    with pytest.raises(OutageError):
        run_query(Away(), first, row_limit=1)


def test_a_merged_query_that_is_gone_breaks_its_tile_alone(
    sim: SimulatedLooker, tmp_path: Path
) -> None:
    with client_of(sim, tmp_path) as client:
        before = Queries(client, (), StopEvent())
        merged_and_others = len(before.all())
        sim.add_fault("error,status=404,type=merge_query")
        queries = Queries(client, (), StopEvent())
        others = queries.all()
        assert 0 < len(others) < merged_and_others
        assert before.broken == []
        assert [(b.type, b.id, b.part) for b in queries.broken] == [("dashboard", "1", "Merged 1")]


def test_a_caller_without_the_permission_to_validate_gets_an_error(
    sim: SimulatedLooker, tmp_path: Path
) -> None:
    sim.add_fault("error,status=403,type=content_validation")
    with client_of(sim, tmp_path) as client, pytest.raises(AccessRefused):
        validation(client)
