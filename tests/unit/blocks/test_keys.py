"""Keys that cannot be sent are refused by name when a block is used, before anything is asked."""

from __future__ import annotations

import pytest

from blocks import Exchange, Lake, Looker
from headrace.errors import ConfigurationError

GOOD = {
    "exchange": (Exchange, {"key": "k123", "secret": "c2VjcmV0", "passphrase": "open sesame"}),
    "looker": (
        Looker,
        {"base_url": "https://a.example", "client_id": "me-77", "client_secret": "secret-9"},
    ),
    "lake": (
        Lake,
        {
            "location": "s3://bucket/x",
            "access_key_id": "AKID",
            "secret_access_key": "secret/9+",
            "session_token": "token==",
        },
    ),
}
USES = {"exchange": "credentials", "looker": "connection", "lake": "_s3"}
FIELDS = [
    (kind, field)
    for kind, (_, fields) in GOOD.items()
    for field in fields
    if field not in ("base_url", "location")
]
BAD = {
    "echo": "{}\n",
    "windows": "{}\r\n",
    "pasted": " {}",
    "two lines": "{0}\n{0}",
    "typographic": "{}\u2019",
}


@pytest.mark.parametrize("shape", BAD)
@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_key_that_cannot_be_sent_is_refused_by_name(kind, field, shape) -> None:
    block, fields = GOOD[kind]
    getattr(block(**fields), USES[kind])()
    broken = BAD[shape].format(fields[field])
    with pytest.raises(ConfigurationError) as refused:
        getattr(block(**{**fields, field: broken}), USES[kind])()
    assert field.removeprefix("client_") in str(refused.value)
    assert broken.strip() not in str(refused.value)
