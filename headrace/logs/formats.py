"""A record as one line, for people or for machines."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.logs.context import FIELDS, about_now
from headrace.logs.redaction import safe_text


class HumanFormatter(logging.Formatter):
    """`2026-01-31T23:59:59Z WARNING run=1f2e... product=BTC-USD chunk=1-128000 what happened`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        known = about_record(record)
        words = [f"{_moment(record):%Y-%m-%dT%H:%M:%SZ}", record.levelname]
        words += [f"{name}={known[name]}" for name in FIELDS if name in known]
        return " ".join([*map(safe_text, words), text_of(record)])


class JsonFormatter(logging.Formatter):
    """One object: time, level, logger, message, run, product, chunk (null where not known).

    What the record brings as `extra={"event": ..., "facts": {...}}` stands beside them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        facts: Mapping[str, Any] = getattr(record, "facts", {})
        trace = {}
        if record.exc_info and record.exc_info[0]:
            trace["traceback"] = safe_text("".join(traceback.format_exception(*record.exc_info)))
        return json_line(
            record.levelname.lower(),
            safe_text(record.getMessage()),
            logger=record.name,
            moment=_moment(record),
            known=about_record(record),
            facts={"event": getattr(record, "event", None), **facts, **trace},
        )


def json_line(
    level: str,
    message: str,
    *,
    logger: str = "headrace",
    moment: datetime | None = None,
    known: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> str:
    """A line as `JsonFormatter` writes it, for what is said without a record.

    Facts that are None are left out; those that would hide a field of every line as well.
    """
    known = about_now() if known is None else known
    line: dict[str, Any] = {
        "time": (moment or datetime.now(UTC)).isoformat(timespec="milliseconds"),
        "level": level,
        "logger": logger,
        "message": message,
        **{name: _safe(known.get(name)) for name in FIELDS},
    }
    for name, value in (facts or {}).items():
        if value is not None:
            line.setdefault(name, _safe(value))
    return msgspec.json.encode(line).decode()


def about_record(record: logging.LogRecord) -> dict[str, str]:
    """What a record is about: its facts know best, then the thread that made it."""
    facts: Mapping[str, Any] = getattr(record, "facts", {})
    known = about_now()
    known.update({name: str(facts[name]) for name in FIELDS if facts.get(name)})
    return known


def text_of(record: logging.LogRecord) -> str:
    """The message, with the kind and the words of an exception that it came with."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        text += f" ({type(error).__name__}: {error})"
    return safe_text(text)


def _safe(value: Any) -> Any:
    """The value as JSON has it, each text in it without secrets and line breaks."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {safe_text(str(name)): _safe(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_safe(inner) for inner in value]
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return safe_text(str(value))


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
