"""Bodies that Looker really sent, where they lie: through the vault byte for byte."""

import json
from pathlib import Path

import pytest
from looker_sdk.rtl import serialize
from looker_sdk.sdk.api40 import models
from support.vaults import new_vault

from headrace.looker.vault import item_of

_FOLDER = Path(__file__).parents[4] / "shared" / "cases" / "files" / "looker"
_BODIES = {
    "gzr_Dashboard_17_FAA_KPIs.json": "dashboard",
    "sdkcodegen_jsonDashboard2_redacted.json": "dashboard",
    "gzr_look_198.json": "look",
    "sdkcodegen_jsonUser_redacted.json": "user",
}


@pytest.mark.parametrize(("name", "type_"), list(_BODIES.items()))
def test_real_bodies_survive_byte_for_byte(tmp_path: Path, name: str, type_: str) -> None:
    if not (_FOLDER / name).exists():
        pytest.skip("the recorded bodies are not here")
    raw = (_FOLDER / name).read_bytes()
    parsed = json.loads(raw)
    item = item_of(type_, raw)
    assert item.id == str(parsed["id"])
    assert item.name == parsed.get("title", parsed.get("display_name"))
    with new_vault(tmp_path) as vault:
        session = vault.sessions.begin("extract")
        vault.upsert_many(session, [item])
        assert vault.contents.body(type_, item.id).body == raw
        row = vault.contents.row(type_, item.id)
    assert row is not None
    for field in ("created_at", "updated_at"):
        # Whatever form they had, they can be read, and say UTC.
        assert (getattr(row, field) or "Z").endswith("Z") or parsed.get(field) is None
        assert bool(getattr(row, field)) == bool(parsed.get(field))


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


def test_real_lists_of_models_are_taken_apart(tmp_path: Path) -> None:
    path = _FOLDER / "spectacles_response_models.json"
    if not path.exists():
        pytest.skip("the recorded bodies are not here")
    models = json.loads(path.read_bytes())
    items = [item_of("lookml_model", json.dumps(model).encode()) for model in models]
    assert [item.id for item in items] == [model["name"] for model in models]
