"""The state in which Prefect keeps the end of a run."""

from __future__ import annotations

import logging

import pytest
from prefect.states import get_state_exception

from headrace.errors import HeadraceError
from headrace.run.report import Status
from tasks.kernel import state_of
from tests.unit.pull.test_receipts import receipt, summary


def test_the_message_of_a_failed_run_says_why() -> None:
    state = state_of(summary(receipt(status=Status.FAILED, error="another history")))
    assert "failed" in state.message
    assert state.message.endswith("another history")
    assert state_of(summary(receipt())).message == summary(receipt()).headline()


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.engine"])
def test_the_engine_does_not_show_a_traceback_of_a_run_that_has_reported(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger(name)
    failed = state_of(summary(receipt(status=Status.FAILED)))
    monitored = caplog.handler
    logger.addHandler(monitored)
    try:
        with pytest.raises(TypeError) as raised:
            get_state_exception(failed)
        foreseen = HeadraceError("no answer", hint="Is the network up?")
        for error in (raised.value, foreseen, TypeError("a mistake in a flow")):
            try:
                raise error
            except (TypeError, HeadraceError):
                logger.exception("exited with unexpected exception")
    finally:
        logger.removeHandler(monitored)
    shown = {str(record.exc_info[1]) for record in caplog.records if record.exc_info}
    assert shown == {"a mistake in a flow"}
