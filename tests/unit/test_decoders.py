"""Decoders of msgspec are made with their types: it crashes where threads do that at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import headrace

#: What threads of a run read; commands read the rest with one.
SHARED = ("lake", "manifests", "products", "sot/embedded", "unified", "exchange", "quota")


@pytest.mark.parametrize("package", SHARED)
def test_no_type_is_met_for_the_first_time_by_a_thread(package: str) -> None:
    files = sorted((Path(headrace.__file__).parent / package).rglob("*.py"))
    assert files
    found = [
        f"{file.name}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("msgspec.json.decode", "msgspec.msgpack.decode")
        and any(keyword.arg == "type" for keyword in node.keywords)
    ]
    assert found == []
