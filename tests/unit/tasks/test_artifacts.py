"""The progress bar in the UI: how far it is, and how seldom the API hears of it."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import uuid4

import pytest

from headrace.pull.job import pull_progress
from headrace.run.progress import RunProgress
from tasks import kernel
from tasks.kernel import REST_S, ProgressArtifact
from tasks.sot_run import RecordProgress


def progress_of(*products: tuple[str, int, int]) -> RunProgress:
    progress = pull_progress()
    for number, (state, done, total) in enumerate(products):
        entry = progress.part(f"P{number}")
        entry.state, entry.done, entry.total = state, done, total
    return progress


@pytest.mark.parametrize(
    ("products", "percent"),
    [
        ((), 0.0),
        ((("planning", 0, 0),), 0.0),
        ((("fetching", 5, 10),), 50.0),
        ((("done", 7, 10),), 100.0),
        ((("done", 0, 0), ("fetching", 0, 3)), 25.0),
        ((("failed", 2, 10),), 20.0),
        ((("fetching", 12, 10), ("fetching", 0, 10)), 50.0),
    ],
)
def test_how_far_a_run_is(products, percent) -> None:
    assert progress_of(*products).percent() == percent


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The artifact API and a clock, in the hands of the test."""
    api = SimpleNamespace(now=100.0, updates=[], down=False)

    def require_api() -> None:
        if api.down:
            raise OSError("connection refused")

    def create(*, progress: float, key: str, description: str) -> object:
        api.updates.append(progress)
        return uuid4()

    monkeypatch.setattr(kernel, "require_api", require_api)
    monkeypatch.setattr(kernel, "create_progress_artifact", create)
    monkeypatch.setattr(
        kernel,
        "update_progress_artifact",
        lambda _id, *, progress, description: api.updates.append(progress),
    )
    monkeypatch.setattr(kernel, "time", SimpleNamespace(monotonic=lambda: api.now))
    return api


def test_it_is_updated_once_a_second_at_most_and_at_the_end(api: SimpleNamespace) -> None:
    progress = progress_of(("fetching", 0, 100))
    with ProgressArtifact(progress) as shown:
        for _ in range(50):
            api.now += 0.1
            progress.add("P0", done=1, rows=1000)
            shown.tick()
        progress.end("P0", "done")
    assert api.updates == [0.0, 11.0, 22.0, 33.0, 44.0, 100.0]


def test_an_api_that_is_gone_is_left_alone_for_a_while(api: SimpleNamespace) -> None:
    with ProgressArtifact(progress_of(("fetching", 1, 2))) as shown:
        api.down = True
        api.now += 2
        shown.tick()
        api.down = False
        api.now += REST_S / 2
        shown.tick()
        assert len(api.updates) == 1
        api.now += REST_S
        shown.tick()
        assert len(api.updates) == 2


def test_work_without_a_known_end_is_full_when_it_ends_well(api: SimpleNamespace) -> None:
    with ProgressArtifact(RecordProgress(), "key", ends_full=True):
        api.now += 2
    assert api.updates == [0.0, 100.0]


def test_and_not_when_it_breaks_off(api: SimpleNamespace) -> None:
    with (
        pytest.raises(OSError, match="torn"),
        ProgressArtifact(RecordProgress(), "key", ends_full=True),
    ):
        raise OSError("torn")
    assert api.updates == [0.0]
