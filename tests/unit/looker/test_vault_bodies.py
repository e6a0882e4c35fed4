"""Bodies as Lookers write them: through the vault byte for byte."""

import json
from pathlib import Path

import pytest
from looker_sdk.rtl import serialize
from looker_sdk.sdk.api40 import models
from support.looker_bodies import WRITTEN, Written
from support.vaults import new_vault

from headrace.looker.vault import item_of


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: f"{written.type} {written.id}")
def test_bodies_survive_byte_for_byte(tmp_path: Path, written: Written) -> None:
    item = item_of(written.type, written.raw)
    assert (item.id, item.name) == (written.id, written.name)
    with new_vault(tmp_path) as vault:
        session = vault.sessions.begin("extract")
        vault.upsert_many(session, [item])
        assert vault.contents.body(written.type, item.id).body == written.raw
        row = vault.contents.row(written.type, item.id)
    assert row is not None
    # Whatever form they had, they can be read, and say UTC.
    assert (row.created_at, row.updated_at) == (written.created_at, written.updated_at)


def test_what_the_models_of_the_sdk_would_lose_or_refuse_is_kept(tmp_path: Path) -> None:
    raw = (
        b'{"id":"7","title":"x","created_at":"2018-02-05 20:33:54 +0000","tomorrow":{"a":[1.50]},'
        b'"dashboard_elements":[{"id":"1","query":{"limit":"500"},"kind_of_tomorrow":"x"}]}'
    )
    with pytest.raises(Exception):  # noqa: B017 - whatever the SDK raises: a query needs a model
        serialize.deserialize40(data=raw.decode(), structure=models.Dashboard)
    readable = raw.replace(b'"query":{"limit":"500"},', b"")
    parsed = serialize.deserialize40(data=readable.decode(), structure=models.Dashboard)
    assert b"tomorrow" not in serialize.serialize40(api_model=parsed)
    with new_vault(tmp_path) as vault:
        vault.upsert_many(vault.sessions.begin("extract"), [item_of("dashboard", raw)])
        assert vault.contents.body("dashboard", "7").body == raw


def test_lists_of_models_are_taken_apart() -> None:
    names = ["thelook", "faa"]
    listed = [{"explores": [], "has_content": True, "label": "L", "name": name} for name in names]
    items = [item_of("lookml_model", json.dumps(model).encode()) for model in listed]
    assert [item.id for item in items] == names
