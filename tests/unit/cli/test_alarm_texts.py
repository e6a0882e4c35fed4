"""What alarms say, as the Prefect server renders it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace.cli.alarms.catalogue import GAP_FOUND, RUN_FAILED, RUN_PARTIAL, THROTTLED, alarms

TEXTS = {alarm.key: alarm.body for alarm in alarms()}


def rendered(key: str, *, message: str = "", **payload: Any) -> str:
    environment = ImmutableSandboxedEnvironment()
    environment.filters["ui_url"] = lambda _run: "http://ui/run"
    resource = {"prefect.resource.name": "BTC-USD", "prefect.state-message": message}
    event = SimpleNamespace(resource=resource, payload=payload, occurred="today")
    run, flow = SimpleNamespace(name="able-owl"), SimpleNamespace(name="check")
    template = environment.from_string(TEXTS[key])
    return template.render(event=event, flow_run=run, flow=flow)


@pytest.mark.parametrize(
    ("missing", "ranges", "said"),
    [
        (1_680_000, 2, "1,680,000 ids missing in 2 ranges, the first from 1,001 to 1,681,000"),
        (1, 1, "1 id missing in 1 range, the first from 1,001 to 1,681,000"),
        # Of an event that a person has sent.
        ("many", 1, "many ids missing in 1 range, the first from 1,001 to 1,681,000"),
    ],
)
def test_counts_agree_with_their_nouns(missing: object, ranges: int, said: str) -> None:
    facts = {"missing_ids": missing, "ranges": ranges, "from_id": 1_001, "to_id": 1_681_000}
    assert said in rendered(GAP_FOUND, **facts)


def test_an_event_without_its_facts_is_a_message_all_the_same() -> None:
    assert "missing in" in rendered(GAP_FOUND)


def test_one_answer_is_one_answer() -> None:
    assert "after 1 answer 429" in rendered(THROTTLED, percent=50, throttled=1)
    assert "after 1,200 answers 429" in rendered(THROTTLED, percent=50, throttled=1_200)


@pytest.mark.parametrize("key", [RUN_FAILED, RUN_PARTIAL])
@pytest.mark.parametrize(
    ("message", "sentence"), [("too old", " too old. "), ("Is it up?", " Is it up? ")]
)
def test_the_cause_is_a_sentence(key: str, message: str, sentence: str) -> None:
    assert sentence in rendered(key, message=message)


def test_no_run_is_said_to_be_completed_by_the_next_one() -> None:
    """It is untrue of an audit and of a check."""
    assert "next run" not in rendered(RUN_PARTIAL, message="1 breach")


def test_no_text_has_a_noun_in_two_forms() -> None:
    assert [text for text in TEXTS.values() if "(s)" in text] == []
