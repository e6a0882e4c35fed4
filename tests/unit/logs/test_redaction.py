"""No secret in a line: those that are known by value, and those that are known by their place."""

import io
import json
import logging
import sys

import pytest

from headrace.logs import hide, safe_text, written
from headrace.logs.redaction import hide_environment
from headrace.settings import Settings

SECRET = "c2VjcmV0LW9mLXRlc3Q="


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr("headrace.logs.redaction._known", set())


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{SECRET}@example.com/path",
        f"https://{SECRET}@example.com/path",
        f"Authorization: Bearer {SECRET}",
        f"Authorization: token {SECRET}",
        f"{{'CB-ACCESS-PASSPHRASE': '{SECRET}', 'x': 1}}",
        f'{{"client_secret": "{SECRET}"}}',
        f"aws_secret_access_key={SECRET}",
        f"POST /login?client_id=x&client_secret={SECRET}&y=1",
        f"password = {SECRET}, next",
        f"PREFECT_API_KEY={SECRET}",
        f"X-Amz-Security-Token={SECRET}&X=1",
    ],
)
def test_a_secret_in_its_place_is_hidden(text):
    assert SECRET not in safe_text(text)
    assert "[hidden]" in safe_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "lost the lease on product:coinbase:BTC-USD (token 17): taken over",
        "fencing_token=17",
        "token: 17",
        "the secret of a good run is a good lease",
        "https://api.exchange.coinbase.com/products/BTC-USD/trades?after=5",
        "s3://bucket/prefix/part-000000000001-000000128000.parquet",
    ],
)
def test_what_is_no_secret_stays(text):
    assert safe_text(text) == text


def test_known_values_are_hidden_wherever_they_stand():
    hide(SECRET, None, "", "abc")

    assert safe_text(f"the body said {SECRET!r}") == "the body said '[hidden]'"
    assert safe_text("abc") == "abc"  # too short to be replaced in every line


def test_the_environment_says_what_is_secret():
    hide_environment({"AWS_SECRET_ACCESS_KEY": SECRET, "MY_TOKEN": "tok-123456", "HOME": "/home"})

    assert safe_text(f"{SECRET} tok-123456 /home") == "[hidden] [hidden] /home"


@pytest.mark.parametrize("form", ["json", "human"])
def test_no_part_of_a_line_shows_one(monkeypatch, form):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    hide(SECRET)
    log = logging.getLogger("headrace.tests")
    with written(Settings(log_format=form)):
        try:
            raise RuntimeError(f"refused with {SECRET}")
        except RuntimeError:
            facts = {"header": SECRET, "nested": {"header": SECRET}, "path": SECRET.encode()}
            log.exception("said %s", SECRET, extra={"facts": {**facts, "product": SECRET}})

    assert SECRET not in stream.getvalue()
    if form == "json":
        assert json.loads(stream.getvalue())["header"] == "[hidden]"
