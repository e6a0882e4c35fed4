"""The forms that the UI shows: each field explains itself, and a wrong value is refused.

The server checks a run's parameters against the schema of its deployment with the function used
here, whether they come from the form, from `prefect deployment run` or from the API.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import is_valid_schema, validate

from headrace.errors import ConfigurationError
from headrace.products.listing import canonical_products
from headrace.pull.request import parse_moment, parse_span
from headrace.quota import parse_rates
from headrace.wire.transport import check_base_url

PROJECT = Path(__file__).parents[3]
DEPLOYMENTS = yaml.safe_load((PROJECT / "prefect.yaml").read_text())["deployments"]
ENTRYPOINTS = sorted({deployment["entrypoint"] for deployment in DEPLOYMENTS})


@cache
def schema_of(entrypoint: str) -> dict:
    path, function = entrypoint.split(":")
    module = import_module(".".join(Path(path).with_suffix("").parts))
    return parameter_schema(getattr(module, function)).model_dump(exclude_unset=True)


FIELDS = [
    pytest.param(entrypoint, name, id=f"{Path(entrypoint).stem.split(':')[0]}-{name}")
    for entrypoint in ENTRYPOINTS
    for name in schema_of(entrypoint)["properties"]
]
BACKFILL = schema_of("flows/backfill.py:backfill")
AUDIT = schema_of("flows/audit.py:audit")


def problems(schema: dict, **given) -> list[str]:
    found = validate(given, schema, preprocess=False, ignore_required=False)
    return [".".join(map(str, problem.path)) for problem in found]


@pytest.mark.parametrize("entrypoint", ENTRYPOINTS)
def test_the_server_takes_the_schema(entrypoint):
    is_valid_schema(schema_of(entrypoint))


@pytest.mark.parametrize(("entrypoint", "name"), FIELDS)
def test_a_field_explains_itself(entrypoint, name):
    schema = schema_of(entrypoint)
    field = schema["properties"][name]
    assert field["title"] != name
    assert field["title"][0].isupper()
    assert len(field["description"]) > 10
    assert field["examples"]
    assert "default" in field or name in schema["required"]


@pytest.mark.parametrize(("entrypoint", "name"), FIELDS)
def test_a_field_has_one_kind_and_flat(entrypoint, name):
    """Unions and nested models make the UI's form jump or crash."""
    field = schema_of(entrypoint)["properties"][name]
    assert not {"anyOf", "allOf", "oneOf", "$ref"} & field.keys()
    assert field["type"] in ("string", "integer", "number", "boolean", "array")


@pytest.mark.parametrize(("entrypoint", "name"), FIELDS)
def test_a_number_has_a_bound(entrypoint, name):
    field = schema_of(entrypoint)["properties"][name]
    if field["type"] in ("integer", "number"):
        assert {"minimum", "exclusiveMinimum"} & field.keys()


@pytest.mark.parametrize(("entrypoint", "name"), FIELDS)
def test_defaults_and_examples_are_valid(entrypoint, name):
    schema = schema_of(entrypoint)
    field = schema["properties"][name]
    alone = {**schema, "required": []}
    defaults = [field["default"]] if "default" in field else []
    for value in [*field["examples"], *defaults]:
        assert problems(alone, **{name: value}) == [], value


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("products", ["BTC/USD"]),
        ("products", ["../etc"]),
        ("products", [""]),
        ("products", "BTC-USD"),
        ("from_id", -1),
        ("from_id", "many"),
        ("to_id", 1.5),
        ("since", "yesterday"),
        ("until", "2024-1-1"),
        ("last", "1 fortnight"),
        ("last", "0h"),
        ("dry_run", "perhaps"),
        ("pages_per_chunk", 1001),
        ("workers", 0),
        ("workers", 51),
        ("chunk_concurrency", 51),
        ("base_url", "ftp://host"),
        ("base_url", "http://user@host"),
        ("rate", "fast"),
        ("rate", "10/s;100/m"),
        ("outage_limit_s", -1),
    ],
)
def test_a_wrong_value_is_refused_and_its_field_named(name, wrong):
    [path] = {
        problem.split(".")[0] for problem in problems(BACKFILL, **{"products": ["A"], name: wrong})
    }
    assert path == name


def test_a_missing_parameter_is_refused():
    writing = schema_of("flows/sot_write.py:sot_write")
    assert problems(writing, source="data/outputs") == []
    assert validate({}, writing, preprocess=False, ignore_required=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [("match", ["*-USD"]), ("set", "usd"), ("all", True), ("from_file", "products.txt")],
)
def test_products_need_no_ids(name, value):
    for schema in (BACKFILL, AUDIT, schema_of("flows/ingest.py:ingest")):
        assert problems(schema, **{name: value}) == []


#: Field, the check behind it, and what both must agree on.
CHECKS = [
    ("since", parse_moment, "2024-01-01"),
    ("since", parse_moment, "2024-01-01T12:00"),
    ("since", parse_moment, "2024-01-01 12:00:30.25"),
    ("since", parse_moment, "2024-01-01T12:00:00Z"),
    ("since", parse_moment, "2024-01-01T12:00:00+02"),
    ("until", parse_moment, "2024-01-01T12:00:00.123456-05:30"),
    ("last", parse_span, "90s"),
    ("last", parse_span, " 2w "),
    ("rate", parse_rates, "15/s"),
    ("rate", parse_rates, "10/s, 100/m"),
    ("rate", parse_rates, "1/500ms"),
    ("rate", parse_rates, "None"),
    ("base_url", check_base_url, "http://127.0.0.1:8080"),
    ("base_url", check_base_url, "HTTPS://api.example.com/v1/"),
    ("base_url", check_base_url, "http://[::1]:80"),
]


@pytest.mark.parametrize(("name", "check", "text"), CHECKS)
def test_a_form_is_never_stricter_than_the_command_line(name, check, text):
    check(text)
    assert problems(BACKFILL, **{"products": ["BTC-USD"], name: text}) == []


@pytest.mark.parametrize("product", ["BTC-USD", "1inch-usd", "BTC.USD", "btc_usd", "A" * 64])
def test_products_that_the_command_takes(product):
    canonical_products([product])
    assert problems(BACKFILL, products=[product]) == []
    assert problems(AUDIT, products=[product]) == []


@pytest.mark.parametrize("product", ["", "-A", "A" * 65, "a b", "Ä"])
def test_products_that_neither_takes(product):
    with pytest.raises(ConfigurationError):
        canonical_products([product])
    assert problems(BACKFILL, products=[product])


@pytest.mark.parametrize("name", ["lake", "base_url", "rate"])
def test_a_block_may_stand_for_a_value(name):
    assert problems(BACKFILL, **{"products": ["BTC-USD"], name: "block:mine"}) == []
