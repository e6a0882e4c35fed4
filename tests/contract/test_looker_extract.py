"""Extraction from a simulated Looker into a vault: complete, resumable, failures named."""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.looker import QUICK, assert_vault_equals, extract
from support.looker_bodies import WRITTEN

from headrace.errors import ConfigurationError
from headrace.looker.content_types import TYPES
from headrace.looker.exceptions import UnknownFolder
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.vault import Status as Ended
from headrace.looker.vault import Vault
from headrace.run.report import Status
from headrace.sim.looker import SimulatedLooker
from headrace.stopping import StopEvent

ONE = {"types": "dashboard", "workers": 4}


@pytest.fixture
def vault(tmp_path):
    return tmp_path / "looker.sqlite"


@pytest.fixture
def sim():
    with SimulatedLooker(counts={"dashboard": 950, "look": 30}) as running:
        yield running


def asked(sim, ask="list"):
    return [a for a in sim.arrivals() if a.subject.ask == ask and a.status == 200]


def test_all_types_come_as_the_server_sent_them(sim, vault):
    done = extract(sim.url, vault)
    assert done.status is Status.DONE
    assert set(done.receipts) == set(TYPES)
    assert_vault_equals(sim.library, vault)
    assert done["dashboard"].new == 953
    assert done["look"].new == 30
    # A request per page, one that proves the end, one per item that no listing holds whole.
    assert done["dashboard"].requests == 10 + 1 + 1 + 1
    assert done["look"].requests == 1 + 1 + 30


def test_a_second_run_finds_nothing_new_and_keeps_every_version_as_it_is(sim, vault):
    extract(sim.url, vault)
    done = extract(sim.url, vault)
    assert not done.resumed
    assert {(r.new, r.changed, r.deleted) for r in done.receipts.values()} == {(0, 0, 0)}
    with Vault.open(vault) as held:
        assert len(held.contents.history("dashboard", "7")) == 1


def test_what_changed_between_runs_is_a_new_version_and_what_is_gone_is_proven_gone(sim, vault):
    extract(sim.url, vault)
    sim.library.trash("dashboard", "7")
    sim.library.remove("dashboard", "9")
    sim.library.edit("dashboard", "11", title="Renamed")
    sim.library.edit("look", "3", folder_id="4")
    sim.library.create("board", {"title": "New", "board_sections": []})
    done = extract(sim.url, vault)
    assert done.status is Status.DONE
    assert_vault_equals(sim.library, vault)
    assert (done["dashboard"].changed, done["dashboard"].deleted) == (2, 2)
    assert done["board"].new == 1
    with Vault.open(vault) as held:
        assert held.contents.row("dashboard", "7").deletion == "trashed"
        assert held.contents.row("dashboard", "9").deletion == "gone"
        assert held.contents.row("dashboard", "11").name == "Renamed"
        assert len(held.contents.history("dashboard", "11")) == 2
        assert held.contents.body("dashboard", "9").body  # what was there is kept


def test_a_listing_that_fails_half_way_marks_nothing_as_deleted(sim, vault):
    extract(sim.url, vault, **ONE)
    sim.library.remove("dashboard", "5")
    sim.add_fault("error,status=500,ask=list,type=dashboard,offset=200")
    done = extract(sim.url, vault, **ONE)
    assert done.status is Status.PARTIAL
    assert done["dashboard"].deleted == 0
    with Vault.open(vault) as held:
        assert held.contents.row("dashboard", "5").deletion is None


@pytest.mark.parametrize("fault", ["error,status=500", "html,status=502", "reset"])
def test_two_failed_ranges_are_named_and_the_next_run_fetches_only_those(sim, vault, fault):
    for offset in (200, 700):
        sim.add_fault(f"{fault},ask=list,type=dashboard,offset={offset}")
    done = extract(sim.url, vault, **ONE)
    assert done.status is Status.PARTIAL
    assert done["dashboard"].missing == ("dashboards:200+101", "dashboards:700+101")
    with Vault.open(vault) as held:
        assert [f.key for f in held.failures.open()] == list(done["dashboard"].missing)
        assert held.sessions.get(done.session).status is Ended.PARTIAL
    sim.clear_faults()
    sim.reset_log()
    again = extract(sim.url, vault, **ONE)
    assert again.resumed
    assert again.status is Status.DONE
    # The two ranges, and what proves the end.
    assert sorted(a.subject.offset for a in asked(sim)) == [200, 700, 949]
    assert_vault_equals(sim.library, vault, ["dashboard"], sample=2000)
    with Vault.open(vault) as held:
        assert held.failures.open() == []


def test_items_that_answer_403_404_or_500_cost_only_themselves(sim, vault):
    for item_id, status in (("2", 404), ("3", 404), ("4", 404), ("5", 403), ("6", 403), ("7", 500)):
        sim.add_fault(f"error,status={status},ask=item,type=look,id={item_id}")
    done = extract(sim.url, vault, types="look")
    assert done.status is Status.PARTIAL
    assert done["look"].new == 24
    assert len(done["look"].failures) == 6
    with Vault.open(vault) as held:
        failures = {f.key: f.status for f in held.failures.open()}
    assert failures == {"2": 404, "3": 404, "4": 404, "5": 403, "6": 403, "7": 500}
    sim.reset_log()
    again = extract(sim.url, vault, types="look")
    assert again.resumed
    assert {a.subject.id for a in sim.arrivals() if a.subject.ask == "item"} == set(failures)
    sim.clear_faults()
    third = extract(sim.url, vault, types="look")
    assert not third.resumed  # gone on with once: now everything is looked at again
    assert third.status is Status.DONE
    assert_vault_equals(sim.library, vault, ["look"])


def test_one_bad_dashboard_on_a_page_of_bodies_costs_only_itself(sim, vault):
    sim.add_fault("error,status=500,ask=item,type=dashboard,id=150")
    for offset in (100,):  # the page that holds it fails as a whole, its names do not
        sim.add_fault(f"error,status=500,ask=list,type=dashboard,offset={offset},calls=3")
    done = extract(sim.url, vault, **ONE)
    assert done["dashboard"].failures == ("150 (500)",)
    assert done["dashboard"].missing == ()
    assert done["dashboard"].new == 952


@pytest.mark.parametrize("after", [3, 5, 8])
def test_a_list_that_shifts_while_it_is_read_loses_nothing(vault, after):
    changes = [f"remove dashboard:{n} after {after + n}" for n in (1, 2, 3)]
    changes.append(f"create dashboard after {after}")
    with SimulatedLooker(counts={"dashboard": 950}, changes=changes) as sim:
        done = extract(sim.url, vault, types="dashboard", workers=2)
        assert done.status is Status.DONE
        with Vault.open(vault) as held:
            ids = {row.id for row in held.contents.rows("dashboard")}
        assert ids >= {str(n) for n in range(4, 951)}
        assert ids >= {f"model_1::dashboard_{n}" for n in (1, 2, 3)}


@pytest.mark.parametrize("most", [7, 40, 100, 101])
def test_a_server_that_gives_less_than_it_is_asked_for_is_read_to_the_end(vault, most):
    with SimulatedLooker(counts={"dashboard": 95, "user": 0}, page_most=most) as sim:
        done = extract(sim.url, vault, types="dashboard,user")
        assert done.status is Status.DONE
        assert_vault_equals(sim.library, vault, ["dashboard", "user"])


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200, 201])
def test_every_count_around_a_page_is_read_whole(vault, count):
    with SimulatedLooker(counts={"dashboard": count}) as sim:
        assert extract(sim.url, vault, types="dashboard").status is Status.DONE
        assert_vault_equals(sim.library, vault, ["dashboard"])


def test_an_incremental_run_fetches_what_changed_and_leaves_the_rest(sim, vault):
    extract(sim.url, vault, types="dashboard,look")
    sim.library.edit("dashboard", "11", title="Renamed")
    sim.library.edit("look", "3", title="Renamed")
    sim.library.remove("look", "8")
    sim.library.create("dashboard", {"title": "New", "folder_id": "1"})
    sim.reset_log()
    done = extract(sim.url, vault, types="dashboard,look", incremental=True)
    assert done.status is Status.DONE
    assert_vault_equals(sim.library, vault, ["dashboard", "look"], sample=2000)
    items = [(a.subject.type, a.subject.id) for a in sim.arrivals() if a.subject.ask == "item"]
    assert sorted(items) == [
        ("dashboard", "11"),
        ("dashboard", "951"),
        ("look", "3"),
        ("look", "8"),
    ]
    assert done["look"].deleted == 1
    assert done["dashboard"].deleted == 0


def test_an_incremental_run_deletes_nothing_that_is_unchanged(sim, vault):
    extract(sim.url, vault)
    done = extract(sim.url, vault, incremental=True)
    assert sum(receipt.deleted for receipt in done.receipts.values()) == 0
    assert_vault_equals(sim.library, vault)


def test_where_much_has_changed_an_incremental_run_reads_whole_pages(sim, vault):
    extract(sim.url, vault, **ONE)
    for number in range(1, 200):
        sim.library.edit("dashboard", str(number), title=f"Renamed {number}")
    sim.reset_log()
    done = extract(sim.url, vault, incremental=True, **ONE)
    assert done["dashboard"].changed == 199
    assert not [a for a in sim.arrivals() if a.subject.ask == "item"]


def test_folders_narrow_dashboards_and_looks_and_delete_nothing(sim, vault):
    extract(sim.url, vault)
    sim.library.remove("dashboard", "950")
    done = extract(sim.url, vault, folder_ids="2", recursive=True)
    assert set(done.receipts) == {"folder", "look", "dashboard", "merge_query", "query"}
    assert done.status is Status.DONE
    # Folders make a binary tree: below 2 are 4, 5 and 8.
    assert done["folder"].unchanged == 4
    wanted = {"2", "4", "5", "8"}
    bodies = sim.library.content("dashboard").values()
    expected = sum(json.loads(body).get("folder_id") in wanted for body in bodies)
    assert done["dashboard"].unchanged == expected
    assert done["dashboard"].deleted == 0
    with pytest.raises(UnknownFolder, match="no folder 'nowhere'"):
        extract(sim.url, vault, folder_ids="nowhere")


def test_strange_text_is_kept_to_the_byte_and_costs_no_neighbour(vault):
    titles = [
        "\\ud83d",
        "a\\u0000b",
        "\U0001f600",
        "\u202eright",
        "x" * 70_000,
        '\\"\\\\',
        "../../x",
    ]
    with SimulatedLooker(counts={"dashboard": 100, "folder": 3}) as sim:
        for number, title in enumerate(titles, start=1):
            body = f'{{"id":"{number}", "title":"{title}" ,"new":1e2}}'
            sim.library.put("dashboard", str(number), body.encode())
        sim.library.put("dashboard", "50", b'{"id":"50","title":"\xff\xfe not utf-8"}')
        sim.library.put("folder", "2", b'{"id":2,"name":"../../x","parent_id":null}')
        done = extract(sim.url, vault, types="dashboard,folder")
        # JSON is UTF-8: what is not is named by its place.
        assert done["dashboard"].failures == ("dashboards:49",)
        sim.library.remove("dashboard", "50")
        assert_vault_equals(sim.library, vault, ["dashboard", "folder"])


def test_an_element_without_an_id_is_an_error_and_no_row(vault):
    with SimulatedLooker(counts={"dashboard": 20}) as sim:
        sim.library.put("dashboard", "5", b'{"id":null,"title":"lost"}')
        sim.library.put("dashboard", "6", b'{"id":6,"title":"a number"}')
        done = extract(sim.url, vault, types="dashboard")
        assert done.status is Status.PARTIAL
        assert done["dashboard"].failures == ("dashboards:4",)
        with Vault.open(vault) as held:
            assert held.contents.row("dashboard", "6").name == "a number"
            assert len(list(held.contents.rows("dashboard"))) == 19 + 3


@pytest.mark.parametrize("body", ["null", "{}", "", "[1, 2", '{"message": "no"}'])
def test_a_listing_that_is_no_list_is_an_error(vault, body):
    from headrace.sim.looker import LookerFault

    with SimulatedLooker() as sim:
        action = {"kind": "respond", "status": 200, "body": body}
        sim.add_fault(LookerFault.model_validate({"action": action, "type": "board"}))
        done = extract(sim.url, vault, types="board,group")
    assert done["board"].status is Status.FAILED
    assert done["board"].missing == ("boards",)
    assert done["group"].status is Status.DONE


@pytest.mark.parametrize("body", ["[]", "null", '{"id": "999"}'])
def test_a_single_item_that_is_another_or_none_is_a_failure(vault, body):
    from headrace.sim.looker import LookerFault

    with SimulatedLooker() as sim:
        action = {"kind": "respond", "status": 200, "body": body}
        fault = {"action": action, "type": "look", "id": "4", "ask": "item"}
        sim.add_fault(LookerFault.model_validate(fault))
        done = extract(sim.url, vault, types="look")
    assert done["look"].failures == ("4",)
    assert done["look"].new == 11


def test_one_huge_dashboard_and_one_slow_one_cost_only_the_slow_one(vault):
    """Scaled down: the slow one takes longer than a request may, and the huge one far less."""
    once = replace(QUICK, timeout_attempts=1)
    slow = {"dashboard:18": 60.0}
    with SimulatedLooker(
        counts={"dashboard": 60}, big={"dashboard:17": 8_000_000}, slow=slow
    ) as sim:
        done = extract(
            sim.url, vault, types="dashboard", workers=10, total_s=1.5, batch_size=20, policy=once
        )
        assert done["dashboard"].failures == ("18",)
        assert done["dashboard"].new == 62
        sim.settings.slow.clear()
        again = extract(sim.url, vault, types="dashboard", workers=10, total_s=20.0, batch_size=20)
        assert again.resumed
        assert again.status is Status.DONE
        assert_vault_equals(sim.library, vault, ["dashboard"])


def test_fifty_workers_and_huge_bodies_stay_within_memory(vault):
    before = _peak_mb()
    with SimulatedLooker(
        counts={"look": 40}, big={f"look:{n}": 5_000_000 for n in range(1, 41)}
    ) as sim:
        done = extract(sim.url, vault, types="look", workers=10)
    assert done.status is Status.DONE
    # 200 MB went through; the server's own copies are in this process, too.
    assert _peak_mb() - before < 350


def test_a_stop_ends_soon_keeps_what_came_and_the_next_run_goes_on(vault):
    with SimulatedLooker(counts={"dashboard": 3000}, latency="constant:s=0.05") as sim:
        stop = StopEvent()

        def stop_after_ten_requests():
            while sim.stats()["requests"] < 10:
                time.sleep(0.005)
            stop.set()

        stopping = threading.Thread(target=stop_after_ten_requests)
        stopping.start()
        done = extract(sim.url, vault, stop=stop, **ONE)
        stopping.join()
        assert done.status is not Status.DONE
        kept = len(asked(sim))
        assert kept > 2
        sim.reset_log()
        again = extract(sim.url, vault, **ONE)
        assert again.resumed
        assert again.status is Status.DONE
        # 30 pages, two proofs of an end, one page of LookML; what was in flight comes again.
        assert len(asked(sim)) <= 34 - kept + 2 * 4
        assert_vault_equals(sim.library, vault, ["dashboard"])


def test_an_unfinished_session_is_left_for_another_request_or_on_request(sim, vault):
    sim.add_fault("error,status=500,ask=list,type=dashboard,offset=200")
    first = extract(sim.url, vault, **ONE)
    assert extract(sim.url, vault, types="group").session > first.session
    sim.clear_faults()
    assert not extract(sim.url, vault, **ONE).resumed
    sim.add_fault("error,status=500,ask=list,type=dashboard,offset=200")
    second = extract(sim.url, vault, **ONE)
    assert not extract(sim.url, vault, full=True, **ONE).resumed
    third = extract(sim.url, vault, resume=False, **ONE)
    assert third.session > second.session
    assert not third.resumed


def test_bodies_pass_byte_for_byte_however_they_are_written(vault):
    with SimulatedLooker(counts={"dashboard": 20, "user": 3, "look": 3}) as sim:
        for written in WRITTEN:
            sim.library.put(written.type, written.id, written.raw.strip())
        done = extract(sim.url, vault, types="dashboard,user,look")
        assert done.status is Status.DONE
        assert_vault_equals(sim.library, vault, ["dashboard", "user"])
        with Vault.open(vault) as held:
            for written in WRITTEN:
                kept = held.contents.body(written.type, written.id).body
                assert kept == written.raw.strip(), written.id


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"types": "dashes"}, "no content type 'dashes'"),
        ({"workers": 51}, "workers: .*50.*51"),
        ({"workers": 0}, "workers"),
        ({"batch_size": 0}, "batch_size"),
        ({"rate": "5/x"}, "rate"),
        ({"recursive": True}, "recursive needs folder_ids"),
        ({"full": True, "incremental": True}, "exclude each other"),
        ({"base_url": "ftp://x"}, "base_url"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(fields, said):
    with pytest.raises(ConfigurationError, match=said) as refused:
        ExtractRequest.checked(**{"vault": "v", **fields})
    assert "\n" not in str(refused.value)


def test_types_are_taken_in_any_form():
    request = ExtractRequest.checked(vault="v", types=["dashboards", "look,users"])
    assert request.chosen == ("user", "look", "dashboard")


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_dashboard_of_25_mb_and_one_that_takes_130_s_come_with_ten_workers(vault):
    slow, big = {"dashboard:18": 130.0}, {"dashboard:517": 25_000_000}
    with SimulatedLooker(counts={"dashboard": 1000}, big=big, slow=slow) as sim:
        done = extract(sim.url, vault, types="dashboard", workers=10, total_s=180.0)
        assert done.status is Status.DONE
        assert_vault_equals(sim.library, vault, ["dashboard"], sample=2000)


def test_a_server_that_cuts_pages_as_it_likes_is_read_to_the_end(vault, monkeypatch):
    """It may filter after it has cut the page: a short one is never taken for the end."""
    with SimulatedLooker(counts={"dashboard": 200}) as sim:
        whole = sim.library.page

        def cut(kind, start, size, **more):
            return whole(kind, start, size, **more)[: 3 + start % 2]

        monkeypatch.setattr(sim.library, "page", cut)
        done = extract(sim.url, vault, types="dashboard")
        assert done.status is Status.DONE
        assert_vault_equals(sim.library, vault, ["dashboard"], sample=2000)


@pytest.fixture
def patience() -> Iterator[StopEvent]:
    """Ends an extraction that would not end by itself."""
    stop = StopEvent()
    timer = threading.Timer(40.0, stop.set)
    timer.start()
    yield stop
    timer.cancel()


@pytest.mark.parametrize("fault", ["html,status=404", "html,status=502", "refuse"])
def test_a_looker_that_goes_away_for_good_ends_the_run_and_not_range_after_range(
    sim, vault, fault, patience, caplog
):
    arrived = threading.Event()
    went = threading.Thread(target=_add_after, args=(sim, fault, 6, arrived))
    went.start()
    fields = {"types": ["dashboard", "board"], "batch_size": 10, "outage_limit_s": 1.0}
    done = extract(sim.url, vault, stop=patience, **fields)
    went.join()
    assert arrived.is_set()
    assert not patience.is_set()
    assert "longer than the outage limit of 1 s" in done.outage
    assert {receipt.error for receipt in done.receipts.values()} == {done.outage}
    assert caplog.messages.count(f"the run ends: {done.outage}") == 1
    assert done.status is Status.PARTIAL
    with Vault.open(vault) as held:
        # An outage is no range's fault: none is written down as one that cannot be had.
        assert len(held.failures.open()) <= 2
        kept = held.contents.counts()["dashboard"][0]
        assert kept >= 10
        assert held.sessions.get(done.session).status is Ended.INTERRUPTED
    sim.clear_faults()
    again = extract(sim.url, vault, **{**fields, "outage_limit_s": 60.0})
    assert again.resumed
    assert again.status is Status.DONE
    assert_vault_equals(sim.library, vault, fields["types"], sample=2000)


def _add_after(sim, fault, requests, arrived) -> None:
    while sim.stats()["requests"] < requests:
        time.sleep(0.001)
    sim.add_fault(fault)
    arrived.set()


def test_where_no_page_behind_some_place_can_be_had_the_run_ends(sim, vault, patience):
    """Without a page that shows the end there would always be one more to ask for."""
    sim.add_fault("error,status=403,ask=list,type=dashboard,from_call=4")
    done = extract(sim.url, vault, stop=patience, types="dashboard", batch_size=10, workers=2)
    assert not patience.is_set()
    assert done.status is Status.PARTIAL
    assert "dashboards: its end" in done["dashboard"].missing
    assert 20 <= len(done["dashboard"].missing) <= 60
    sim.clear_faults()
    assert extract(sim.url, vault, types="dashboard", batch_size=10).status is Status.DONE
    assert_vault_equals(sim.library, vault, ["dashboard"], sample=2000)
