"""Requests from files and made ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.delivery.exceptions import SourceUnreadable
from headrace.delivery.model import ApiRequest
from headrace.delivery.sources import (
    check_source,
    made_requests,
    parse_line,
    read_requests,
    source_name,
)
from headrace.stopping import StopEvent


def test_lines_in_full() -> None:
    line = (
        b'{"method": "post", "path": "/orders?a=1", "query": {"b": "x y", "c": 2, "d": 0.5},'
        b' "body": {"size": "1.10"}, "ttl_s": 1.5, "idempotent": true}'
    )
    request = parse_line(line, ttl_s=9.0)
    assert request == ApiRequest(
        "/orders?a=1&b=x+y&c=2&d=0.5", "POST", b'{"size": "1.10"}', 1.5, idempotent=True
    )
    assert request.may_repeat
    assert parse_line(b'{"path": "/a"}', ttl_s=9.0) == ApiRequest("/a", ttl_s=9.0)
    assert not parse_line(b'{"path": "/a", "method": "PATCH"}').may_repeat


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "no request"),
        (b"nonsense", "no request"),
        (b"[]", "object"),
        (b'{"method": "GET"}', "path"),
        (b'{"path": "no slash"}', "path"),
        (b'{"path": "/a b"}', "path"),
        (b'{"path": "/a\\r\\nX: y"}', "path"),
        (b'{"path": "/a", "method": "EAT"}', "EAT"),
        (b'{"path": "/a", "ttl_s": 0}', "ttl_s"),
        (b'{"path": "/a", "ttl_s": -1}', "ttl_s"),
        (b'{"path": "/a", "ttl": 1}', "ttl"),
        (b'{"path": "/a", "query": {"b": []}}', "query"),
        (b'{"path": "\xff"}', "no request"),
        (b"[" * 100_000, "no request"),
    ],
)
def test_a_line_that_is_no_request_says_why(line: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_line(line)


def test_a_file_is_read_in_batches_from_where_a_run_ended(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"path": "/{n}"}}\n' for n in range(1, 121)) + "\n\n")
    read = list(read_requests(str(path)))
    assert [(lines, len(batch)) for lines, batch in read] == [(50, 50), (100, 50), (122, 20)]
    assert [each.path for _, batch in read for each in batch] == [f"/{n}" for n in range(1, 121)]
    assert [b[0].path for _, b in read_requests(str(path), skip=100)] == ["/101"]
    assert list(read_requests(str(path), skip=120)) == []


def test_what_comes_before_a_bad_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"path": "/1"}\n\n{"path": "/3"}\noops\n{"path": "/5"}\n')
    found = []
    with pytest.raises(SourceUnreadable, match=r"in\.jsonl, line 4: no request") as raised:
        found.extend(read_requests(str(path)))
    assert raised.value.line == 4
    assert [(lines, [each.path for each in batch]) for lines, batch in found] == [(3, ["/1", "/3"])]


def test_a_file_is_looked_through_before_anything_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"path": "/1"}\n' * 60)
    check_source(str(path))
    check_source("-")  # standard input is read only once
    with path.open("a") as file:
        file.write("oops\n")
    with pytest.raises(SourceUnreadable, match="line 61"):
        check_source(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for source in (tmp_path / "absent", tmp_path):
        with pytest.raises(SourceUnreadable):
            list(read_requests(str(source)))
    with pytest.raises(SourceUnreadable, match="No such file"):
        source_name(str(tmp_path / "absent"))
    with pytest.raises(SourceUnreadable, match="it is a folder"):
        check_source(str(tmp_path))


def test_standard_input_is_named_in_words() -> None:
    assert str(SourceUnreadable("-", "no request", line=2)).startswith("standard input, line 2: ")


def test_a_changed_file_is_another(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("{}\n")
    name = source_name(str(path))
    assert name == source_name(str(path))
    path.write_text("{}\n{}\n")
    assert source_name(str(path)) != name
    assert source_name("-") == ""


def test_made_requests_count_and_pace() -> None:
    now = [0.0]

    class Stop(StopEvent):
        def sleep(self, seconds: float) -> None:
            now[0] += max(seconds, 1e-4)

    def made(**options: Any) -> list[ApiRequest]:
        now[0] = 0.0
        given: dict[str, Any] = {"count": 0, "seconds": 0.0, "per_s": 0.0, **options}
        batches = made_requests(
            path="/r?x=1", ttl_s=2.0, stop=Stop(), clock=lambda: now[0], **given
        )
        return [each for batch in batches for each in batch]

    assert made(count=3) == [ApiRequest(f"/r?x=1&req_id={n}", ttl_s=2.0) for n in (1, 2, 3)]
    assert len(made(count=120)) == 120
    paced = made(seconds=10.0, per_s=20.0)
    assert 199 <= len(paced) <= 201
    assert len({each.path for each in paced}) == len(paced)
    assert len(made(count=30, per_s=1000.0)) == 30
    assert now[0] == pytest.approx(0.03, abs=0.005)
