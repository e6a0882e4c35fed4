"""One line per event, whatever is in it; run, product and chunk in each."""

import io
import json
import logging
import sys
import threading
from contextvars import copy_context

import pytest

from headrace.logs import HumanFormatter, JsonFormatter, about, about_now, run_everywhere, written
from headrace.settings import Settings

log = logging.getLogger("headrace.tests")


@pytest.fixture
def lines(monkeypatch):
    """What is written by `written` with these settings, line by line."""

    def collect(work, **settings):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with written(Settings(**settings)):
            work()
        return stream.getvalue().splitlines()

    return collect


def test_json_has_every_field_in_every_line(lines):
    def work():
        log.info("outside")
        with about(run="r1"), about(product="BTC-USD", chunk="1-128000"):
            log.warning("inside %s", 7)

    first, second = map(json.loads, lines(work, log_format="json"))
    assert (first["run"], first["product"], first["chunk"]) == (None, None, None)
    assert (second["run"], second["product"], second["chunk"]) == ("r1", "BTC-USD", "1-128000")
    assert (second["level"], second["message"]) == ("warning", "inside 7")
    assert second["logger"] == "headrace.tests"
    assert second["time"].endswith("+00:00")


def test_facts_stand_beside_but_never_in_the_place_of_a_field(lines):
    def work():
        facts = {"rows": 5, "product": "ETH-USD", "level": "x", "spans": [[1, 2]], "none": None}
        log.info("stored", extra={"event": "chunk-stored", "facts": facts})

    [line] = map(json.loads, lines(work, log_format="json"))
    assert (line["event"], line["rows"], line["spans"]) == ("chunk-stored", 5, [[1, 2]])
    assert (line["product"], line["level"]) == ("ETH-USD", "info")
    assert "none" not in line


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\u2028b", "\x00", "é 中 🏞"])
@pytest.mark.parametrize("form", ["json", "human"])
def test_whatever_is_said_is_one_line(lines, text, form):
    written_lines = lines(lambda: log.warning("said %s", text), log_format=form)

    assert len(written_lines) == 1
    assert "\x1b" not in written_lines[0]


def test_an_exception_is_one_line_too(lines):
    def work():
        try:
            raise ValueError("first\nsecond")
        except ValueError:
            log.exception("it failed")

    [human] = lines(work)
    assert human.endswith(r"it failed (ValueError: first\nsecond)")
    [line] = map(json.loads, lines(work, log_format="json"))
    assert line["message"] == "it failed"
    assert "test_formats.py" in line["traceback"]


def test_a_body_that_found_its_way_into_a_message_is_cut(lines):
    for form in ("human", "json"):
        [line] = lines(lambda: log.warning("body: %s", "x" * 1_000_000), log_format=form)
        assert len(line) < 3_000
        assert "more characters" in line


def test_people_see_warnings_unless_they_ask_for_more_and_machines_see_info(lines):
    def work():
        log.debug("d")
        log.info("i")
        log.warning("w")

    assert len(lines(work)) == 1
    assert len(lines(work, log_format="json")) == 2
    assert len(lines(work, log_level="debug")) == 3
    assert len(lines(work, log_level="error", log_format="json")) == 0


def test_a_human_line_says_when_what_and_about_what():
    record = logging.LogRecord("headrace.x", logging.WARNING, __file__, 1, "gone", None, None)
    record.created = 0.0
    with about(run="r1", product="BTC-USD"):
        line = HumanFormatter().format(record)

    assert line == "1970-01-01T00:00:00Z WARNING run=r1 product=BTC-USD gone"


def test_writing_ends_with_its_block_and_leaves_the_loggers_as_they_were(lines):
    root = logging.getLogger("headrace")
    before = (list(root.handlers), root.level)

    assert len(lines(lambda: log.warning("w"))) == 1
    assert (list(root.handlers), root.level) == before


def test_a_block_within_another_writes_nothing_twice(lines):
    def work():
        with written(Settings()):
            log.warning("once")

    assert len(lines(work)) == 1


def test_context_follows_a_copied_context_and_a_lone_run_the_bare_threads():
    seen = {}

    def look(name):
        seen[name] = about_now()

    with run_everywhere("r1"), about(product="BTC-USD"):
        copied = threading.Thread(target=copy_context().run, args=(look, "copied"))
        bare = threading.Thread(target=look, args=("bare",))
        with run_everywhere("r2"):
            torn = threading.Thread(target=look, args=("torn",))
            torn.start()
            torn.join()
        for thread in (copied, bare):
            thread.start()
            thread.join()

    assert seen["copied"] == {"run": "r1", "product": "BTC-USD"}
    assert seen["bare"] == {"run": "r1"}
    assert seen["torn"] == {}  # of two runs: which of them wrote it is unknown
    assert about_now() == {}


def test_a_value_that_json_does_not_know_is_written_as_text():
    record = logging.LogRecord("headrace.x", logging.INFO, __file__, 1, "m", None, None)
    record.facts = {"path": io.StringIO, "moment": {1, 2}}

    line = json.loads(JsonFormatter().format(record))
    assert "StringIO" in line["path"]
