"""A run under a Prefect profile that sets everything otherwise is the same run."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest
from support.places import local_place
from support.processes import Headrace
from support.profiles import OTHER_SETTINGS, write_profile
from support.reverse_proxy import without_websockets

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


@pytest.mark.long
@pytest.mark.parametrize("answer", [404, None])
def test_a_server_without_websockets_is_named_once_and_every_line_is_json(
    tmp_path, headrace_home, prefect_api, answer
):
    port = urlsplit(prefect_api.api_url).port
    with (
        SimulatedExchange("BTC-USD:3000", seed=4) as sim,
        without_websockets(port, answer=answer) as proxy,
    ):
        cli = Headrace(headrace_home, sim, local_place(tmp_path))
        done = cli.run(
            PREFECT_API_URL=f"http://127.0.0.1:{proxy}/api",
            HEADRACE_LOG_FORMAT="json",
            PYTHONWARNINGS="default",
        )
    assert (done.code, done.product["new_rows"]) == (0, 3000)
    lines = [json.loads(line) for line in done.errors.splitlines()]
    bad = [line["message"] for line in lines if line["level"] not in ("info", "debug")]
    assert len([words for words in bad if "takes no events" in words]) == 1, bad
    assert not [words for words in bad if "EventsWorker" in words]
