"""A run under a Prefect profile that sets everything otherwise is the same run."""

from __future__ import annotations

import pytest
from support.places import local_place
from support.processes import Headrace
from support.profiles import OTHER_SETTINGS, write_profile

from headrace.sim import Fault, Respond, SimulatedExchange

pytestmark = pytest.mark.flows


def test_a_refused_page_is_asked_once_and_the_summary_is_that_of_the_run(tmp_path, headrace_home):
    profile = write_profile(tmp_path / "profiles.toml", OTHER_SETTINGS)
    with SimulatedExchange("BTC-USD:9000", seed=4) as sim:
        sim.add_fault(Fault(action=Respond(status=400), cursor=4001))
        cli = Headrace(headrace_home, sim, local_place(tmp_path))
        done = cli.run(PREFECT_PROFILES_PATH=str(profile))
        asked = [arrival.subject.cursor for arrival in sim.arrivals()]
    assert done.code == 4, done.errors
    assert asked.count(4001) == 1
    assert len(asked) == len(set(asked)) == done.summary["requests"]
    assert (done.product["new_rows"], done.product["missing"]) == (8000, [[3001, 4000]])
