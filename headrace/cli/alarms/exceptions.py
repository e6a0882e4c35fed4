"""What can go wrong with alarms."""

from __future__ import annotations

from headrace.errors import ConfigurationError


class NoSuchBlock(ConfigurationError):
    """The block that messages should go through is not there."""

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"--to {reference}: the Prefect server has no such block",
            hint="Make it in the UI (Blocks) and name it as TYPE/NAME, such as slack-webhook/ops",
        )
        self.reference = reference
