"""What can go wrong around the delivery of requests."""

from __future__ import annotations

from headrace.errors import CHECK_STATE_FOLDER, ConfigurationError, PlaceError, StateError


class JournalUnavailable(PlaceError, StateError):
    """The journal cannot be used: without it no request is accepted, and none leaves."""

    said = "the journal of requests {where} cannot be used: {reason}"
    way_out = CHECK_STATE_FOLDER


class SourceUnreadable(ConfigurationError):
    """A file of requests cannot be read, or one of its lines is no request.

    Attributes:
        source: the file as it was given.
        line: its number, from 1; None if it is about the whole file.
    """

    def __init__(self, source: str, problem: str, *, line: int | None = None) -> None:
        where = "standard input" if source == "-" else source
        where += "" if line is None else f", line {line}"
        super().__init__(
            f"{where}: {problem}",
            hint="A line is a JSON object: method, path, query, body, ttl_s, idempotent; only path "
            "must be there",
        )
        self.source = source
        self.line = line
