"""The probe of a lake, one missing right at a time."""

import pytest

from headrace.doctor import Severity
from headrace.doctor.checks.storage import check_lake
from headrace.lake.exceptions import StoreDenied, StoreUnavailable
from tests.support.stores import MemoryStore


class Bucket(MemoryStore):
    """A bucket that refuses one method."""

    location = "s3://bucket/lake"

    def __init__(self, refused, error=None):
        super().__init__()
        error = error or StoreDenied(refused, self.location, "403", hint=f"Allow {refused}")

        def refuse(*_):
            raise error

        if refused:
            setattr(self, refused, refuse)


@pytest.mark.parametrize(
    ("refused", "what"),
    [("entries", "listed"), ("put", "written"), ("get", "read"), ("delete", "cleaned")],
)
def test_the_one_right_that_is_missing_is_named(target, refused, what):
    store = Bucket(refused)
    [finding] = check_lake(target(open_store=lambda: store))

    assert finding.severity is Severity.PROBLEM
    assert f"cannot be {what}" in finding.what
    assert finding.remedy == f"Allow {refused}"
    assert ("is left there" in finding.what) == (refused == "delete")
    assert bool(store.objects) == (refused == "delete")


def test_a_store_that_is_sound_is_left_clean(target):
    store = Bucket("")
    [finding] = check_lake(target(open_store=lambda: store))

    assert finding.severity is Severity.OK
    assert store.objects == {}


def test_a_store_that_does_not_answer_is_not_asked_again(target):
    away = StoreUnavailable("ListObjectsV2", "s3://bucket", "away", attempts=3, elapsed_s=4.0)
    [finding] = check_lake(target(open_store=lambda: Bucket("entries", away)))

    assert "does not answer" in finding.what
