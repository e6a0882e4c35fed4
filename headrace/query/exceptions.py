"""What can go wrong with a query."""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError


class QueryRefused(ConfigurationError):
    """The SQL text cannot be run: it is broken, or would do more than read the lake."""


class QueryFailed(HeadraceError):
    """The query was begun, and could not be brought to its end."""
