"""Every kind of block explains itself, and nothing secret in it is ever shown."""

from __future__ import annotations

import re

import pytest
from pydantic import SecretStr

from blocks import Exchange, Lake
from blocks.registering import block_types

KINDS = block_types()
FIELDS = [
    pytest.param(kind, name, id=f"{kind.get_block_type_slug()}-{name}")
    for kind in KINDS
    for name in kind.model_fields
]
#: `access_key_id` names a key and is none; limits in seconds and the like are none either.
_SECRET = re.compile(r"(^|_)(key|secret|passphrase|password|token|secret_access_key)$")


def test_all_kinds_are_found() -> None:
    slugs = {kind.get_block_type_slug() for kind in KINDS}
    assert {f"headrace-{name}" for name in ("checkpoint", "exchange", "lake", "quota")} <= slugs
    assert all(slug.startswith("headrace-") for slug in slugs)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.get_block_type_slug())
def test_a_kind_is_described_with_an_example(kind) -> None:
    assert len(kind.get_description() or "") > 20
    example = kind.get_code_example() or ""
    assert "```python" in example
    assert f"import {kind.__name__}" in example


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_a_field_is_described(kind, name) -> None:
    assert kind.model_fields[name].description


def test_what_is_secret_is_a_secret_field() -> None:
    secrets = {
        (kind.get_block_type_slug(), name): kind
        for kind in KINDS
        for name in kind.model_fields
        if _SECRET.search(name)
    }
    assert {("headrace-exchange", "secret"), ("headrace-lake", "secret_access_key")} <= set(secrets)
    for (_, name), kind in secrets.items():
        annotation = kind.model_fields[name].annotation
        assert SecretStr in (annotation, *getattr(annotation, "__args__", ())), (kind, name)
        assert name in " ".join(kind.model_json_schema()["secret_fields"])


def test_a_secret_is_in_no_text_of_a_block() -> None:
    exchange = Exchange(key="k-1234", secret="c2VjcmV0", passphrase="open-sesame")
    lake = Lake(location="s3://bucket/x", secret_access_key="s3-secret-9")
    texts = [repr(exchange), str(exchange), exchange.model_dump_json(), repr(lake), str(lake)]
    for secret in ("k-1234", "c2VjcmV0", "open-sesame", "s3-secret-9"):
        assert not any(secret in text for text in texts)
