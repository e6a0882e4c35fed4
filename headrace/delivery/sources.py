"""Where requests come from: a file of JSON lines, or a pattern."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlencode

import msgspec

from headrace.delivery.exceptions import SourceUnreadable
from headrace.delivery.model import ApiRequest
from headrace.paths import user_path
from headrace.stopping import StopEvent

#: Standard input.
STDIN = "-"
#: Lines that are read at once.
BATCH = 50
_LONGEST_LINE = 4 << 20


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One line of a file."""

    path: str
    method: str = "GET"
    query: dict[str, str | int | float | bool] = {}
    body: msgspec.Raw = msgspec.Raw()
    ttl_s: float | None = None
    idempotent: bool | None = None


_DECODER = msgspec.json.Decoder(_Line)


def read_requests(
    source: str, *, ttl_s: float | None = None, skip: int = 0
) -> Iterator[tuple[int, list[ApiRequest]]]:
    """The requests of a file, a batch at a time, each with the lines read so far.

    Args:
        source: the file; `-` for standard input.
        ttl_s: of requests that name none.
        skip: lines that were read before.

    Raises:
        SourceUnreadable: the file cannot be read, or naming the first line that is no request. What
            came before it was yielded.
    """
    try:
        opened = nullcontext(sys.stdin.buffer) if source == STDIN else user_path(source).open("rb")
        with opened as lines:
            yield from _batches(lines, source, ttl_s, skip)
    except OSError as error:
        raise SourceUnreadable(source, error.strerror or str(error)) from error


def _batches(
    lines: BinaryIO, source: str, ttl_s: float | None, skip: int
) -> Iterator[tuple[int, list[ApiRequest]]]:
    batch: list[ApiRequest] = []
    number = 0
    for number, line in enumerate(iter(lambda: lines.readline(_LONGEST_LINE + 1), b""), 1):
        if number <= skip or not line.strip():
            continue
        try:
            batch.append(parse_line(line, ttl_s))
        except ValueError as error:
            if batch:
                yield number - 1, batch
            raise SourceUnreadable(source, str(error), line=number) from error
        if len(batch) == BATCH:
            yield number, batch
            batch = []
    if batch:
        yield number, batch


def parse_line(line: bytes, ttl_s: float | None = None) -> ApiRequest:
    """The request of one line.

    Raises:
        ValueError: saying why it is none.
    """
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"the line is longer than {_LONGEST_LINE:,} bytes")
    try:
        found = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no request ({error})") from error
    path = found.path
    if found.query:
        path += ("&" if "?" in path else "?") + urlencode(found.query)
    return ApiRequest(
        path,
        found.method.upper(),
        bytes(found.body) or None,
        ttl_s if found.ttl_s is None else found.ttl_s,
        found.idempotent,
    )


def check_source(source: str) -> None:
    """Look through a file before any of its requests is sent; what can be read only once is not.

    Raises:
        SourceUnreadable: as `read_requests`.
    """
    if source_name(source):
        for _ in read_requests(source):
            pass


def source_name(source: str) -> str:
    """What a journal knows a file by: one that was changed is another. Empty for a pipe.

    Raises:
        SourceUnreadable: there is no such file, or it is a folder.
    """
    path = Path(user_path(source))
    if source != STDIN and path.is_dir():
        raise SourceUnreadable(source, "it is a folder")
    if source == STDIN or (path.exists() and not path.is_file()):
        return ""
    try:
        found = path.stat()
    except OSError as error:
        raise SourceUnreadable(source, error.strerror or str(error)) from error
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def made_requests(
    *,
    path: str,
    count: int,
    seconds: float,
    per_s: float,
    ttl_s: float | None,
    stop: StopEvent,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[ApiRequest]]:
    """`GET` requests of one path, each with a `req_id` of its own, a batch at a time.

    Args:
        path: of all of them.
        count: how many; 0 for as many as `seconds` allow.
        seconds: for how long; 0 for as long as `count` takes.
        per_s: how many are offered a second; 0 for as many as are taken.
        ttl_s: of each.
        stop: ends it.
    """
    began_s = clock()
    joint = "&" if "?" in path else "?"
    made = 0
    while True:
        if (count and made >= count) or (seconds and clock() - began_s >= seconds):
            return
        due = int((clock() - began_s) * per_s) + 1 - made if per_s else BATCH
        if due <= 0:
            stop.sleep(min(1.0, began_s + made / per_s - clock()))
            continue
        size = min(due, BATCH, count - made if count else BATCH)
        yield [
            ApiRequest(f"{path}{joint}req_id={made + place}", ttl_s=ttl_s)
            for place in range(1, size + 1)
        ]
        made += size
