"""Signed requests."""

from __future__ import annotations

import pytest

from headrace.sim import ApiKey
from headrace.sim.http import Request
from headrace.sim.signing import SignatureCheck

KEY = ApiKey.model_validate({"key": "k1", "secret": "c2VjcmV0", "passphrase": "open"})
WALL_S = 1_700_000_000.0
TARGET = "/products/BTC-USD/trades?after=5001"


def request(**changed: str) -> Request:
    timestamp = changed.get("cb-access-timestamp", str(WALL_S))
    try:
        signature = KEY.sign(timestamp, "GET", TARGET)
    except ValueError:
        signature = ""
    headers = {
        "cb-access-key": "k1",
        "cb-access-sign": signature,
        "cb-access-timestamp": timestamp,
        "cb-access-passphrase": "open",
        **changed,
    }
    return Request("GET", TARGET, TARGET.partition("?")[0], {"after": "5001"}, headers, b"", 0.0)


def test_the_signature_is_the_documented_one() -> None:
    # Computed apart:
    # printf 1700000000GET/products | openssl dgst -sha256 -hmac secret -binary | base64
    expected = "5cPoettSAwfXChMM4nAFitRrgvh9qUjqAUZ/jMRioHc="
    assert KEY.sign("1700000000", "GET", "/products") == expected


def test_without_keys_everybody_may_ask() -> None:
    assert SignatureCheck([]).refuse(request(**{"cb-access-key": ""}), WALL_S) is None


def test_a_good_signature_passes() -> None:
    assert SignatureCheck([KEY]).refuse(request(), WALL_S) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cb-access-key": ""}, "CB-ACCESS-KEY header is required"),
        ({"cb-access-sign": ""}, "CB-ACCESS-SIGN header is required"),
        ({"cb-access-key": "k2"}, "Invalid API Key"),
        ({"cb-access-passphrase": "sesame"}, "Invalid Passphrase"),
        ({"cb-access-sign": "AAAA"}, "invalid signature"),
        ({"cb-access-sign": "ü"}, "invalid signature"),
        ({"cb-access-timestamp": "soon"}, "invalid timestamp"),
        ({"cb-access-timestamp": "nan"}, "request timestamp expired"),
        ({"cb-access-timestamp": str(WALL_S - 31)}, "request timestamp expired"),
    ],
)
def test_anything_else_is_a_401(changed: dict[str, str], message: str) -> None:
    refusal = SignatureCheck([KEY]).refuse(request(**changed), WALL_S)
    assert refusal is not None
    assert refusal.status == 401
    assert message.encode() in refusal.body


def test_a_signature_for_another_page_is_refused() -> None:
    other = request(**{"cb-access-sign": KEY.sign(str(WALL_S), "GET", "/products/BTC-USD/trades")})
    assert SignatureCheck([KEY]).refuse(other, WALL_S) is not None


def test_a_secret_that_is_not_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="base64"):
        ApiKey.model_validate({"key": "k", "secret": "not base64!", "passphrase": "p"})
