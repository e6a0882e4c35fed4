"""What a Looker may answer besides what is asked for; the rest is as for an exchange.

Transient errors (throttled, 5xx, time-outs, broken connections, bodies that are none) are those of
`headrace.exchange.exceptions`, distinguished by status and shape, never by words.
"""

from __future__ import annotations

from headrace.errors import ConfigurationError
from headrace.wire.exceptions import PermanentError, ServerError


class NotFound(PermanentError):
    """There is no such item (404), or none that the caller may see."""


class AccessRefused(PermanentError):
    """The caller may not see it (403), or is not believed even with a new token (401)."""


class AppError(ServerError):
    """Looker itself failed (500, as against 502 to 504 before it): most often at one item alone."""


class LoginRefused(ConfigurationError):
    """Looker does not take the credentials."""

    def __init__(self, base_url: str, status: int | None) -> None:
        super().__init__(
            f"{base_url} refuses the login ({status})",
            hint="Look at LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or at the Looker block",
        )
        self.base_url = base_url
        self.status = status


class NoCredentials(ConfigurationError):
    """The address, the client id or the secret is missing."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"no Looker to ask: {missing} is not set",
            hint="Set LOOKERSDK_BASE_URL, LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or save "
            "a Looker block and name it with --base-url block:NAME",
        )
        self.missing = missing
