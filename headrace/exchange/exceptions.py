"""What an answer of an exchange can be besides what is asked for; the rest is `headrace.wire`'s."""

from __future__ import annotations

from headrace.wire.exceptions import BadAnswer, PermanentError


class StuckPage(BadAnswer):
    """The answer does not move: it holds ids at or above the cursor it was asked to go below."""


class Contradiction(BadAnswer):
    """The answer denies trades that are known to exist, or shows others under their ids."""

    empty = False


class ValueRefused(BadAnswer):
    """A value in a row cannot be held exactly; the message names the trade and the text."""


class UnknownProduct(PermanentError):
    """The exchange does not know the product (404, or a 400 that says so)."""
